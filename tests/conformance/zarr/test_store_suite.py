"""The store suite that zarr ships, on the store of a session.

Only keys of a Zarr 3 hierarchy can be stored here: `path/zarr.json` with valid metadata, and chunks
of arrays that exist, which are never empty. Tests that write other things are given keys and values
of that form; what they assert stays.
"""

import asyncio
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from tests.builders import GROUP, array_json, repository
from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    Store,
    SuffixByteRequest,
)
from zarr.core.buffer import Buffer, cpu, default_buffer_prototype
from zarr.core.sync import _collect_aiterator, sync
from zarr.testing.store import StoreTests
from zarr.testing.utils import assert_bytes_equal

from icestream.storage.factories import in_memory_storage, local_filesystem_storage
from icestream.storage.memory import InMemoryStorage
from icestream.storage.protocol import ByteRange, Storage, Version
from icestream.zarr_store.keys import ChunkKey, MetadataKey, parse_key
from icestream.zarr_store.store import IcestreamStore

LONG = bytes(range(256)) * 4
"""More bytes than are kept inline."""

READ_ONLY = "store was opened in read-only mode and does not support writing"


def _group(note: str) -> cpu.Buffer:
    """A group's metadata that differs from another's."""
    document = json.loads(GROUP) | {"attributes": {"note": note}}
    return cpu.Buffer.from_bytes(json.dumps(document).encode())


def _declare(store: IcestreamStore, key: str) -> None:
    """Create the array that a chunk key needs."""
    parsed = parse_key(key)
    assert isinstance(parsed, ChunkKey)
    if store._nodes.nodes.find(parsed.path) is None:
        rank = len(parsed.coordinates)
        store._nodes.put_metadata(parsed.path, array_json((2000,) * rank, (1,) * rank))


