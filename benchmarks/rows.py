"""The rows of the table: what is measured, and what is to be reached."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from benchmarks.cases import Case, Checksums, Inputs, Shape

MILLION = 1_000_000
QUICK_REFERENCES = 100_000
QUICK_CHUNKS = 1_000

_CHUNKS = 10_000
_SMALL_ARRAYS = 5_760
_LISTED_BY_PEER = 100_000
"""icechunk takes more than 100 s to list a million keys; a tenth is listed, and scaled up."""


@dataclass(frozen=True, slots=True)
class Target:
    """A limit for one measure, absolute or as a multiple of what icechunk needs."""

    limit: float
    of_peer: bool = False
    at_least: bool = False

    def is_met(self, value: float, peer: float) -> bool:
        """Tell whether a value reaches the target."""
        limit = self.limit * peer if self.of_peer else self.limit
        return value >= limit if self.at_least else value <= limit

    def __str__(self) -> str:
        sign = ">=" if self.at_least else "<="
        return f"{sign} {self.limit:g}{' x icechunk' if self.of_peer else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measure of one case."""

    title: str
    case: Case
    measure: str = "cpu_s"
    target: Target | None = None
    is_long: bool = False
    peer_references: int | None = None
    """How many references icechunk gets, when fewer: its result is scaled up."""
    peer_repeat: int | None = None
    """How often icechunk runs at most: where it takes long, once says enough."""
    has_peer: bool = True
    """Whether icechunk can do it at all."""
    max_repeat: int | None = None
    """How often it runs at most: where it takes minutes, once says enough."""

    @property
    def peer_case(self) -> Case:
        """The case that icechunk is measured with."""
        case = self.case.peer
        return case if self.peer_references is None else case.scaled(self.peer_references)

    @property
    def peer_scale(self) -> float:
        """By what the cost of icechunk's case is multiplied."""
        return self.case.references / self.peer_case.references


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The rows that one case gives."""

    title: str
    case: Case
    targets: dict[str, Target | None] = field(default_factory=dict)
    is_long: bool = False
    peer_references: int | None = None
    peer_repeat: int | None = None
    has_peer: bool = True
    max_repeat: int | None = None

    def rows(self) -> Iterator[Row]:
        """Yield one row per measure."""
        for measure, target in self.targets.items():
            yield Row(
                title=self.title,
                case=self.case,
                measure=measure,
                target=target,
                is_long=self.is_long,
                peer_references=self.peer_references,
                peer_repeat=self.peer_repeat,
                has_peer=self.has_peer,
                max_repeat=self.max_repeat,
            )


def _case(operation: str, references: int = MILLION, **choices: Shape | Inputs | Checksums) -> Case:
    return Case(operation=operation, references=references, **choices)  # type: ignore[arg-type]  # the enums


def _times_icechunk(times: float) -> Target:
    """Return the target to be so many times as fast as icechunk."""
    return Target(times, of_peer=True, at_least=True)


def _part_of_icechunk(times: float) -> Target:
    """Return the target to take so many times less than icechunk."""
    return Target(1 / times, of_peer=True)


_AT_MOST_150 = Target(150)
_AT_MOST_4_GB = Target(4_000)

_CHECKED = ((Checksums.NONE, "unchecked"), (Checksums.ONE, "checked"))

_VIRTUAL_GROUPS: tuple[Group, ...] = (
    *(
        Group(
            title=f"1 M references, {objects}, a column of {checksums}: set + commit",
            case=_case("set_and_commit", shape=shape, checksums=checksums),
            targets={"cpu_s": _part_of_icechunk(5), "peak_mb": None, "file_mb": None},
        )
        for shape, objects in ((Shape.FILE, "many per file"), (Shape.OBJECT, "one URL each"))
        for checksums in (Checksums.ETAGS, Checksums.SECONDS)
    ),
    *(
        Group(
            title=f"zarr read of 10,000 virtual 4 kB chunks, local file, {how}",
            case=_case("read_chunks_of_file", _CHUNKS, checksums=checksums),
            targets={"chunks_per_s": _times_icechunk(2), "cpu_s": None},
        )
        for checksums, how in _CHECKED
    ),
    Group(
        title="zarr read of 10,000 virtual 4 kB chunks, S3 at 20 ms, checked",
        case=_case("read_chunks_on_server", _CHUNKS, checksums=Checksums.ONE),
        targets={"chunks_per_s": _times_icechunk(5), "requests": None},
        peer_repeat=1,  # 40 s
    ),
    Group(
        title="list 1 M locations, many per file",
        case=_case("list_locations"),
        targets={"cpu_s": _part_of_icechunk(2), "peak_mb": None},
    ),
    Group(
        title="list 1 M locations, one URL each, plain",
        case=_case("list_locations", shape=Shape.OBJECT),
        targets={"cpu_s": _part_of_icechunk(2), "peak_mb": None},
    ),
    Group(
        title="list 1 M locations, one URL each, compressed",
        case=_case("list_compressed_locations", shape=Shape.OBJECT),
        targets={"cpu_s": None, "peak_mb": None},
    ),
    Group(
        title="list the distinct objects of 1 M references, many per file",
        case=_case("list_objects"),
        targets={"cpu_s": _part_of_icechunk(10), "peak_mb": None},
    ),
    Group(
        title="list the distinct objects of 1 M references, one URL each, Arrow",
        case=_case("list_object_columns", shape=Shape.OBJECT),
        targets={"cpu_s": _part_of_icechunk(10), "peak_mb": None},
    ),
    Group(
        title="  the same as list[str]",
        case=_case("list_objects", shape=Shape.OBJECT),
        targets={"cpu_s": None, "peak_mb": None},
    ),
)

_OPENING_GROUPS: tuple[Group, ...] = tuple(
    Group(
        title=f"open to a first coordinate value, S3 at 30 ms, {how}",
        case=_case(f"open_to_coordinate_on_server{suffix}", _CHUNKS),
        targets={"round_trips": Target(4), "wall_ms": None, "later_ms": None},
    )
    for suffix, how in (("", "preload off"), ("_with_preload", "preload on"))
)

_PACKING_GROUPS: tuple[Group, ...] = (
    Group(
        title="commit 5,760 small arrays, local",
        case=_case("commit_small_arrays", _SMALL_ARRAYS),
        targets={"puts": Target(10), "wall_s": _part_of_icechunk(2), "peak_mb": None},
    ),
    Group(
        title="  change one of them",
        case=_case("change_small_array", _SMALL_ARRAYS),
        targets={"manifests": Target(1), "puts": None, "wall_s": None},
    ),
    Group(
        title="commit 5,760 small arrays, S3 at 20 ms",
        case=_case("commit_small_arrays_on_server", _SMALL_ARRAYS),
        targets={"puts": Target(10), "wall_s": _part_of_icechunk(5)},
        peer_repeat=1,
    ),
    *(
        Group(
            title=f"open + read a coordinate beside {references:,} references",
            case=_case("read_coordinate_beside", references),
            targets={"read_kb": None, "wall_ms": None},
            is_long=references > MILLION,
            has_peer=references <= MILLION,  # icechunk takes minutes to write ten million
        )
        for references in (10_000, MILLION, 10 * MILLION)
    ),
    *(
        Group(
            title=f"append a step to {references:,} references, split",
            case=_case("append_to_split_array", references),
            targets={"wall_ms": None, "cpu_s": None},
            is_long=references > MILLION,
            has_peer=references <= MILLION,  # icechunk takes minutes to write ten million
        )
        for references in (10_000, 100_000, MILLION, 10 * MILLION)
    ),
)

_LEDGER_GROUPS: tuple[Group, ...] = (
    Group(
        title="ledger: append a transaction without output, open handle",
        case=_case("append_without_output", 1_000),
        targets={"storage_requests": Target(4), "wall_ms": None},
        has_peer=False,
    ),
    *(
        Group(
            title=f"ledger: {how} {count:,} transactions",
            case=_case(operation, count),
            targets={"storage_requests": target, "wall_ms": None},
            has_peer=False,
        )
        for count in (1_000, 10_000, 100_000)
        for how, operation, target in (
            ("plan the next of", "plan_transaction", Target(8)),
            ("deep scan instead, of", "scan_chain_deeply", None),
        )
    ),
    Group(
        title="ledger: verify 10,000 blocks on disk",
        case=_case("verify_blocks_on_disk", 10_000),
        targets={"wall_s": Target(10)},
        has_peer=False,
    ),
    Group(
        title="ledger: logical hash of numbers",
        case=_case("hash_numbers", 4 * MILLION),
        targets={"mb_per_s": Target(200, at_least=True)},
        has_peer=False,
    ),
    Group(
        title="ledger: logical hash of texts",
        case=_case("hash_texts", 4 * MILLION),
        targets={"mb_per_s": Target(50, at_least=True)},
        has_peer=False,
    ),
    Group(
        title="ledger: snapshot of 1 M rows into 1 M records, Spark",
        case=_case("merge_snapshot_on_spark"),
        targets={"wall_s": None},
        has_peer=False,
    ),
)

_PIPELINE_GROUPS: tuple[Group, ...] = (
    Group(
        title="ingest 2,000 NetCDF4 files of 80 references, Spark",
        case=_case("ingest_archive", 160_000),
        targets={"wall_s": _part_of_icechunk(2), "with_start_s": _part_of_icechunk(1)},
        peer_repeat=1,  # more than a minute
    ),
    Group(
        title="write 10 M scanned references, warm Spark",
        case=_case("write_scanned_references", 10 * MILLION),
        targets={
            "references_per_s": Target(MILLION / 2, at_least=True),
            "scanned_per_s": None,
            "bytes_per_reference": None,
        },
        is_long=True,
        has_peer=False,
    ),
    Group(
        title="make 100 M references visible at once, Spark",
        case=_case("make_references_visible", 100 * MILLION),
        targets={
            "wall_s": None,
            "references_per_s": None,
            "driver_mb": _AT_MOST_4_GB,
            "java_mb": _AT_MOST_4_GB,
            "worker_mb": _AT_MOST_4_GB,
            "bytes_per_reference": None,
        },
        is_long=True,
        has_peer=False,
        max_repeat=1,
    ),
    Group(
        title="run on 100,000 files, none of them new",
        case=_case("run_unchanged", 100_000),
        targets={"wall_s": None, "list_s": None, "storage_requests": None, "first_run_s": None},
        is_long=True,
        has_peer=False,
        max_repeat=1,
    ),
    Group(
        title="list 100,000 files, S3 at 20 ms",
        case=_case("list_sources_on_server", 100_000),
        targets={"wall_s": None, "storage_requests": None},
        is_long=True,  # writing them takes minutes
        has_peer=False,
        max_repeat=1,
    ),
)

GROUPS: tuple[Group, ...] = (
    Group(
        title="1 M references, many per file: set + commit",
        case=_case("set_and_commit"),
        targets={"cpu_s": Target(0.5), "peak_mb": _AT_MOST_150, "file_mb": Target(17.5)},
    ),
    Group(
        title="  the same from list[str]",
        case=_case("set_and_commit", inputs=Inputs.TEXTS),
        targets={"cpu_s": None, "peak_mb": None},
    ),
    Group(
        title="1 M references, one URL each: set + commit",
        case=_case("set_and_commit", shape=Shape.OBJECT),
        targets={"cpu_s": Target(0.7), "peak_mb": _AT_MOST_150, "file_mb": Target(14.5)},
    ),
    Group(
        title="  the same from list[str]",
        case=_case("set_and_commit", shape=Shape.OBJECT, inputs=Inputs.TEXTS),
        targets={"cpu_s": None, "peak_mb": None},
    ),
    Group(
        title="10 M references, many per file: set + commit",
        case=_case("set_and_commit", 10 * MILLION),
        targets={"wall_s": Target(6), "peak_mb": Target(800)},
        is_long=True,
    ),
    Group(
        title="change one chunk of 1 M, many per file, warm",
        case=_case("change_one_chunk"),
        targets={"cpu_s": Target(0.5), "peak_mb": None},
    ),
    Group(
        title="change one chunk of 1 M, one URL each, warm",
        case=_case("change_one_chunk", shape=Shape.OBJECT),
        targets={"cpu_s": Target(0.5), "peak_mb": None},
    ),
    Group(
        title="change one chunk of 10 M, many per file, warm",
        case=_case("change_one_chunk", 10 * MILLION),
        targets={"wall_s": Target(6), "peak_mb": Target(1_500)},
        is_long=True,
    ),
    Group(
        title="columns out of icechunk's manifest of 1 M, many per file",
        case=_case("decode_manifest"),
        targets={"cpu_s": Target(0.5), "peak_mb": None},
    ),
    Group(
        title="columns out of icechunk's manifest of 1 M, one URL each",
        case=_case("decode_manifest", shape=Shape.OBJECT),
        targets={"cpu_s": Target(0.8), "peak_mb": None},
    ),
    Group(
        title="list 1 M chunk keys",
        case=_case("list_keys"),
        targets={"cpu_s": Target(3)},
        peer_references=_LISTED_BY_PEER,
    ),
    Group(
        title="8 forks of 125 k, many per file: ship, merge, commit",
        case=_case("ship_merge_and_commit"),
        targets={"cpu_s": Target(1), "pickled_mb": Target(40), "peak_mb": None},
    ),
    Group(
        title="8 forks of 125 k, one URL each: ship, merge, commit",
        case=_case("ship_merge_and_commit", shape=Shape.OBJECT),
        targets={"cpu_s": None, "pickled_mb": None, "peak_mb": None},
    ),
    Group(
        title="open + read a coordinate beside 1 M, cold",
        case=_case("open_and_read_coordinate"),
        targets={"wall_ms": Target(2, of_peer=True)},
    ),
    Group(
        title="zarr read of 10,000 native 4 kB chunks",
        case=_case("read_native_chunks", _CHUNKS),
        targets={"chunks_per_s": _times_icechunk(1.5)},
    ),
    *_VIRTUAL_GROUPS,
    *_OPENING_GROUPS,
    *_PACKING_GROUPS,
    *_LEDGER_GROUPS,
    *_PIPELINE_GROUPS,
)


def full_rows(*, long: bool) -> list[Row]:
    """Return all rows; those that take minutes only if asked for."""
    return [row for group in GROUPS for row in group.rows() if long or not row.is_long]


def quick_rows() -> list[Row]:
    """Return the rows with few references: they show that everything runs, and judge nothing."""
    return [_shrunk(row) for row in full_rows(long=False)]


def only(rows: Iterable[Row], text: str) -> list[Row]:
    """Return the rows whose title or case contains a text."""
    return [row for row in rows if text in row.title or text in row.case.label]


def _shrunk(row: Row) -> Row:
    references = QUICK_CHUNKS if row.case.references <= _CHUNKS else QUICK_REFERENCES
    peer = None if row.peer_references is None else references // 10
    title = f"{row.title} (at {references:,})"
    return replace(
        row, title=title, case=row.case.scaled(references), target=None, peer_references=peer
    )
