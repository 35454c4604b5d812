"""What stores say about foreign objects: ETag, time and size, with few requests."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from icestream.errors import AccessError, ErrorKind, IcestreamError, NotFoundError, StorageError
from icestream.storage.protocol import ObjectInfo
from icestream.virtual.resolver import Target

_CONCURRENCY = 32
"""HEAD requests in flight."""
_PAGE = 1000
"""Objects in one answer to a LIST request."""

type Resolve = Callable[[str], Target]
"""Finds the object of a location, and the client that reads it."""


def object_infos(resolve: Resolve, locations: Iterable[str]) -> dict[str, ObjectInfo]:
    """Return what the stores say about the objects at distinct locations.

    There is one HEAD request per object, or fewer: a folder in which many are wanted is listed, as
    far as that is quicker than asking for each.

    Raises:
        AccessError: No container covers a location, or the reader has not consented to read it.
        StorageError: An object is gone, or its store refuses.
    """
    targets = {location: resolve(location) for location in locations}
    known = _listed(targets.values())
    missing = {
        location: target for location, target in targets.items() if _place(target) not in known
    }
    with ThreadPoolExecutor(_CONCURRENCY) as pool:
        asked = dict(zip(missing, pool.map(_head, missing.values()), strict=True))
    return {
        location: asked[location] if location in asked else known[_place(target)]
        for location, target in targets.items()
    }


type _Place = tuple[int, str]
"""Identity of a client, and a key in it."""


def _place(target: Target) -> _Place:
    return id(target.storage), target.key


def _listed(targets: Iterable[Target]) -> dict[_Place, ObjectInfo]:
    """Return what listings say, of folders in which so many objects are wanted that it pays."""
    folders: defaultdict[_Place, dict[str, Target]] = defaultdict(dict)
    for target in targets:
        folder, slash, _ = target.key.rpartition("/")
        folders[id(target.storage), folder + slash][target.key] = target
    known: dict[_Place, ObjectInfo] = {}
    for (storage_id, folder), wanted in folders.items():
        infos = _list_folder(folder, wanted)
        known |= {(storage_id, key): info for key, info in infos.items()}
    return known


def _list_folder(folder: str, wanted: Mapping[str, Target]) -> dict[str, ObjectInfo]:
    """List a folder for as long as the HEAD requests would take that it saves."""
    storage = next(iter(wanted.values())).storage
    if len(wanted) <= _CONCURRENCY or storage.reads_inline:
        return {}
    most = _PAGE * (len(wanted) // _CONCURRENCY)
    try:
        infos = {
            info.path: info for info in islice(storage.list(folder), most) if info.path in wanted
        }
    except (AccessError, StorageError):
        return {}  # web servers have no listings, and others let many read and few list
    return infos if _is_trustworthy(infos, wanted) else {}


def _is_trustworthy(infos: Mapping[str, ObjectInfo], wanted: Mapping[str, Target]) -> bool:
    """Tell whether a listing names the same ETags as reads do, which not all stores promise."""
    sample = next(iter(infos), None)
    return sample is None or infos[sample].version.etag == _head(wanted[sample]).version.etag


def _head(target: Target) -> ObjectInfo:
    try:
        return target.storage.head(target.key)
    except NotFoundError as error:
        # not a KeyError: nobody looked up a key here
        raise StorageError(
            f"{target.location} is not there; references to it cannot be read",
            kind=ErrorKind.OBJECT_NOT_FOUND,
        ) from error
    except IcestreamError as error:
        raise StorageError(
            f"cannot ask for the ETag and time of {target.location}: {error}", kind=error.kind
        ) from error