class SuiteOfStore(StoreTests[IcestreamStore, cpu.Buffer]):
    store_cls = IcestreamStore
    buffer_cls = cpu.Buffer

    @pytest.fixture
    def storage(self) -> Storage:
        raise NotImplementedError

    @pytest.fixture
    def store_kwargs(self, storage: Storage) -> dict[str, Any]:
        session = repository(storage).writable_session("main")
        return {"session": session, "nodes": session._copy}

    async def set(self, store: IcestreamStore, key: str, value: Buffer) -> None:
        match parse_key(key):
            case MetadataKey(path):
                store._nodes.put_metadata(path, value.to_bytes())
            case ChunkKey(path, coordinates):
                _declare(store, key)
                store._nodes.put_ref(path, coordinates, store._nodes.write(value.to_bytes()))

    async def get(self, store: IcestreamStore, key: str) -> Buffer:
        match parse_key(key):
            case MetadataKey(path):
                node = store._nodes.nodes.find(path)
                assert node is not None
                return cpu.Buffer.from_bytes(node.user_data)
            case ChunkKey(path, coordinates):
                found = store._nodes.find_chunk(path, coordinates)
                assert found is not None
                return cpu.Buffer.from_bytes(await store._nodes.read_async(found, None))

    # -- what every subclass of the suite states ------------------------------------------------

    def test_store_repr(self, store: IcestreamStore) -> None:
        assert "IcestreamStore of <icestream.Session writable, branch 'main'" in repr(store)

    def test_store_supports_writes(self, store: IcestreamStore) -> None:
        assert store.supports_writes

    def test_store_supports_listing(self, store: IcestreamStore) -> None:
        assert store.supports_listing

    # -- overridden ------------------------------------------------------------------------------

    # a writable session is not picklable, its fork is; the key must be one of a hierarchy
    async def test_serializable_store(self, store: IcestreamStore) -> None:
        fork = store.session.fork().store
        new_store = pickle.loads(pickle.dumps(fork))
        assert new_store == fork
        assert new_store.read_only == fork.read_only

        await new_store.set("foo/zarr.json", _group("x"))
        observed = await new_store.get("foo/zarr.json", prototype=default_buffer_prototype())
        assert_bytes_equal(observed, _group("x"))

    # the writer's key must be one of a hierarchy, and its value metadata
    async def test_with_read_only_store(self, open_kwargs: dict[str, Any]) -> None:
        store = await self.store_cls.open(**(open_kwargs | {"read_only": True}))
        writer = store.with_read_only(read_only=False)
        assert not writer._is_open
        assert not writer.read_only
        await writer.set("foo/zarr.json", _group("x"))
        await writer.delete("foo/zarr.json")

        for reader in (store, store.with_read_only(read_only=True)):
            assert reader.read_only
            with pytest.raises(ValueError, match=READ_ONLY):
                await reader.set("foo/zarr.json", _group("x"))
            with pytest.raises(ValueError, match=READ_ONLY):
                await reader.delete("foo/zarr.json")

    # chunk keys end in /c/<index>, and no chunk is empty
    @pytest.mark.parametrize("key", ["c/0", "foo/c/0/0", "c"])
    @pytest.mark.parametrize("data", [b"\x01\x02\x03\x04", LONG])
    @pytest.mark.parametrize(
        "byte_range",
        [
            None,
            RangeByteRequest(1, 4),
            OffsetByteRequest(1),
            SuffixByteRequest(1),
            RangeByteRequest(2, 5000),
            RangeByteRequest(5000, 6000),
            OffsetByteRequest(5000),
            SuffixByteRequest(5000),
        ],
    )
    async def test_get(
        self, store: IcestreamStore, key: str, data: bytes, byte_range: ByteRequest | None
    ) -> None:
        await super().test_get(store, key, data, byte_range)  # type: ignore[arg-type]

    # chunk keys end in /c/<index>
    async def test_get_many(self, store: IcestreamStore) -> None:
        values = {f"c/{i}": str(i).encode() for i in range(10)}
        for key, value in values.items():
            await self.set(store, key, self.buffer_cls.from_bytes(value))

        requests = [(key, default_buffer_prototype(), None) for key in values]
        observed = await _collect_aiterator(store._get_many(requests))

        assert {key: value and value.to_bytes() for key, value in observed} == values

    # chunk keys end in /c/<index>, and no chunk is empty
    @pytest.mark.parametrize("key", ["c/0", "foo/c/0/0", "c"])
    @pytest.mark.parametrize("data", [b"\x01\x02\x03\x04", LONG])
    async def test_getsize(self, store: IcestreamStore, key: str, data: bytes) -> None:
        await super().test_getsize(store, key, data)

    # the arrays of the chunks must exist
    async def test_getsize_prefix(self, store: IcestreamStore) -> None:
        _declare(store, "foo/c/0/0")
        _declare(store, "foo2/c/0")
        data = self.buffer_cls.from_bytes(b"\x01\x02\x03\x04")
        keys = ["foo/c/0/0", "foo/c/0/1", "foo/c/1/0", "foo/c/1/1"]
        await store._set_many([(key, data) for key in [*keys, "foo2/c/0"]])

        assert await store.getsize_prefix("foo/c") == len(data) * len(keys)
        assert await store.getsize_prefix("foo/c/") == len(data) * len(keys)
        assert await store.getsize_prefix("foo/c/1") == len(data) * 2
        assert await store.getsize_prefix("foo") == 4 * len(data) + await store.getsize(
            "foo/zarr.json"
        )

    # metadata is valid, chunks are not empty and have an array
    @pytest.mark.parametrize(
        ("key", "data"),
        [("zarr.json", GROUP), ("foo/zarr.json", array_json()), ("c/0", b"1234"), ("c/0", LONG)],
    )
    async def test_set(self, store: IcestreamStore, key: str, data: bytes) -> None:
        if not key.endswith("zarr.json"):
            _declare(store, key)
        await super().test_set(store, key, data)

    # the array of the chunk must exist
    async def test_set_not_open(self, store_not_open: IcestreamStore) -> None:
        _declare(store_not_open, "c/0")
        await super().test_set_not_open(store_not_open)

    # the values are metadata, or chunks of arrays that exist
    async def test_set_many(self, store: IcestreamStore) -> None:
        _declare(store, "foo/c/0/0")
        values = {"zarr.json": _group("root").to_bytes(), "foo/c/0/0": b"a", "foo/c/1/0": LONG}

        await store._set_many((k, self.buffer_cls.from_bytes(v)) for k, v in values.items())

        for key, value in values.items():
            assert (await self.get(store, key)).to_bytes() == value

    # zarr.json holds metadata, and one array has chunks of one rank
    @pytest.mark.parametrize(
        "key_ranges",
        [
            [],
            [("a/zarr.json", RangeByteRequest(0, 2))],
            [("c/0", RangeByteRequest(0, 2)), ("c/1", None)],
            [
                ("c/0/0", RangeByteRequest(0, 2)),
                ("c/0/1", SuffixByteRequest(2)),
                ("c/0/2", OffsetByteRequest(2)),
            ],
        ],
    )
    async def test_get_partial_values(
        self, store: IcestreamStore, key_ranges: list[tuple[str, ByteRequest]]
    ) -> None:
        if key_ranges and key_ranges[0][0] == "a/zarr.json":
            await self.set(store, "a/zarr.json", _group("a"))
            key, byte_range = key_ranges[0]
            read = await store.get_partial_values(default_buffer_prototype(), iter(key_ranges))
            assert [b and b.to_bytes() for b in read] == [_group("a").to_bytes()[:2]]
            assert (await store.get(key, byte_range=byte_range)) == read[0]
        else:
            await super().test_get_partial_values(store, key_ranges)

    # the value is metadata
    async def test_exists(self, store: IcestreamStore) -> None:
        assert not await store.exists("foo")
        await store.set("foo/zarr.json", _group("foo"))
        assert await store.exists("foo/zarr.json")

    # the value is metadata
    async def test_delete(self, store: IcestreamStore) -> None:
        await store.set("foo/zarr.json", _group("foo"))
        assert await store.exists("foo/zarr.json")
        await store.delete("foo/zarr.json")
        assert not await store.exists("foo/zarr.json")

    # the values are metadata, and a chunk of an array that exists
    async def test_delete_dir(self, store: IcestreamStore) -> None:
        await store.set("zarr.json", _group("root"))
        await store.set("foo-bar/zarr.json", _group("foo-bar"))
        _declare(store, "foo/c/0")
        await store.set("foo/c/0", self.buffer_cls.from_bytes(b"chunk"))
        await store.delete_dir("foo")
        assert await store.exists("zarr.json")
        assert await store.exists("foo-bar/zarr.json")
        assert not await store.exists("foo/zarr.json")
        assert not await store.exists("foo/c/0")

    # the key is one of a hierarchy
    async def test_is_empty(self, store: IcestreamStore) -> None:
        assert await store.is_empty("")
        await self.set(store, "foo/bar/zarr.json", _group("bar"))
        assert not await store.is_empty("")
        assert await store.is_empty("fo")
        assert not await store.is_empty("foo/")
        assert not await store.is_empty("foo")
        assert await store.is_empty("spam/")

    # the key is one of a hierarchy
    async def test_clear(self, store: IcestreamStore) -> None:
        await self.set(store, "key/c/0", self.buffer_cls.from_bytes(b"something"))
        await store.clear()
        assert await store.is_empty("")

    # metadata is valid, and no chunk is empty
    async def test_list(self, store: IcestreamStore) -> None:
        assert await _collect_aiterator(store.list()) == ()
        _declare(store, "foo/c/0")
        keys = [f"foo/c/{i}" for i in range(10)]
        await store._set_many((key, self.buffer_cls.from_bytes(b"0")) for key in keys)
        assert sorted(await _collect_aiterator(store.list())) == sorted([*keys, "foo/zarr.json"])

    # the values are metadata
    async def test_list_prefix(self, store: IcestreamStore) -> None:
        prefixes = ("", "a/", "a/b/", "a/b/c/")
        keys = [prefix + "zarr.json" for prefix in prefixes]
        await store._set_many((key, _group(key)) for key in keys)
        for prefix in prefixes:
            observed = sorted(await _collect_aiterator(store.list_prefix(prefix)))
            assert observed == sorted(key for key in keys if key.startswith(prefix))

    # the values are metadata, and chunks of arrays that exist
    async def test_list_empty_path(self, store: IcestreamStore) -> None:
        keys = ["foo/bar/c/1", "foo/baz/c/0"]
        for key in keys:
            await self.set(store, key, self.buffer_cls.from_bytes(b"0"))
        keys += ["foo/bar/zarr.json", "foo/baz/zarr.json"]

        assert sorted(await _collect_aiterator(store.list())) == sorted(keys)
        assert sorted(await _collect_aiterator(store.list_prefix(""))) == sorted(keys)
        assert sorted(await _collect_aiterator(store.list_prefix("foo/bar/"))) == sorted(
            key for key in keys if key.startswith("foo/bar/")
        )

    # the values are metadata, and chunks of arrays that exist
    async def test_list_dir(self, store: IcestreamStore) -> None:
        assert await _collect_aiterator(store.list_dir("")) == ()
        for directory in ("foo", "foo/", "spam/bar"):
            assert await _collect_aiterator(store.list_dir(directory)) == ()

        await self.set(store, "foo/c/1", self.buffer_cls.from_bytes(b"1"))
        await store.set("spam/bar/first/zarr.json", _group("1"))
        await store.set("spam/bar/second/zarr.json", _group("2"))

        for directory, names in {
            "": ["foo", "spam"],
            "foo": ["c", "zarr.json"],
            "foo/c": ["1"],
            "spam": ["bar"],
            "spam/bar": ["first", "second"],
        }.items():
            assert sorted(await _collect_aiterator(store.list_dir(directory))) == names
            assert sorted(await _collect_aiterator(store.list_dir(f"{directory}/"))) == names

    # chunk keys end in /c/<index>
    async def test_set_if_not_exists(self, store: IcestreamStore) -> None:
        old, new = self.buffer_cls.from_bytes(b"0000"), self.buffer_cls.from_bytes(b"1111")
        await self.set(store, "k/c/0", old)

        await store.set_if_not_exists("k/c/0", new)
        assert await store.get("k/c/0", default_buffer_prototype()) == old

        await store.set_if_not_exists("k/c/1", new)
        assert await store.get("k/c/1", default_buffer_prototype()) == new

    # chunk keys end in /c/<index>
    def test_get_sync(self, store: IcestreamStore) -> None:
        data = self.buffer_cls.from_bytes(b"\x01\x02\x03\x04")
        sync(self.set(store, "a/c/0", data))
        assert_bytes_equal(store.get_sync("a/c/0"), data)

    # chunk keys end in /c/<index>, and their array exists
    def test_set_sync(self, store: IcestreamStore) -> None:
        _declare(store, "a/c/0")
        data = self.buffer_cls.from_bytes(b"\x01\x02\x03\x04")
        store.set_sync("a/c/0", data)
        assert_bytes_equal(sync(self.get(store, "a/c/0")), data)

    # chunk keys end in /c/<index>, and their array exists
    def test_delete_sync(self, store: IcestreamStore) -> None:
        _declare(store, "a/c/0")
        store.set_sync("a/c/0", self.buffer_cls.from_bytes(b"\x01\x02\x03\x04"))
        store.delete_sync("a/c/0")
        assert store.get_sync("a/c/0") is None

    # chunk keys end in /c/<index>, and their array exists
    @pytest.mark.parametrize("direction", ["set_async_get_sync", "set_sync_get_async"])
    async def test_sync_async_set_get_parity(self, store: IcestreamStore, direction: str) -> None:
        _declare(store, "a/c/0")
        data = self.buffer_cls.from_bytes(b"\x01\x02\x03\x04")
        if direction == "set_async_get_sync":
            await store.set("a/c/0", data)
            result = store.get_sync("a/c/0")
        else:
            store.set_sync("a/c/0", data)
            result = await store.get("a/c/0", prototype=default_buffer_prototype())
        assert result is not None
        assert_bytes_equal(result, data)

    # chunk keys end in /c/<index>, and their array exists
    async def test_delete_sync_visible_to_async_get(self, store: IcestreamStore) -> None:
        _declare(store, "a/c/0")
        await store.set("a/c/0", self.buffer_cls.from_bytes(b"\x01\x02\x03\x04"))
        store.delete_sync("a/c/0")
        assert await store.get("a/c/0", prototype=default_buffer_prototype()) is None

    # chunk keys end in /c/<index>, and their array exists
    @pytest.mark.parametrize(
        "byte_range",
        [
            None,
            RangeByteRequest(1, 4),
            OffsetByteRequest(1),
            SuffixByteRequest(1),
            RangeByteRequest(10, 20),
        ],
        ids=["none", "range", "offset", "suffix", "range-past-eof"],
    )
    async def test_get_sync_byte_range_parity(
        self, store: IcestreamStore, byte_range: ByteRequest | None
    ) -> None:
        _declare(store, "a/c/0")
        await store.set("a/c/0", self.buffer_cls.from_bytes(b"\x01\x02\x03\x04"))
        blocking = store.get_sync("a/c/0", byte_range=byte_range)
        awaited = await store.get(
            "a/c/0", prototype=default_buffer_prototype(), byte_range=byte_range
        )
        assert blocking is not None
        assert awaited is not None
        assert_bytes_equal(blocking, awaited)


