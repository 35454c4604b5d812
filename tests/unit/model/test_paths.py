import pytest

from icestream.errors import ErrorKind, InvalidInputError
from icestream.model import paths


@pytest.mark.parametrize("path", ["/", "/a", "/a/b", "/ä b", "/a..b"])
def test_absolute_paths_are_well_formed(path):
    assert paths.check_path(path) == path


@pytest.mark.parametrize("path", ["", "a", "/a/", "//", "/a//b", "/./a", "/a/..", "/.."])
def test_other_paths_are_refused(path):
    with pytest.raises(InvalidInputError) as raised:
        paths.check_path(path)
    assert raised.value.kind is ErrorKind.INVALID_PATH


def test_users_may_leave_the_leading_slash_out():
    assert paths.absolute("a/b") == "/a/b"
    assert paths.absolute("/a/b/") == "/a/b"
    assert paths.absolute("") == "/"


def test_relations_between_paths():
    assert paths.parent_of("/a/b") == "/a"
    assert paths.parent_of("/a") == "/"
    assert paths.parent_of("/") == "/"
    assert paths.ancestors_of("/a/b/c") == ["/a/b", "/a", "/"]
    assert paths.name_of("/a/b") == "b"
    assert paths.is_below("/a/b", "/a")
    assert not paths.is_below("/ab", "/a")
    assert not paths.is_below("/a", "/a")
    assert paths.is_below("/a", "/")
    assert paths.rebase_path("/a/b/c", "/a/b", "/x") == "/x/c"
