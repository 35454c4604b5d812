"""Verifies a dataset: every block against its hash and the rules, every file against its block."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Self

from icestream.errors import (
    ChainRuleError,
    FormatError,
    IntegrityError,
    InvalidInputError,
)
from icestream.ledger.blocks.dataset_ids import DatasetId
from icestream.ledger.blocks.events import ExecuteTransform
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.chain.block_store import BlockStore
from icestream.ledger.chain.heads import get_head
from icestream.ledger.chain.input_intervals import check_consumed
from icestream.ledger.chain.layout import HEAD, SUMMARY, block_key
from icestream.ledger.chain.object_checks import (
    CheckedObject,
    Finding,
    SliceCheck,
    check_object,
    named_objects,
)
from icestream.ledger.chain.prefetching import load_prefetched, prefetch_blocks
from icestream.ledger.chain.rules.judgement import judge
from icestream.ledger.chain.states import ChainState
from icestream.ledger.chain.stored_blocks import StoredBlock
from icestream.ledger.chain.summaries import find_summary
from icestream.storage.protocol import Storage

_THREADS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that is wrong with a dataset."""

    object_key: str
    """The block or file that is wrong, or missing."""
    rule: str
    """What it does not comply with."""
    message: str
    sequence_number: int | None = None
    """Of the block that is wrong or names the file, if it has one."""

    def __str__(self) -> str:
        rule = f"(rule {self.rule})"
        return self.message if rule in self.message else f"{self.message} {rule}"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationReport:
    """What was looked at, and what is wrong."""

    blocks: int
    slices: int
    checkpoints: int
    size_bytes: int
    """Of all files that were read."""
    problems: tuple[Problem, ...]
    """In the order of the chain."""

    @property
    def is_valid(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    @property
    def first(self) -> Problem | None:
        """What is wrong first, seen from the start of the chain."""
        return self.problems[0] if self.problems else None

    def with_problems(self, found: Iterable[Problem]) -> Self:
        """Return the report with more that is wrong, all in the order of the chain."""
        return replace(self, problems=tuple(sorted((*self.problems, *found), key=_place)))

    def require_valid(self) -> None:
        """Accept the dataset.

        Raises:
            IntegrityError: Something is wrong; names the first block or file and its rule.
        """
        if self.first is not None:
            others = len(self.problems) - 1
            more = f"; {others} more" if others else ""
            raise IntegrityError(f"{self.first}{more}", rule=self.first.rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationOptions:
    """How much to verify."""

    check_slice: SliceCheck | None = None
    """Looks into a slice: are its offsets dense, is its logical hash right? If None, slices are
    compared with their sizes and physical hashes only."""
    since: Multihash | None = None
    """Files that are named up to this block are taken as verified; its blocks are not."""
    inputs: Mapping[DatasetId, BlockStore] = field(default_factory=dict)
    """Blocks of inputs, to see whether transactions tell the truth about them."""
    threads: int = _THREADS


def verify_chain(
    storage: Storage, options: VerificationOptions | None = None
) -> VerificationReport:
    """Verify the blocks of a dataset, its slices and its checkpoints.

    Replaying transforms is not part of it.

    Raises:
        NotFoundError: There is no dataset.
        InvalidInputError: `since` is not on the chain.
    """
    options = options or VerificationOptions()
    problems: list[Problem] = []
    blocks = _read_blocks(storage, problems, options)
    files = _named_files(blocks, _verified_number(blocks, options, is_whole=not problems))
    if not problems:  # without its start, a chain cannot be judged
        problems.extend(_judge_blocks(storage, blocks, options))
    findings = _check_files(storage, files, options)
    problems.extend(
        Problem(
            object_key=finding.checked.key,
            rule=finding.rule,
            message=finding.message,
            sequence_number=finding.checked.sequence_number,
        )
        for finding in findings
        if finding.rule
    )
    kinds = [finding.checked.is_slice for finding in findings]
    return VerificationReport(
        blocks=len(blocks),
        slices=sum(kinds),
        checkpoints=len(kinds) - sum(kinds),
        size_bytes=sum(finding.size_bytes for finding in findings),
        problems=tuple(sorted(problems, key=_place)),
    )


def _place(problem: Problem) -> float:
    number = problem.sequence_number
    return float("inf") if number is None else number


def _read_blocks(
    storage: Storage, problems: list[Problem], options: VerificationOptions
) -> list[StoredBlock]:
    """Return the blocks that can be read, oldest first."""
    try:
        head = get_head(storage)
    except FormatError as error:
        problems.append(Problem(object_key=HEAD, rule="head-names-a-block", message=str(error)))
        return []
    blocks: list[StoredBlock] = []
    wanted: Multihash | None = head.block_hash
    store, read = BlockStore(storage), prefetch_blocks(storage, options.threads)
    while wanted is not None:
        try:
            blocks.append(load_prefetched(store, wanted, read))
        except IntegrityError as error:
            number = blocks[-1].sequence_number - 1 if blocks else None
            problems.append(
                Problem(
                    object_key=block_key(wanted),
                    rule=error.rule,
                    message=str(error),
                    sequence_number=number,
                )
            )
            break
        wanted = blocks[-1].block.prev_block_hash
    return blocks[::-1]


def _judge_blocks(
    storage: Storage, blocks: Sequence[StoredBlock], options: VerificationOptions
) -> Iterator[Problem]:
    """Yield the first rule that is broken; what follows would be its consequences."""
    state: ChainState | None = None
    summary = find_summary(storage)
    for block in blocks:
        try:
            judge(state, block.block)
            _check_inputs(block, options)
        except ChainRuleError as error:
            yield _broken(block, error)
            return
        state = ChainState.walked([block]) if state is None else state.after([block])
        if summary and summary.head.block_hash == block.block_hash and summary != state:
            yield Problem(
                object_key=SUMMARY,
                rule="summary-follows-from-the-chain",
                message=f"{SUMMARY} does not say what the chain says at {block.block_hash}:"
                " delete it, and it is made anew",
            )


def _check_inputs(block: StoredBlock, options: VerificationOptions) -> None:
    if isinstance(block.event, ExecuteTransform):
        for entry in block.event.query_inputs:
            if store := options.inputs.get(entry.dataset_id):
                check_consumed(store, entry)


def _broken(block: StoredBlock, error: ChainRuleError) -> Problem:
    key = block_key(block.block_hash)
    return Problem(
        object_key=key,
        rule=error.rule,
        message=f"{key}: {error}",
        sequence_number=block.sequence_number,
    )


def _verified_number(
    blocks: Sequence[StoredBlock], options: VerificationOptions, *, is_whole: bool
) -> int:
    """Return the number of the block up to which files are verified already."""
    for block in blocks:
        if block.block_hash == options.since:
            return block.sequence_number
    if options.since is not None and is_whole:
        raise InvalidInputError(f"block {options.since} is not on the chain")
    return -1


def _named_files(blocks: Sequence[StoredBlock], verified: int) -> list[CheckedObject]:
    """Return each file once, with the block that names it first."""
    files: dict[str, CheckedObject] = {}
    for checked in named_objects(blocks):
        files.setdefault(checked.key, checked)
    return [checked for checked in files.values() if checked.sequence_number > verified]


def _check_files(
    storage: Storage, files: Sequence[CheckedObject], options: VerificationOptions
) -> list[Finding]:
    def check(checked: CheckedObject) -> Finding:
        return check_object(storage, checked, options.check_slice)

    if len(files) <= 1:
        return [check(checked) for checked in files]
    with ThreadPoolExecutor(options.threads) as pool:
        return list(pool.map(check, files))
