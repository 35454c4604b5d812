"""The tree of errors: as drawn, with stable kinds, fit to cross process borders."""

import inspect
import pickle
import re

import pytest

from icestream import errors
from icestream.errors import ErrorKind, IcestreamError

CLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, IcestreamError)
]


def test_the_tree_is_the_one_drawn_in_the_module() -> None:
    drawn = re.findall(r"^[ │├└─]*([A-Z]\w+Error)\b", errors.__doc__ or "", re.MULTILINE)

    assert sorted(drawn) == sorted(cls.__name__ for cls in CLASSES)


def test_the_tree_is_shallow() -> None:
    depths = {cls: cls.__mro__.index(IcestreamError) for cls in CLASSES}

    assert max(depths.values()) <= 2


def test_kinds_are_unique_texts_made_of_their_names() -> None:
    assert all(kind.value == kind.name.lower().replace("_", "-") for kind in ErrorKind)
    assert len({kind.value for kind in ErrorKind}) == len(ErrorKind.__members__)


@pytest.mark.parametrize("cls", CLASSES)
def test_every_error_survives_pickling(cls: type[IcestreamError]) -> None:
    error = cls("branch 'x' moved", kind=ErrorKind.COMMIT_CONFLICT)
    for name in inspect.signature(cls).parameters.keys() - {"message", "kind"}:
        setattr(error, name, [name])

    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is cls
    assert str(copy) == "branch 'x' moved"
    assert vars(copy) == vars(error)


@pytest.mark.parametrize("cls", CLASSES)
def test_the_text_of_an_error_is_its_message(cls: type[IcestreamError]) -> None:
    assert str(cls("there is no 'x'")) == "there is no 'x'"


@pytest.mark.parametrize("cls", CLASSES)
def test_every_error_has_a_kind_unless_told_otherwise(cls: type[IcestreamError]) -> None:
    assert cls("x").kind is cls.default_kind
    assert cls("x", kind=ErrorKind.IO).kind is ErrorKind.IO