class TestStoreInMemory(SuiteOfStore):
    @pytest.fixture
    def storage(self) -> Storage:
        return in_memory_storage()


class TestStoreOnLocalFiles(SuiteOfStore):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return local_filesystem_storage(str(tmp_path))


class AwaitedStorage(InMemoryStorage):
    """Chunks are awaited, as they are from object stores."""

    reads_inline = False

    def get(self, path: str, byte_range: ByteRange | None = None) -> bytes:
        assert not path.startswith("chunks/"), "a chunk was not awaited"
        return super().get(path, byte_range)

    async def get_async(self, path: str, byte_range: ByteRange | None = None) -> bytes:
        await asyncio.sleep(0)
        return super().get(path, byte_range)

    async def put_async(self, path: str, data: bytes) -> Version:
        await asyncio.sleep(0)
        return super().put(path, data)


class TestStoreOfAwaitedStorage(SuiteOfStore):
    @pytest.fixture
    def storage(self) -> Storage:
        return AwaitedStorage()


def test_the_suite_overrides_no_test_that_the_store_passes_as_it_is() -> None:
    kept = {name for name in vars(StoreTests) if name.startswith("test_")} - vars(
        SuiteOfStore
    ).keys()

    assert kept >= {
        "test_store_type",
        "test_store_eq",
        "test_store_read_only",
        "test_store_open_read_only",
        "test_store_context_manager",
        "test_read_only_store_raises",
        "test_get_not_open",
        "test_get_raises",
        "test_getsize_raises",
        "test_delete_nonexistent_key_does_not_raise",
        "test_get_sync_missing",
        "test_delete_sync_missing",
    }
    assert issubclass(IcestreamStore, Store)
