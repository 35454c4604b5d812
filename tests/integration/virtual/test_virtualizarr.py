"""NetCDF files that VirtualiZarr has read, written as references and read through xarray."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import h5py
import icechunk
import numpy as np
import pytest
import xarray as xr
import zarr
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import GCSStore, LocalStore, S3Store
from virtualizarr import open_virtual_dataset
from virtualizarr.parsers import HDFParser

import icestream as ice
from icestream.storage.object_store import ObjectStorage
from icestream.testing.fake_servers import FakeGcs
from icestream.virtual import write_virtual_dataset

DAYS = 2
FILES = 3
CONCAT: dict[str, Any] = {
    "dim": "time",
    "data_vars": "minimal",
    "coords": "minimal",
    "compat": "override",
    "join": "override",
    "combine_attrs": "override",
}
ENCODING: dict[str, dict[str, Any]] = {
    "temperature": {"chunksizes": (1, 3, 2), "zlib": True, "shuffle": True},
    "packed": {
        "dtype": "i2",
        "scale_factor": 0.25,
        "add_offset": 10.0,
        "_FillValue": -999,
        "chunksizes": (DAYS, 3, 4),
    },
    "time": {"units": "days since 2000-01-01", "calendar": "standard", "dtype": "i4"},
}


def dataset(first_day: int, days: int = DAYS, factor: float = 1) -> xr.Dataset:
    shape = (days, 3, 4)
    values = (np.arange(np.prod(shape), dtype="f8").reshape(shape) + 100 * first_day) * factor
    packed = values / 4
    packed[:, 0, 0] = np.nan
    start = np.datetime64("2020-01-01T00:00:00", "ns")
    return xr.Dataset(
        {
            "temperature": (("time", "y", "x"), values, {"units": "K", "long_name": "air"}),
            "packed": (("time", "y", "x"), packed),
            "contiguous": (("time", "x"), values[:, 0].astype("f4")),
            "height": ((), np.float32(2.5), {"units": "m"}),
        },
        coords={
            "time": start + np.arange(first_day, first_day + days) * np.timedelta64(1, "D"),
            "x": np.array([1.0, 2, 3, 4]),
            "area": (("y", "x"), np.ones((3, 4)), {"units": "m2"}),
        },
        attrs={"title": "test", "version": np.int32(3), "levels": np.array([1, 2])},
    )


def write_files(folder: Path, count: int = FILES, **options: Any) -> list[Path]:
    """Write NetCDF files that follow each other in time."""
    folder.mkdir(exist_ok=True)
    paths = [folder / f"day-{number}.nc" for number in range(count)]
    for number, path in enumerate(paths):
        dataset(number * DAYS, **options).to_netcdf(path, engine="h5netcdf", encoding=ENCODING)
    return paths


def files_read(paths: list[Path]) -> xr.Dataset:
    """Return what xarray reads from the files themselves."""
    opened = [xr.open_dataset(path, engine="h5netcdf").load() for path in paths]
    for one in opened:
        one.close()
    return xr.concat(opened, **CONCAT)


def virtual(urls: list[str], store: Any, root: str) -> xr.Dataset:
    """Return what VirtualiZarr makes of the files below a root."""
    registry: Any = ObjectStoreRegistry({root: store})
    opened = [
        open_virtual_dataset(
            url, registry=registry, parser=HDFParser(), loadable_variables=["time", "x"]
        )
        for url in urls
    ]
    return xr.concat(opened, **CONCAT)


def virtual_files(paths: list[Path]) -> xr.Dataset:
    return virtual([f"file://{path}" for path in paths], LocalStore(), "file://")


def opened(path: Path, *loaded: str) -> xr.Dataset:
    """Return what VirtualiZarr makes of one file."""
    registry: Any = ObjectStoreRegistry({"file://": LocalStore()})
    return open_virtual_dataset(
        f"file://{path}",
        registry=registry,
        parser=HDFParser(),
        loadable_variables=list(loaded),
        decode_times=bool(loaded),
    )


def read(repo: Any, group: str | None = None) -> xr.Dataset:
    store = repo.readonly_session("main").store
    with xr.open_zarr(store, group=group, consolidated=False, chunks=None) as opened:
        loaded: xr.Dataset = opened.load()
    return loaded


@pytest.fixture
def repo(tmp_path: Path) -> ice.Repository:
    """A repository that may read what is in `files`."""
    prefix = f"file://{tmp_path}/files/"
    config = ice.RepositoryConfig()
    config.set_virtual_chunk_container(
        ice.VirtualChunkContainer(prefix, ice.local_filesystem_store(str(tmp_path)), name="files")
    )
    return ice.Repository.create(
        ice.local_filesystem_storage(str(tmp_path / "repo")),
        config,
        authorize_virtual_chunk_access={prefix: None},
    )


def peer_reads(tmp_path: Path) -> xr.Dataset:
    """Return what icechunk reads."""
    icechunk.set_logs_filter("error")
    access: dict[str, Any] = {
        f"file://{tmp_path}/files/": icechunk.credentials.LocalFileSystemAccess
    }
    peer = icechunk.Repository.open(
        icechunk.local_filesystem_storage(str(tmp_path / "repo")),
        authorize_virtual_chunk_access=access,
    )
    return read(peer)


# -- local files -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "checksums", ["etag", "last-modified", datetime.now(UTC) + timedelta(days=1), None]
)
def test_files_are_read_as_xarray_reads_them(
    repo: ice.Repository, tmp_path: Path, checksums: Any
) -> None:
    paths = write_files(tmp_path / "files")

    with repo.transaction("main", message="virtual") as store:
        write_virtual_dataset(virtual_files(paths), store, checksums=checksums)

    wanted = files_read(paths)
    xr.testing.assert_identical(read(repo), wanted)
    if checksums != "etag":  # icechunk compares those of local files with their quotes
        xr.testing.assert_identical(peer_reads(tmp_path), wanted)
    session = repo.readonly_session("main")
    assert session.chunk_type("temperature", (0, 0, 0)) is ice.ChunkType.virtual
    assert session.chunk_type("time", (0,)) is not ice.ChunkType.virtual


def test_the_dataset_is_the_one_that_virtualizarr_writes_for_icechunk(
    repo: ice.Repository, tmp_path: Path
) -> None:
    paths = write_files(tmp_path / "files")
    vds = virtual_files(paths)
    with repo.transaction("main", message="virtual") as store:
        write_virtual_dataset(vds, store)

    config = icechunk.RepositoryConfig.default()
    config.set_virtual_chunk_container(
        icechunk.VirtualChunkContainer(
            f"file://{tmp_path}/files/", icechunk.local_filesystem_store(str(tmp_path))
        )
    )
    peer = icechunk.Repository.create(icechunk.in_memory_storage(), config)
    session = peer.writable_session("main")
    vds.vz.to_icechunk(session.store)

    theirs = zarr.open_group(session.store, mode="r")
    ours = zarr.open_group(repo.readonly_session("main").store, mode="r")
    assert set(ours.array_keys()) == set(theirs.array_keys())
    for name, array in theirs.arrays():
        assert _json(ours[name]) == _json(array), name
    assert _attributes(ours) == _attributes(theirs)


def _attributes(group: Any) -> dict[str, Any]:
    attributes: dict[str, Any] = group.attrs.asdict()
    return attributes | {"coordinates": set(attributes["coordinates"].split())}


def _json(array: Any) -> Mapping[str, Any]:
    document: Mapping[str, Any] = array.metadata.to_dict()
    return document


def test_files_appended_one_by_one_are_the_files_concatenated(
    repo: ice.Repository, tmp_path: Path
) -> None:
    paths = write_files(tmp_path / "files")
    first, *others = paths
    with repo.transaction("main", message="first") as store:
        write_virtual_dataset(virtual_files([first]), store, group="model")
    for path in others:
        with repo.transaction("main", message=path.name) as store:
            write_virtual_dataset(virtual_files([path]), store, group="model", append_dim="time")

    xr.testing.assert_identical(read(repo, "model"), files_read(paths))


def test_a_region_is_replaced_by_corrected_files(repo: ice.Repository, tmp_path: Path) -> None:
    paths = write_files(tmp_path / "files")
    (tmp_path / "files" / "corrected").mkdir()
    corrected = tmp_path / "files" / "corrected" / "day-1.nc"
    dataset(DAYS, factor=-1).to_netcdf(corrected, engine="h5netcdf", encoding=ENCODING)
    with repo.transaction("main", message="first") as store:
        write_virtual_dataset(virtual_files(paths), store, checksums="last-modified")

    part = virtual_files([corrected]).drop_vars(["x", "area", "height"])
    with repo.transaction("main", message="corrected") as store:
        write_virtual_dataset(part, store, region={"time": "auto"}, checksums="last-modified")

    wanted = files_read([paths[0], corrected, paths[2]])
    xr.testing.assert_identical(read(repo), wanted)
    xr.testing.assert_identical(peer_reads(tmp_path), wanted)


@pytest.mark.parametrize("checksums", ["etag", "last-modified"])
def test_a_file_that_was_changed_is_noticed(
    repo: ice.Repository, tmp_path: Path, checksums: Any
) -> None:
    paths = write_files(tmp_path / "files")
    with repo.transaction("main", message="virtual") as store:
        write_virtual_dataset(virtual_files(paths), store, checksums=checksums)

    later = paths[1].stat().st_mtime + 100
    os.utime(paths[1], (later, later))

    with pytest.raises(ice.ObjectChangedError, match=r"day-1\.nc"):
        read(repo)
    first = xr.open_zarr(repo.readonly_session("main").store, consolidated=False)
    assert first["temperature"][:DAYS].values.shape == (DAYS, 3, 4)


def test_time_units_that_differ_from_file_to_file_are_refused_unless_loaded(
    repo: ice.Repository, tmp_path: Path
) -> None:
    """The trap of daily files: each counts from its own day, and all hold the same numbers."""
    folder = tmp_path / "files"
    folder.mkdir()
    paths = [folder / "0.nc", folder / "1.nc"]
    for number, path in enumerate(paths):
        day = dataset(number * DAYS)[["packed"]].drop_vars(["area"])
        units = {"time": {"units": f"days since 2020-01-0{1 + number * DAYS}", "dtype": "i4"}}
        day.to_netcdf(path, engine="h5netcdf", encoding=units)
    session = repo.writable_session("main")
    write_virtual_dataset(opened(paths[0]), session.store, group="virtual")
    with pytest.raises(ice.InvalidInputError, match="'time' has another attribute 'units'"):
        write_virtual_dataset(opened(paths[1]), session.store, group="virtual", append_dim="time")
    write_virtual_dataset(opened(paths[0], "time"), session.store, group="loaded")
    write_virtual_dataset(
        opened(paths[1], "time"), session.store, group="loaded", append_dim="time"
    )
    session.commit("both")

    xr.testing.assert_identical(read(repo, "loaded")["packed"], files_read(paths)["packed"])
    assert read(repo, "virtual").sizes["time"] == DAYS


def odd_arrays() -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return values of odd sorts, and how they are stored."""
    return {
        "big_endian": (np.arange(12, dtype=">f4").reshape(3, 4), {"chunks": (2, 3)}),
        "flags": (np.array([[True, False, True, True]] * 3), {}),
        "unsigned": (np.arange(3, dtype="u8") + np.uint64(2**63), {}),
        "half": (np.arange(3, dtype="f2"), {"chunks": (2,), "compression": "gzip"}),
        "checked": (np.arange(8, dtype="i4"), {"chunks": (4,), "fletcher32": True}),
        "empty": (np.empty((0, 4)), {"chunks": (2, 4), "maxshape": (None, 4)}),
    }


