"""Reading every manifest that some snapshots use, each once, with bounded memory."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import batched

from icestream.assets import layout
from icestream.assets.assets import Assets
from icestream.codec.manifests import decode_manifest
from icestream.model.ids import ManifestId, SnapshotId
from icestream.model.manifests import Manifest, ManifestFile
from icestream.model.repo_info import SnapshotEntry
from icestream.repository.pruning import reachable_entries
from icestream.repository.spec2 import RepoInfoTimeline
from icestream.repository.timeline import Timeline

_MAX_THREADS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkLimits:
    """How much is fetched at a time.

    Manifests are decoded one at a time. So a walk holds at most `snapshots` decoded snapshots, the
    files of `compressed_manifest_bytes` together (or of one manifest, if that is larger), and one
    decoded manifest.
    """

    snapshots: int = 50
    compressed_manifest_bytes: int = 512 * 1024 * 1024
    manifest_fetches: int = 500


def reachable_from_refs(timeline: Timeline) -> dict[SnapshotId, SnapshotEntry]:
    """Return the snapshots that tags and branches reach."""
    if isinstance(timeline, RepoInfoTimeline):
        info = timeline.load()
        return reachable_entries((*info.tags.values(), *info.branches.values()), info.ancestry)
    tips = (*timeline.tags().values(), *timeline.branches().values())
    return reachable_entries(tips, timeline.ancestry)


def manifest_files_of(
    assets: Assets, snapshot_ids: Iterable[SnapshotId], limits: WalkLimits
) -> dict[ManifestId, ManifestFile]:
    """Return the manifest files that snapshots use."""
    files: dict[ManifestId, ManifestFile] = {}
    with ThreadPoolExecutor(_threads(limits.snapshots)) as pool:
        for ids in batched(snapshot_ids, max(limits.snapshots, 1)):
            for snapshot in pool.map(assets.load_snapshot, ids):
                files.update(snapshot.manifest_files)
    return files


def walk_manifests(
    assets: Assets, files: Iterable[ManifestFile], limits: WalkLimits
) -> Iterator[Manifest]:
    """Yield the content of manifest files; files are fetched together, decoded one by one.

    The cache of manifests is left alone: a walk reads much that nobody will ask for again.
    """
    with ThreadPoolExecutor(_threads(limits.manifest_fetches)) as pool:
        for window in _windows(files, limits):
            paths = [layout.manifest_path(file.id) for file in window]
            for file, path, data in zip(
                window, paths, pool.map(assets.storage.get, paths), strict=True
            ):
                yield decode_manifest(data, name=path, expected_id=file.id)


def _windows(files: Iterable[ManifestFile], limits: WalkLimits) -> Iterator[list[ManifestFile]]:
    """Cut files into lists that are small enough to be fetched together."""
    window: list[ManifestFile] = []
    window_bytes = 0
    for file in files:
        too_big = window_bytes + file.size_bytes > limits.compressed_manifest_bytes
        if window and (too_big or len(window) >= limits.manifest_fetches):
            yield window
            window, window_bytes = [], 0
        window.append(file)
        window_bytes += file.size_bytes
    if window:
        yield window


def _threads(wanted: int) -> int:
    return min(max(wanted, 1), _MAX_THREADS)
