"""What is recorded of files that a file of references names."""

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

from icestream.errors import IcestreamError
from icestream.parsers.scanned_files import FileIdentity
from icestream.parsers.source_files import SourceFile, checksum_of

type Checksums = Mapping[str, tuple[str | None, int]]
"""ETag, or seconds of the last change, by location; none of both if the store does not tell."""

_REQUESTS_AT_ONCE = 32
_MANY_BELOW = 8
"""From so many objects below the source on, one listing is quicker than asking for each."""


def checksums_of(source: SourceFile, locations: Collection[str]) -> tuple[Checksums, list[str]]:
    """Return what to record of the objects at some locations, and why nothing of others."""
    identities = {source.url: source.identity} if source.url in locations else {}
    identities |= _listed(source, [one for one in locations if one.startswith(f"{source.url}/")])
    missing = [location for location in locations if location not in identities]
    faults: list[str] = []
    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
        for location, answer in zip(missing, pool.map(source.ask, missing), strict=True):
            if isinstance(answer, IcestreamError):
                faults.append(f"no checksum of {location} is recorded: {answer}")
                identities[location] = FileIdentity(0)
            else:
                identities[location] = answer
    checksums = {
        location: checksum_of(location, identity, source.checksums)
        for location, identity in identities.items()
    }
    return checksums, faults


def _listed(source: SourceFile, below: Collection[str]) -> dict[str, FileIdentity]:
    """Return what a listing says of the objects below a folder."""
    if len(below) < _MANY_BELOW:
        return {}
    wanted = set(below)
    return {location: identity for location, identity in source.list_below() if location in wanted}