@pytest.mark.filterwarnings("ignore:.*chunk shape larger than their array shape")
@pytest.mark.parametrize("name", odd_arrays())
def test_odd_arrays_are_read_as_h5py_reads_them(
    repo: ice.Repository, tmp_path: Path, name: str
) -> None:
    (tmp_path / "files").mkdir()
    path = tmp_path / "files" / "odd.h5"
    values, options = odd_arrays()[name]
    with h5py.File(path, "w") as file:
        file.create_dataset(name, data=values, **options)

    with repo.transaction("main", message="odd") as store:
        write_virtual_dataset(opened(path), store)

    array = zarr.open_array(repo.readonly_session("main").store, path=name, mode="r")
    np.testing.assert_array_equal(array[:], values)
    assert array.dtype == values.dtype.newbyteorder("=")


def test_chunks_that_a_file_does_not_have_are_left_out(
    repo: ice.Repository, tmp_path: Path
) -> None:
    (tmp_path / "files").mkdir()
    path = tmp_path / "files" / "sparse.h5"
    with h5py.File(path, "w") as file:
        sparse = file.create_dataset("sparse", (6, 4), "i4", chunks=(2, 2), fillvalue=-7)
        sparse[2:4, 2:] = 5

    session = repo.writable_session("main")
    write_virtual_dataset(opened(path), session.store)
    session.commit("sparse")

    expected = np.full((6, 4), -7)
    expected[2:4, 2:] = 5
    read = zarr.open_array(session.store, path="sparse", mode="r")[:]
    np.testing.assert_array_equal(read, expected)
    types = [session.chunk_type("sparse", (1, i)) for i in (0, 1)]
    assert types == [ice.ChunkType.uninitialized, ice.ChunkType.virtual]


