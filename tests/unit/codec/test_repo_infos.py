"""The repo info file of spec 2."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from icestream.codec import repo_infos as codec
from icestream.codec.flatbuffer import FlatReader, FlatWriter
from icestream.codec.header import FileType, decode_body, encode_file
from icestream.codec.repo_infos import decode_repo_info, encode_repo_info
from icestream.errors import ErrorKind, FormatError
from icestream.model.ids import INITIAL_SNAPSHOT_ID, SnapshotId, id_text
from icestream.model.ops_log import (
    EVENT_KINDS,
    BranchCreated,
    BranchDeleted,
    BranchReset,
    CommitAmended,
    ConfigChanged,
    ExpirationRan,
    FeatureFlagChanged,
    GCRan,
    MetadataChanged,
    NewCommit,
    NewDetachedSnapshot,
    RepoAvailability,
    RepoInitialized,
    RepoMigrated,
    RepoStatus,
    RepoStatusChanged,
    TagCreated,
    TagDeleted,
    Update,
    UpdateType,
)
from icestream.model.repo_info import RepoInfo, SnapshotEntry, initial_repo_info
from icestream.model.snapshots import Snapshot
from icestream.model.times import datetime_of

NOW = 1_795_298_492_939_694

INITIAL_BODY = bytes.fromhex(
    "1c0000004963686b14002400070008000c001000140018001c00200014000000"
    "000000023001000008010000000100005c000000480000003800000004000000"
    "010000001000000000000a001400070008000c000a0000000000000110000000"
    "f33bb1d357600600040004000400000000000000080010000000040008000000"
    "c63bb1d35760060000000000010000001400000000000e002800040010001c00"
    "140018000e0000000b1cc8d6787580f0e33a6534ffffffff140000002c000000"
    "5c3bb1d35760060000000000160000005265706f7369746f727920696e697469"
    "616c697a65640000010000000c00000008000c00040008000800000020000000"
    "040000001200000069735f726f6f74000109010101016802240100000a000000"
    "5f5f6963656368756e6b000000000000010000000c0000000000060008000400"
    "0600000004000000040000006d61696e0000000000000000"
)
"""The repo info right after creation as icechunk 2.3.0 wrote it."""


def snapshot_id(number: int) -> SnapshotId:
    return SnapshotId(bytes([number]) * 12)


def entry(
    number: int, parent: SnapshotId | None = INITIAL_SNAPSHOT_ID, **changes: Any
) -> SnapshotEntry:
    return replace(
        SnapshotEntry(
            id=snapshot_id(number), parent_id=parent, flushed_at=NOW + number, message=f"n{number}"
        ),
        **changes,
    )


def info_of(*entries: SnapshotEntry, **changes: Any) -> RepoInfo:
    info = initial_repo_info(NOW)
    for one in entries:
        info = info.with_snapshot(one)
    return replace(info, **changes)


def decode(data: bytes) -> RepoInfo:
    return decode_repo_info(data, name="repo")


def decode_flatbuffer(body: bytes) -> RepoInfo:
    return decode(encode_file(body, FileType.REPO_INFO, 2, level=1))


def body_of(info: RepoInfo) -> bytes:
    return decode_body(encode_repo_info(info, level=3), FileType.REPO_INFO, name="x")[1]


def assert_survives(info: RepoInfo) -> None:
    assert decode(encode_repo_info(info, level=3)) == info


def write_repo(writer: FlatWriter, **changes: Any) -> bytes:
    """Return a repo info of one snapshot whose parts may be wrong."""
    slots: dict[str, Any] = {
        "spec_version": 2,
        "tags": writer.offsets([]),
        "branches": writer.offsets([]),
        "deleted_tags": writer.offsets([]),
        "snapshots": writer.offsets([write_entry(writer)]),
        "status": writer.table(codec._STATUS, 0, NOW),
        "metadata": None,
        "latest_updates": writer.offsets([]),
    }
    return writer.finish(writer.table(codec._REPO, *(slots | changes).values()))


def write_entry(writer: FlatWriter, parent: int | None = -1, flushed_at: int = 1) -> int:
    return writer.table(codec._SNAPSHOT_INFO, bytes(12), parent, flushed_at, writer.string("m"))


def write_update(writer: FlatWriter, kind: int, content: int, time: int = NOW) -> int:
    return writer.offsets([writer.table(codec._UPDATE, kind, content, time)])


def root_of(body: bytes) -> tuple[FlatReader, dict[str, Any]]:
    reader = FlatReader(body, "x")
    names = [field.name for field in codec._REPO.fields]
    return reader, dict(zip(names, reader.read_root(codec._REPO), strict=True))


def test_the_repo_info_of_a_created_repository_is_read_byte_by_byte() -> None:
    decoded = decode_flatbuffer(INITIAL_BODY)
    flushed_at, set_at, updated_at = (
        int.from_bytes(INITIAL_BODY[at : at + 8], "little") for at in (0xC0, 0x80, 0x60)
    )

    assert decoded == replace(
        initial_repo_info(flushed_at),
        status=RepoStatus(RepoAvailability.online, datetime_of(set_at)),
        latest_updates=(Update(RepoInitialized(), updated_at),),
    )


def test_everything_survives() -> None:
    assert_survives(
        info_of(
            entry(1, metadata={"größe": [1, {"a": None}]}),
            entry(200, snapshot_id(1), pruned_logs=(snapshot_id(7), snapshot_id(3))),
            branches={"main": snapshot_id(200), "with/slash": snapshot_id(1)},
            tags={"v1": snapshot_id(1), "ü": INITIAL_SNAPSHOT_ID},
            deleted_tags=frozenset({"old", "älter"}),
            status=RepoStatus(RepoAvailability.read_only, datetime_of(NOW), "wartung"),
            metadata={"owner": {"name": "x"}, "é": 2.5},
            latest_updates=(
                Update(NewCommit("main", id_text(snapshot_id(200))), NOW + 2),
                Update(RepoInitialized(), NOW, "repo.00000000000000.X"),
            ),
            repo_before_updates="repo.00000000000001.Y",
            config=b"\x00\xffany bytes",
            enabled_flags=frozenset({4, 60000}),
            disabled_flags=frozenset({3}),
            extra=b"of the future",
        )
    )


EVENTS: Sequence[UpdateType] = (
    RepoInitialized(),
    RepoMigrated(1, 2),
    ConfigChanged(),
    MetadataChanged(),
    TagCreated("größe"),
    TagDeleted("t", id_text(snapshot_id(1))),
    BranchCreated("b"),
    BranchDeleted("b", id_text(snapshot_id(1))),
    BranchReset("b", id_text(snapshot_id(1))),
    NewCommit("main", id_text(snapshot_id(2))),
    CommitAmended("main", id_text(snapshot_id(1)), id_text(snapshot_id(2))),
    NewDetachedSnapshot(id_text(snapshot_id(3))),
    GCRan(),
    ExpirationRan(),
    FeatureFlagChanged(3, True),
    FeatureFlagChanged(3, False),
    FeatureFlagChanged(3, None),
    RepoStatusChanged(RepoStatus(RepoAvailability.offline, datetime_of(NOW), "because")),
    RepoStatusChanged(RepoStatus(RepoAvailability.online, datetime_of(NOW))),
)


@pytest.mark.parametrize("event", EVENTS, ids=repr)
def test_every_kind_of_event_survives(event: UpdateType) -> None:
    assert_survives(info_of(latest_updates=(Update(event, NOW + 1),)))


def test_trap_13_the_kinds_of_events_have_the_numbers_of_the_specification() -> None:
    numbers = {}
    for event in EVENTS:
        reader, root = root_of(body_of(info_of(latest_updates=(Update(event, NOW),))))
        (at,) = reader.positions(root["latest_updates"], "u")
        numbers[reader.read(at, codec._UPDATE)[0]] = type(event)

    assert numbers == dict(enumerate(EVENT_KINDS, start=1))
    assert (numbers[1], numbers[10], numbers[16]) == (RepoInitialized, NewCommit, RepoStatusChanged)


@pytest.mark.parametrize("kind", [0, 17, 255])
def test_an_event_of_unknown_kind_is_refused_by_its_number(kind: int) -> None:
    writer = FlatWriter()
    updates = write_update(writer, kind, writer.table(codec._EVENT_TABLES[0]))
    body = write_repo(writer, latest_updates=updates)
    with pytest.raises(FormatError, match=f"kind {kind} of the ops log is not known"):
        decode_flatbuffer(body)


def test_trap_5_a_root_has_the_parent_minus_one_explicitly() -> None:
    reader, root = root_of(body_of(info_of(entry(1))))
    rows = [
        reader.read(at, codec._SNAPSHOT_INFO) for at in reader.positions(root["snapshots"], "s")
    ]

    assert [(row[0], row[1]) for row in rows] == [(snapshot_id(1), 1), (INITIAL_SNAPSHOT_ID, -1)]


def test_trap_5_an_absent_parent_is_the_first_snapshot() -> None:
    writer = FlatWriter()
    body = write_repo(writer, snapshots=writer.offsets([write_entry(writer, parent=None)]))

    (only,) = decode_flatbuffer(body).snapshots.values()
    assert only.parent_id == only.id


@pytest.mark.parametrize("name", ["tags", "branches", "deleted_tags", "snapshots", "status"])
def test_trap_6_a_missing_required_field_is_named(name: str) -> None:
    with pytest.raises(FormatError, match=rf"^repo: Repo: .* lacks required fields: {name}"):
        decode_flatbuffer(write_repo(FlatWriter(), **{name: None}))


def test_trap_6_empty_lists_are_written_and_unset_flags_are_not() -> None:
    reader, root = root_of(body_of(info_of()))

    for name in ("tags", "deleted_tags", "metadata"):
        assert reader.positions(root[name], name) == []
    absent = ("repo_before_updates", "config", "enabled_feature_flags", "disabled_feature_flags")
    assert {root[name] for name in (*absent, "extra")} == {0}


def test_trap_7_indexes_follow_the_ids_when_a_snapshot_is_inserted_in_front() -> None:
    info = info_of(entry(20), branches={"main": snapshot_id(20)}, tags={"t": INITIAL_SNAPSHOT_ID})
    later = info.with_snapshot(entry(1, snapshot_id(20))).with_branch("main", snapshot_id(1))

    for value in (info, later):
        decoded = decode(encode_repo_info(value, level=3))
        assert decoded == value
        assert list(decoded.snapshots) == sorted(value.snapshots)


@pytest.mark.parametrize(
    ("updates", "message"),
    [
        ((), "the ops log is empty"),
        ((Update(GCRan(), NOW, "repo.x"),), "has a backup path"),
        ((Update(GCRan(), NOW), Update(GCRan(), NOW, "a")), "not later than the one before"),
    ],
)
def test_trap_8_an_ops_log_that_stops_icechunk_from_writing_is_refused(
    updates: tuple[Update, ...], message: str
) -> None:
    with pytest.raises(FormatError, match=f"cannot be written: .*{message}") as error:
        encode_repo_info(info_of(latest_updates=updates), level=3)

    assert error.value.kind is ErrorKind.SERIALIZATION


def test_trap_8_such_an_ops_log_of_others_is_read() -> None:
    assert decode_flatbuffer(write_repo(FlatWriter())).latest_updates == ()


def test_trap_8_the_log_that_a_change_extends_can_be_written() -> None:
    info = info_of().logged(TagCreated("t"), now=NOW, backup_path="repo.x", keep=10)

    assert_survives(info)
    assert info.latest_updates[1].backup_path == "repo.x"


def test_trap_9_the_initial_snapshot_is_the_root() -> None:
    decoded = decode(encode_repo_info(initial_repo_info(NOW), level=3))

    assert decoded.branches == {"main": INITIAL_SNAPSHOT_ID}
    assert decoded.snapshots[INITIAL_SNAPSHOT_ID].parent_id is None


def test_trap_15_strings_end_with_a_zero_byte() -> None:
    names = [f"branch-{'x' * n}" for n in range(8)]
    body = body_of(info_of(branches=dict.fromkeys(["main", *names], INITIAL_SNAPSHOT_ID)))

    for name in names:
        length = len(name).to_bytes(4, "little")
        assert length + name.encode() + b"\0" in body


def test_trap_23_an_entry_repeats_the_metadata_of_its_snapshot() -> None:
    snapshot = Snapshot(
        id=snapshot_id(5), flushed_at=NOW, message="größer", metadata={"é": [1, None]}
    )
    info = info_of(SnapshotEntry.of(snapshot, INITIAL_SNAPSHOT_ID))

    decoded = decode(encode_repo_info(info, level=3)).snapshots[snapshot.id]
    assert (decoded.message, decoded.metadata) == (snapshot.message, snapshot.metadata)


def test_a_repo_info_without_main_is_refused() -> None:
    with pytest.raises(FormatError, match="there is no branch 'main'"):
        encode_repo_info(info_of(branches={"dev": INITIAL_SNAPSHOT_ID}), level=3)


@pytest.mark.parametrize(
    ("info", "message"),
    [
        (info_of(entry(1, snapshot_id(9))), "snapshot 040G2081040G2081040G names"),
        (info_of(tags={"t": snapshot_id(9)}), "ref 't' names"),
    ],
)
def test_names_of_snapshots_that_are_not_listed_are_refused(info: RepoInfo, message: str) -> None:
    with pytest.raises(FormatError, match=f"{message} .* not in the list"):
        encode_repo_info(info, level=3)


@pytest.mark.parametrize("parent", [-2, 1, 2**31 - 1, -(2**31)])
def test_a_parent_out_of_range_is_refused(parent: int) -> None:
    writer = FlatWriter()
    body = write_repo(writer, snapshots=writer.offsets([write_entry(writer, parent)]))
    with pytest.raises(FormatError, match=rf"parent_offset: {parent} is no index in a list of 1"):
        decode_flatbuffer(body)


@pytest.mark.parametrize("index", [1, 2**32 - 1])
@pytest.mark.parametrize("refs", ["tags", "branches"])
def test_a_ref_out_of_range_is_refused(refs: str, index: int) -> None:
    writer = FlatWriter()
    ref = writer.table(codec._REF, writer.string("main"), index)
    body = write_repo(writer, **{refs: writer.offsets([ref])})
    with pytest.raises(FormatError, match=rf"Repo.{refs}: {index} is no index"):
        decode_flatbuffer(body)


def test_a_loop_of_parents_is_read_and_walks_end() -> None:
    writer = FlatWriter()
    body = write_repo(writer, snapshots=writer.offsets([write_entry(writer, parent=0)]))

    info = decode_flatbuffer(body)
    assert len(list(info.ancestry(SnapshotId(bytes(12))))) == 1


def test_snapshots_and_refs_that_are_there_twice_are_refused() -> None:
    writer = FlatWriter()
    twice = writer.offsets([write_entry(writer)] * 2)
    with pytest.raises(FormatError, match="a snapshot is there twice") as error:
        decode_flatbuffer(write_repo(writer, snapshots=twice))
    assert error.value.kind is ErrorKind.DUPLICATE_SNAPSHOT_ID

    writer = FlatWriter()
    refs = writer.offsets([writer.table(codec._REF, writer.string("t"), 0)] * 2)
    with pytest.raises(FormatError, match=r"Repo.tags: 't' is there twice"):
        decode_flatbuffer(write_repo(writer, tags=refs))


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        (0, ErrorKind.INVALID_FILE_FORMAT),
        (1, ErrorKind.INVALID_FILE_FORMAT),
        (3, ErrorKind.UNSUPPORTED_SPEC_VERSION),
    ],
)
def test_another_spec_version_inside_is_refused(version: int, kind: ErrorKind) -> None:
    with pytest.raises(FormatError, match=r"spec.version") as error:
        decode_flatbuffer(write_repo(FlatWriter(), spec_version=version))

    assert error.value.kind is kind


def test_a_repo_info_of_spec_1_is_refused() -> None:
    with pytest.raises(FormatError, match="spec version 1 cannot exist"):
        decode(encode_file(INITIAL_BODY, FileType.REPO_INFO, 1, level=3))


def test_an_unknown_availability_is_refused() -> None:
    writer = FlatWriter()
    body = write_repo(writer, status=writer.table(codec._STATUS, 3, NOW))
    with pytest.raises(FormatError, match=r"RepoStatus.availability: 3 is not known"):
        decode_flatbuffer(body)


def test_times_after_the_year_9999_are_refused() -> None:
    late = 253_402_300_800_000_000
    writer = FlatWriter()
    entries = writer.offsets([write_entry(writer, flushed_at=late)])
    with pytest.raises(FormatError, match=r"SnapshotInfo.flushed_at"):
        decode_flatbuffer(write_repo(writer, snapshots=entries))

    writer = FlatWriter()
    status = writer.table(codec._STATUS, 0, late)
    with pytest.raises(FormatError, match=r"RepoStatus.set_at"):
        decode_flatbuffer(write_repo(writer, status=status))

    writer = FlatWriter()
    updates = write_update(writer, 1, writer.table(codec._EVENT_TABLES[0]), late)
    with pytest.raises(FormatError, match=r"Update.updated_at"):
        decode_flatbuffer(write_repo(writer, latest_updates=updates))


def test_the_latest_possible_time_is_read() -> None:
    writer = FlatWriter()
    status = writer.table(codec._STATUS, 0, 253_402_300_799_999_999)

    assert decode_flatbuffer(write_repo(writer, status=status)).status.set_at.year == 9999
