"""The obstore library, in a state that works in this process.

obstore runs its requests on threads of its own. A forked child inherits the library but not the
threads, and every request in it would wait for ever. The threads belong to the loaded shared
object, so the child loads a second copy of it, once, when it first needs a client. That costs
about 15 ms, and only processes that were forked pay it.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_PACKAGE = "obstore"
_EXTENSION = "obstore._obstore"


class _Library:
    """The module to use, and the lock that guards loading it."""

    def __init__(self, *, forked: bool) -> None:
        self.forked = forked
        self.lock = threading.Lock()
        self.module: Any = None


_current = _Library(forked=False)


def library() -> Any:
    """Return the obstore package for this process, loading it if needed."""
    current = _current
    if current.module is None:
        with current.lock:
            if current.module is None:
                current.module = _load(forked=current.forked)
    return current.module


def failures() -> tuple[type[BaseException], ...]:
    """Return the classes of everything that a request can raise."""
    base: type[BaseException] = library().exceptions.BaseError
    return (base, OSError, NotImplementedError, ValueError)


def _load(*, forked: bool) -> Any:
    if forked and _EXTENSION in sys.modules:
        return _load_second_copy()
    importlib.import_module("obstore.store")
    return importlib.import_module(_PACKAGE)


def _load_second_copy() -> Any:
    """Import obstore again, with its shared object taken from another file: no state is shared."""
    original = _take_out_modules()
    try:
        with _copy_of(str(original[_EXTENSION].__file__)) as copy, _extension_from(copy):
            importlib.import_module("obstore.store")
            return importlib.import_module(_PACKAGE)
    finally:
        _take_out_modules()
        sys.modules.update(original)


def _take_out_modules() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.partition(".")[0] == _PACKAGE]
    return {name: sys.modules.pop(name) for name in names}


@contextmanager
def _copy_of(file: str) -> Iterator[str]:
    # the loader recognises a shared object by its inode, so a link would not do
    with tempfile.TemporaryDirectory(prefix="icestream-") as folder:
        yield shutil.copy(file, folder)


@contextmanager
def _extension_from(file: str) -> Iterator[None]:
    finder = _ExtensionFinder(file)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _ExtensionFinder(importlib.abc.MetaPathFinder):
    """Finds the extension module of obstore, and only that, at a given file."""

    def __init__(self, file: str) -> None:
        self._file = file

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - the protocol of finders
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> importlib.machinery.ModuleSpec | None:
        """Answer for the extension module; leave all others to the finders that follow."""
        if fullname != _EXTENSION:
            return None
        return importlib.util.spec_from_file_location(fullname, self._file)


def _after_fork() -> None:
    global _current  # noqa: PLW0603 - one library per process, replaced as a whole
    if _current.module is not None or _EXTENSION in sys.modules:
        _abandoned.append(_current)
        _current = _Library(forked=True)


_abandoned: list[_Library] = []
"""Never freed: ending what belongs to threads of the parent could wait for them."""

os.register_at_fork(after_in_child=_after_fork)
