"""What stores say about foreign objects, and how often they are asked."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from icestream.errors import AccessError, ErrorKind, StorageError
from icestream.model.containers import VirtualChunkContainer
from icestream.model.object_stores import ObjectStoreConfig, S3Options
from icestream.storage.memory import InMemoryStorage
from icestream.storage.protocol import ObjectInfo, Version
from icestream.testing.doubles import CountingStorage
from icestream.virtual.access import Access, Grant
from icestream.virtual.object_infos import object_infos
from icestream.virtual.resolver import Target

FOLDER = "archive/2020"


class RemoteStorage(CountingStorage):
    """Objects in memory that are asked for as if they were far away."""

    def __init__(self, objects: int) -> None:
        super().__init__(InMemoryStorage())
        self.reads_inline = False
        for number in range(objects):
            self.put(f"{FOLDER}/{number:05}.nc", b"x" * (number + 1))
        self.reset()

    def resolve(self, location: str) -> Target:
        container = VirtualChunkContainer("s3", ObjectStoreConfig.S3(S3Options()))
        grant = Access.of({"s3": None}).grant(container, location)
        return Target(location, location.removeprefix("s3://bucket/"), self, container, grant)

    @property
    def counts(self) -> Counter[str]:
        """How often each verb was used; exact with many threads, too."""
        return Counter(verb for verb, _ in self.log)

    def locations(self, *numbers: int) -> list[str]:
        return [f"s3://bucket/{FOLDER}/{number:05}.nc" for number in numbers]


def test_few_objects_cost_one_request_each() -> None:
    storage = RemoteStorage(100)
    wanted = storage.locations(3, 7, 50)

    infos = object_infos(storage.resolve, wanted)

    assert dict(storage.counts) == {"head": 3}
    assert [infos[location].size_bytes for location in wanted] == [4, 8, 51]
    assert infos[wanted[0]].version == storage.head(f"{FOLDER}/00003.nc").version


def test_many_objects_of_a_folder_cost_one_listing_and_one_comparison() -> None:
    storage = RemoteStorage(200)
    wanted = storage.locations(*range(0, 200, 2))

    infos = object_infos(storage.resolve, wanted)

    assert [infos[location].size_bytes for location in wanted] == [*range(1, 200, 2)]
    assert dict(storage.counts) == {"list": 1, "head": 1}


def test_a_folder_that_is_too_full_is_not_listed_to_its_end() -> None:
    storage = RemoteStorage(1500)
    wanted = storage.locations(*range(1460, 1500))

    infos = object_infos(storage.resolve, wanted)

    assert [infos[location].size_bytes for location in wanted] == [*range(1461, 1501)]
    assert storage.counts["head"] == len(wanted)


class UnlistedStorage(RemoteStorage):
    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        raise StorageError(f"listing {prefix} is denied", kind=ErrorKind.PERMISSION_DENIED)


class OtherEtagsStorage(RemoteStorage):
    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        for info in super().list(prefix):
            yield replace(info, version=Version("of the listing"))


@pytest.mark.parametrize("kind", [UnlistedStorage, OtherEtagsStorage])
def test_objects_are_asked_for_one_by_one_where_a_listing_does_not_help(
    kind: type[RemoteStorage],
) -> None:
    storage = kind(50)
    wanted = storage.locations(*range(50))

    infos = object_infos(storage.resolve, wanted)

    assert storage.counts["head"] >= len(wanted)
    assert infos[wanted[9]].version == storage.head(f"{FOLDER}/00009.nc").version


def test_an_object_that_is_gone_is_named() -> None:
    storage = RemoteStorage(3)

    with pytest.raises(StorageError, match=r"s3://bucket/archive/2020/00003\.nc is not") as raised:
        object_infos(storage.resolve, storage.locations(1, 3))

    assert raised.value.kind is ErrorKind.OBJECT_NOT_FOUND
    assert not isinstance(raised.value, KeyError)


def test_an_object_that_is_refused_is_named_with_the_reason() -> None:
    storage = RemoteStorage(3)

    def refuse(path: str) -> ObjectInfo:
        raise AccessError(f"no token for {path}")

    storage.head = refuse  # type: ignore[method-assign]  # a store that refuses

    with pytest.raises(StorageError, match=r"00001\.nc: no token for"):
        object_infos(storage.resolve, storage.locations(1))


def test_nothing_is_asked_where_there_is_no_consent() -> None:
    storage = RemoteStorage(3)
    access = Access.of({})

    def resolve(location: str) -> Target:
        target = storage.resolve(location)
        grant: Grant = access.grant(target.container, location)
        return replace(target, grant=grant)

    with pytest.raises(AccessError, match="authorize_virtual_chunk_access"):
        object_infos(resolve, storage.locations(1))

    assert not storage.counts