# -- servers ---------------------------------------------------------------------------------------


def upload(server: Any, paths: list[Path], prefix: str = "") -> str:
    """Put files into a new bucket and return its name."""
    bucket: str = server.new_bucket()
    storage = ice.s3_storage(bucket=bucket, prefix="", **server.storage_arguments())
    for path in paths:
        storage.put(f"{prefix}{path.name}", path.read_bytes())
    return bucket


def s3_client(server: Any, bucket: str) -> S3Store:
    return S3Store(
        bucket,
        endpoint=server.endpoint_url,
        region="us-east-1",
        access_key_id=server.access_key_id,
        secret_access_key=server.secret_access_key,
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )


def s3_place(server: Any) -> Any:
    return ice.s3_store(
        endpoint_url=server.endpoint_url,
        region="us-east-1",
        allow_http=True,
        force_path_style=True,
        s3_compatible=True,
    )


def keys_of(server: Any) -> Any:
    return ice.s3_credentials(
        access_key_id=server.access_key_id, secret_access_key=server.secret_access_key
    )


def own_storage(server: Any) -> ice.Storage:
    return ice.s3_storage(bucket=server.new_bucket(), prefix="repo", **server.storage_arguments())


@pytest.mark.server
@pytest.mark.parametrize("checksums", ["etag", "last-modified"])
def test_files_on_s3_are_read_by_both_libraries(moto: Any, tmp_path: Path, checksums: Any) -> None:
    paths = write_files(tmp_path / "files")
    bucket = upload(moto, paths, "archive/")
    prefix = f"s3://{bucket}/archive/"
    config = ice.RepositoryConfig()
    config.set_virtual_chunk_container(
        ice.VirtualChunkContainer(prefix, s3_place(moto), name="archive")
    )
    storage = own_storage(moto)
    consent = {prefix: keys_of(moto), moto.endpoint_url: None}
    repo = ice.Repository.create(storage, config, authorize_virtual_chunk_access=consent)
    urls = [prefix + path.name for path in paths]

    with repo.transaction("main", message="virtual") as store:
        vds = virtual(urls, s3_client(moto, bucket), f"s3://{bucket}")
        write_virtual_dataset(vds, store, checksums=checksums)

    wanted = files_read(paths)
    xr.testing.assert_identical(read(repo), wanted)
    xr.testing.assert_identical(read(_peer_on(moto, storage, prefix)), wanted)


