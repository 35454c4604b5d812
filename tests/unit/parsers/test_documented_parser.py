"""The parser that the documentation shows passes the suite that it tells to inherit."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from icestream.parsers import isolation
from icestream.testing.parser_suite import ParserSample, ParserSuite

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "add-a-parser.md"
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MODULE = "documented_parser"


class TestDocumentedParser(ParserSuite):
    parser: ClassVar[str] = f"{MODULE}:parse"
    reads_any_storage: ClassVar[bool] = False

    @pytest.fixture(autouse=True)
    def module(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Install the first program of the page; child processes find it."""
        program = PROGRAM.findall(PAGE.read_text())[0]
        (tmp_path / f"{MODULE}.py").write_text(program)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
        workers = isolation.ScanWorkers()  # those that run already do not see the module
        monkeypatch.setattr(isolation, "_workers", workers)
        yield
        workers.close()

    @pytest.fixture
    def sample(self, tmp_path: Path) -> ParserSample:
        values: Any = np.arange(6, dtype="<f4").reshape(2, 3)
        path = tmp_path / "heights.xyz"
        path.write_bytes(b"2 3\n" + values.tobytes())
        return ParserSample(path, {"/heights": values}, attributes={"/heights": {"units": "m"}})
