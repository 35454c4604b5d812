"""Manifests that are probably needed soon, loaded in the background as a session opens.

Whoever reads meanwhile shares the fetch: `Assets` loads each file once, however many ask.
"""

import os
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial

from icestream.errors import InvalidInputError
from icestream.model.config import RepositoryConfig
from icestream.model.effective_config import EffectivePreload, effective
from icestream.model.ids import ManifestId, SnapshotId, parse_snapshot_id
from icestream.model.manifest_sets import ManifestPreload
from icestream.model.nodes import ArrayNode
from icestream.model.snapshots import Snapshot
from icestream.repository.background import BACKGROUND
from icestream.repository.context import Context
from icestream.repository.timeline import Timeline


class Preload:
    """What is being loaded for one session."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._guessed: SnapshotId | None = None
        self._ends: list[Future[None]] = []
        self._process = os.getpid()

    def guess(self, snapshot_id: SnapshotId | None) -> None:
        """Start with what the session will probably show, while it is still asking.

        A wrong guess costs a request that nobody waits for.
        """
        assets = self._context.assets
        is_kept = assets.settings.cached_snapshot_nodes > 0
        if snapshot_id is not None and is_kept and not assets.storage.reads_inline:
            self._start(snapshot_id)

    def follow(self, snapshot_id: SnapshotId) -> None:
        """Load manifests of what the session does show, unless that was the guess."""
        if snapshot_id != self._guessed and preloads(self._context):
            self._start(snapshot_id)

    def _start(self, snapshot_id: SnapshotId) -> None:
        self._guessed = snapshot_id
        self._ends.append(BACKGROUND.submit(partial(self._load, snapshot_id)))

    def finished(self, timeout: float | None = None) -> bool:
        """Wait until nothing is being loaded any more; tell whether that came about in time."""
        if os.getpid() != self._process:
            return True  # the threads stayed in the process that this one was forked from
        deadline = None if timeout is None else time.monotonic() + timeout
        for end in self._ends:  # which grows: loading a snapshot adds its manifests
            try:
                end.result(deadline and max(0, deadline - time.monotonic()))
            except TimeoutError:
                return False
        return True

    def _load(self, snapshot_id: SnapshotId) -> None:
        assets = self._context.assets
        snapshot = assets.load_snapshot(snapshot_id)
        if not preloads(self._context):
            return
        room = assets.settings.cached_chunk_refs
        for manifest_id in chosen_manifests(snapshot, self._context.config):
            room -= snapshot.manifest_files[manifest_id].num_refs + 1
            if room < 0:
                return  # more would only push out what came before
            if assets.find_cached_manifest(manifest_id) is None:
                self._ends.append(BACKGROUND.submit(partial(assets.load_manifest, manifest_id)))


def likely_version(
    timeline: Timeline, branch: str | None, tag: str | None, snapshot_id: str | None
) -> SnapshotId | None:
    """Return the version that a session will probably show, as far as is known without asking."""
    if snapshot_id is not None:
        with suppress(InvalidInputError):  # whoever asks will hear of it
            return parse_snapshot_id(snapshot_id)
    if tag is not None:
        return timeline.known.tags.get(tag)
    return timeline.known.branches.get(branch or "")


def preloads(context: Context) -> bool:
    """Tell whether manifests are loaded ahead of reading: if asked for, or if they are far away."""
    config = context.config
    asked = _own_settings(config) is not None or _has_peer_settings(config)
    return asked or not context.assets.storage.reads_inline


def chosen_manifests(snapshot: Snapshot, config: RepositoryConfig) -> list[ManifestId]:
    """Return the manifests of a snapshot to preload, those that matter most first."""
    own = _own_settings(config)
    if own is not None:
        return _chosen_by_path(snapshot, own)
    if _has_peer_settings(config):
        return _chosen_by_condition(snapshot, effective(config).manifest.preload)
    # our default finds coordinates that share a manifest, that of icechunk those that do not
    packed = _chosen_by_path(snapshot, ManifestPreload())
    return list(dict.fromkeys([*packed, *_chosen_by_condition(snapshot, EffectivePreload())]))


def _own_settings(config: RepositoryConfig) -> ManifestPreload | None:
    return None if config.chunk_manifests is None else config.chunk_manifests.preload


def _has_peer_settings(config: RepositoryConfig) -> bool:
    return config.manifest is not None and config.manifest.preload is not None


def _chosen_by_path(snapshot: Snapshot, preload: ManifestPreload) -> list[ManifestId]:
    chosen: dict[ManifestId, None] = {}
    for array in _selected_arrays(snapshot, preload):
        for ref in array.manifests:
            if len(chosen) == preload.max_manifests:
                return list(chosen)
            if snapshot.manifest_files[ref.manifest_id].num_refs <= preload.max_manifest_size:
                chosen[ref.manifest_id] = None
    return list(chosen)


def _selected_arrays(snapshot: Snapshot, preload: ManifestPreload) -> Iterator[ArrayNode]:
    """Yield the arrays of the first expression, then those of the second, and so on."""
    for regex in preload.arrays:
        one = ManifestPreload(arrays=(regex,))
        for path, node in snapshot.nodes.items():
            if isinstance(node, ArrayNode) and one.selects(path):
                yield node


def _chosen_by_condition(snapshot: Snapshot, preload: EffectivePreload) -> list[ManifestId]:
    """Return what icechunk preloads: of the first arrays, as many references as the limit says."""
    chosen: dict[ManifestId, None] = {}
    total = scanned = 0
    for path, node in snapshot.nodes.items():
        if not isinstance(node, ArrayNode):
            continue
        if scanned == preload.max_arrays_to_scan or total >= preload.max_total_refs:
            break
        scanned += 1
        for ref in node.manifests:
            count = snapshot.manifest_files[ref.manifest_id].num_refs
            fits = ref.manifest_id not in chosen and total + count <= preload.max_total_refs
            if fits and preload.preload_if.matches(path, count):
                chosen[ref.manifest_id] = None
                total += count
    return list(chosen)