def _peer_on(server: Any, storage: Any, prefix: str) -> icechunk.Repository:
    icechunk.set_logs_filter("error")
    address = storage.address
    keys = {
        "access_key_id": server.access_key_id,
        "secret_access_key": server.secret_access_key,
    }
    return icechunk.Repository.open(
        icechunk.s3_storage(
            bucket=address.bucket,
            prefix="repo",
            endpoint_url=server.endpoint_url,
            region="us-east-1",
            allow_http=True,
            force_path_style=True,
            **keys,
        ),
        authorize_virtual_chunk_access=icechunk.containers_credentials(
            {prefix: icechunk.s3_credentials(**keys)}
        ),
    )


@pytest.mark.server
def test_many_files_on_s3_cost_a_listing_instead_of_a_request_each(
    moto: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [path] = write_files(tmp_path / "files", 1)
    bucket = upload(moto, [path])
    storage = ice.s3_storage(bucket=bucket, prefix="", **moto.storage_arguments())
    names = [f"copies/{number:03}.nc" for number in range(60)]
    for name in names:
        storage.put(name, path.read_bytes())
    config = ice.RepositoryConfig()
    config.set_virtual_chunk_container(
        ice.VirtualChunkContainer(f"s3://{bucket}/", s3_place(moto), name="archive")
    )
    consent = {f"s3://{bucket}/": keys_of(moto), moto.endpoint_url: None}
    repo = ice.Repository.create(
        ice.in_memory_storage(), config, authorize_virtual_chunk_access=consent
    )
    vds = virtual([f"s3://{bucket}/{path.name}"], s3_client(moto, bucket), f"s3://{bucket}")
    copies = [
        xr.Dataset(
            {"packed": ("time", "y", "x")}
            and {
                "packed": vds["packed"].variable.copy(
                    data=vds["packed"].data.rename_paths(f"s3://{bucket}/{name}")
                )
            }
        )
        for name in names
    ]
    heads: list[str] = []
    real_head = ObjectStorage.head

    def counted(self: ObjectStorage, path: str) -> Any:
        heads.append(path)
        return real_head(self, path)

    monkeypatch.setattr(ObjectStorage, "head", counted)
    session = repo.writable_session("main")

    write_virtual_dataset(xr.concat(copies, dim="time"), session.store)

    assert len(heads) == 1
    session.commit("virtual")
    packed = read(repo)["packed"].values
    expected = files_read([path])["packed"].values
    np.testing.assert_array_equal(packed, np.concatenate([expected] * len(names)))


@pytest.mark.server
def test_three_models_on_two_platforms_with_a_protocol_each(
    moto: Any, seaweedfs: Any, tmp_path: Path
) -> None:
    """Repository, two buckets on one cloud and one on another: four sets of credentials."""
    paths = {
        name: write_files(tmp_path / name, 2, factor=factor)
        for name, factor in (("a", 1), ("b", 2), ("c", 3))
    }
    bucket_c = upload(seaweedfs, paths["c"])
    with FakeGcs({"virtual-a": "token-a", "virtual-b": "token-b"}) as gcs:
        for name in ("a", "b"):
            for path in paths[name]:
                gcs.put(f"/virtual-{name}/{path.name}", path.read_bytes())
        buckets = {"a": "virtual-a", "b": "virtual-b", "c": bucket_c}
        places = {
            "a": ice.gcs_store(gcs.store_options()),
            "b": ice.gcs_store(gcs.store_options()),
            "c": s3_place(seaweedfs),
        }
        clients: dict[str, Any] = {
            "a": _gcs_client(gcs, "virtual-a", "token-a"),
            "b": _gcs_client(gcs, "virtual-b", "token-b"),
            "c": s3_client(seaweedfs, bucket_c),
        }
        config = ice.RepositoryConfig()
        for name, bucket in buckets.items():
            config.set_virtual_chunk_container(
                ice.VirtualChunkContainer(
                    f"model{name}://{bucket}", places[name], name=f"model{name}"
                )
            )
        consent = {
            "modela://virtual-a": ice.gcs_credentials(bearer_token="token-a"),
            "modelb://virtual-b": ice.gcs_credentials(bearer_token="token-b"),
            f"modelc://{bucket_c}": keys_of(seaweedfs),
            gcs.url: None,
            seaweedfs.endpoint_url: None,
        }
        storage = own_storage(moto)
        repo = ice.Repository.create(storage, config, authorize_virtual_chunk_access=consent)
        for name, bucket in buckets.items():
            root = f"{'s3' if name == 'c' else 'gs'}://{bucket}"
            vds = virtual([f"{root}/{path.name}" for path in paths[name]], clients[name], root)
            with repo.transaction("main", message=name) as store:
                write_virtual_dataset(vds, store, group=name, protocol=f"model{name}")

        reader = ice.Repository.open(storage, authorize_virtual_chunk_access=consent)
        for name, bucket in buckets.items():
            xr.testing.assert_identical(read(reader, name), files_read(paths[name]))
            table = reader.readonly_session("main")._copy
            references = table.table(table.get_array(f"/{name}/packed"))
            locations = references.location_column().unique().to_pylist()
            assert locations == [f"model{name}://{bucket}/{path.name}" for path in paths[name]]
        lacking = {key: value for key, value in consent.items() if "modelb" not in key}
        partial = ice.Repository.open(storage, authorize_virtual_chunk_access=lacking)
        xr.testing.assert_identical(read(partial, "a"), files_read(paths["a"]))
        with pytest.raises(ice.AccessError, match="modelb://virtual-b"):
            read(partial, "b")


def _gcs_client(gcs: FakeGcs, bucket: str, token: str) -> GCSStore:
    options: Any = {
        "config": {"base_url": gcs.url},
        "client_options": {"allow_http": True},
        "credential_provider": lambda: {"token": token, "expires_at": None},
    }
    return GCSStore(bucket, **options)
