"""From locations to clients."""

import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.unit.virtual.places import World

from icestream.credentials import Credentials, s3_static_credentials
from icestream.errors import AccessError, ErrorKind, InvalidInputError
from icestream.model.container_sets import ContainerSet
from icestream.model.containers import VirtualChunkContainer
from icestream.model.locations import ObjectAddress
from icestream.model.object_stores import ObjectStoreConfig, S3Options
from icestream.storage.local_files import LocalFiles
from icestream.storage.memory import InMemoryStorage
from icestream.storage.object_store import ObjectStorage
from icestream.storage.protocol import Storage
from icestream.virtual import resolver as module
from icestream.virtual.access import Access, Grant
from icestream.virtual.resolver import Resolver


def container(prefix: str, name: str | None = None) -> VirtualChunkContainer:
    return VirtualChunkContainer(prefix, ObjectStoreConfig.S3(S3Options()), name)


def keys(secret: str) -> Credentials.S3:
    return Credentials.S3(s3_static_credentials(access_key_id="id", secret_access_key=secret))


def make(
    world: World, access: Access | None = None, *containers: VirtualChunkContainer
) -> Resolver:
    return Resolver(
        ContainerSet.of(containers),
        access or Access.of({"s3": None, "gcs": None}),
        InMemoryStorage(),
        world.open,
    )


def test_a_location_leads_to_its_bucket_and_key() -> None:
    one, two = InMemoryStorage(), InMemoryStorage()
    resolver = make(World(one=one, two=two))

    target = resolver.resolve("s3://two/a%20b/c.nc")

    assert target.storage is two
    assert (target.key, target.location) == ("a b/c.nc", "s3://two/a%20b/c.nc")


def test_a_thousand_simultaneous_first_reads_make_one_client() -> None:
    world = World(bucket=InMemoryStorage())
    barrier = threading.Barrier(100)

    def slow(
        container: VirtualChunkContainer, grant: Grant, address: ObjectAddress, own: Storage
    ) -> Storage:
        time.sleep(0.01)
        return world.open(container, grant, address, own)

    resolver = Resolver(ContainerSet.of([]), Access.of({"s3": None}), InMemoryStorage(), slow)

    def first_read(i: int) -> list[Storage]:
        barrier.wait()
        return [resolver.resolve(f"s3://bucket/{i}-{j}").storage for j in range(10)]

    with ThreadPoolExecutor(100) as threads:
        found = [storage for ten in threads.map(first_read, range(100)) for storage in ten]

    assert len(found) == 1000
    assert len(world.opened) == 1


def test_there_is_one_client_per_container_bucket_and_credentials() -> None:
    world = World(a=InMemoryStorage(), b=InMemoryStorage())
    access = Access.of({"s3": keys("wide"), "s3://a/private/": keys("narrow")})
    resolver = make(world, access, container("s3://b/deep/"))

    for location in [
        "s3://a/x",
        "s3://a/y",
        "s3://a/private/x",
        "s3://a/private/y",
        "s3://b/x",
        "s3://b/deep/x",
    ]:
        resolver.resolve(location)

    assert world.opened == [
        ("s3", "a", "s3"),
        ("s3", "a", "s3://a/private/"),
        ("s3", "b", "s3"),
        ("s3://b/deep/", "b", "s3"),
    ]


def test_a_relative_location_is_read_where_its_container_is() -> None:
    world = World(old=InMemoryStorage(), new=InMemoryStorage())

    for bucket in ["old", "new"]:
        resolver = make(world, None, container(f"s3://{bucket}/data/", "mine"))
        target = resolver.resolve("vcc://mine/2020/x.nc")
        assert target.location == f"s3://{bucket}/data/2020/x.nc"
        assert target.storage is world.buckets[bucket]


def test_a_relative_location_cannot_leave_its_container() -> None:
    resolver = make(World(b=InMemoryStorage()), None, container("s3://b/data/", "mine"))

    for location in ["vcc://mine/../secret", "vcc://mine/%2e%2e/secret", "vcc://mine/a%2f..%2fb"]:
        with pytest.raises(InvalidInputError):
            resolver.resolve(location)


def test_a_relative_location_needs_the_consent_for_what_it_stands_for() -> None:
    resolver = make(World(), Access.of({"vcc-is-no-prefix": None}), container("s3://evil/", "mine"))

    with pytest.raises(AccessError, match="s3://evil/") as caught:
        resolver.resolve("vcc://mine/x")
    assert caught.value.kind is ErrorKind.UNAUTHORIZED_VIRTUAL_CHUNK_CONTAINER


def test_without_a_container_the_error_names_the_location_and_the_call_that_helps() -> None:
    with pytest.raises(AccessError, match="set_virtual_chunk_container") as caught:
        make(World()).resolve("models://bucket/x.nc")

    assert caught.value.kind is ErrorKind.NO_CONTAINER_FOR_VIRTUAL_CHUNK
    assert "models://bucket/x.nc" in str(caught.value)


def test_a_refused_location_opens_no_client_and_is_refused_again() -> None:
    world = World(bucket=InMemoryStorage())
    resolver = make(world, Access.of({"gcs": None}))

    for _ in range(2):
        with pytest.raises(AccessError):
            resolver.resolve("s3://bucket/x")
    assert world.opened == []


def test_locations_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_TARGETS", 10)
    resolver = make(World(bucket=InMemoryStorage()))

    for i in range(35):
        resolver.resolve(f"s3://bucket/{i}")

    assert len(resolver._targets) <= 10


def test_pickles_hold_no_client() -> None:
    own = InMemoryStorage()
    resolver = Resolver(ContainerSet.of([]), Access.of({"s3": keys("k")}), own)
    first = resolver.resolve("s3://bucket/x").storage

    copy = pickle.loads(pickle.dumps(resolver))

    assert copy._storages == {}
    assert copy.resolve("s3://bucket/x").storage is not first


def test_real_clients_are_opened_for_real_containers() -> None:
    files = VirtualChunkContainer("file:///data/", ObjectStoreConfig.LocalFileSystem("/"))
    resolver = Resolver(
        ContainerSet.of([files]),
        Access.of({"s3": keys("k"), "file:///data/": None, "https": None}),
        InMemoryStorage(),
    )

    local = resolver.resolve("file:///data/x.nc")

    assert isinstance(local.storage, LocalFiles)
    assert (local.key, local.storage.path) == ("data/x.nc", "/")
    assert isinstance(resolver.resolve("s3://bucket/x").storage, ObjectStorage)
    assert isinstance(resolver.resolve("https://example.org/x").storage, ObjectStorage)


_FORK = """
import os, warnings
warnings.simplefilter("ignore")
from icestream.model.container_sets import ContainerSet
from icestream.storage.memory import InMemoryStorage
from icestream.virtual.access import Access
from icestream.virtual.resolver import Resolver

resolver = Resolver(ContainerSet.of([]), Access.of({"s3": None}), InMemoryStorage())
mine = resolver.resolve("s3://bucket/x").storage
with resolver._lock:  # as another thread may, at that moment
    child = os.fork()
    if child == 0:
        theirs = resolver.resolve("s3://bucket/y").storage
        os._exit(0 if theirs is not mine else 1)
_, status = os.waitpid(child, 0)
raise SystemExit(os.waitstatus_to_exitcode(status))
"""


def test_a_forked_child_starts_with_clients_and_locks_of_its_own() -> None:
    subprocess.run([sys.executable, "-c", _FORK], check=True, timeout=60)  # noqa: S603 - the script above
