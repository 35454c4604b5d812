"""What a chain says at one block: all that judging and planning the next one needs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from icestream.errors import IntegrityError
from icestream.ledger.blocks.dataset_ids import DatasetId
from icestream.ledger.blocks.events import (
    AddData,
    AddPushSource,
    DataEvent,
    DatasetKind,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    MetadataEvent,
    Seed,
    SetDataSchema,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
    SetVocab,
)
from icestream.ledger.blocks.hashes import Multihash
from icestream.ledger.blocks.times import Timestamp
from icestream.ledger.chain.layout import HEAD
from icestream.ledger.chain.stored_blocks import StoredBlock

_DATA = "data"
_ROLES: Mapping[type, str] = {
    Seed: "seed",
    AddData: _DATA,
    ExecuteTransform: _DATA,
    SetTransform: "transform",
    SetDataSchema: "schema",
    SetVocab: "vocabulary",
    SetInfo: "info",
    SetLicense: "license",
    SetPollingSource: "polling source",
    DisablePollingSource: "disabled polling source",
}
_PUSH_SOURCE = "push source "
_DISABLED_PUSH_SOURCE = "disabled push source "


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainState:
    """The latest block of every role, up to and including `head`.

    The state of a chain is that of these few blocks alone, in their order: that is how it is
    stored and loaded again.
    """

    head: StoredBlock
    latest: Mapping[str, StoredBlock]
    """Role to the latest block that plays it."""

    @classmethod
    def fold(cls, blocks: Iterable[StoredBlock]) -> Self:
        """Return the state after blocks, oldest first, of which the first is the seed."""
        oldest, *rest = blocks
        return cls.walked([oldest]).after(rest)

    @classmethod
    def walked(cls, blocks: Iterable[StoredBlock]) -> Self:
        """Return the state at the first of blocks that come newest first, down to the seed.

        Raises:
            IntegrityError: The last one is no seed.
        """
        head, oldest, latest = None, None, dict[str, StoredBlock]()
        for oldest in blocks:
            head = head or oldest
            if role := _role_of(oldest.event):
                latest.setdefault(role, oldest)
        if head is None or oldest is None or not isinstance(oldest.event, Seed):
            raise IntegrityError(
                f"{HEAD} leads to a chain that starts with no seed (rule"
                " seed-is-the-first-block-and-no-other)"
            )
        return cls(head=head, latest=latest)

    def after(self, blocks: Iterable[StoredBlock]) -> Self:
        """Return the state when blocks, oldest first, have followed."""
        head, latest = self.head, dict(self.latest)
        for head in blocks:
            if role := _role_of(head.event):
                latest[role] = head
        return type(self)(head=head, latest=latest)

    @property
    def blocks(self) -> list[StoredBlock]:
        """The blocks that make up this state, oldest first; the last one is the head."""
        distinct = {block.sequence_number: block for block in (*self.latest.values(), self.head)}
        return [distinct[number] for number in sorted(distinct)]

    @property
    def seed(self) -> Seed:
        """Who the dataset is."""
        seed = self._find(Seed)
        assert seed is not None  # noqa: S101 - `walked` made sure
        return seed

    @property
    def dataset_id(self) -> DatasetId:
        """The identity of the dataset."""
        return self.seed.dataset_id

    @property
    def dataset_kind(self) -> DatasetKind:
        """Whether data come from outside or from other datasets."""
        return self.seed.dataset_kind

    @property
    def data_event(self) -> DataEvent | None:
        """The latest event that carries offsets, with data or without."""
        event = self._event(_DATA)
        return event if isinstance(event, AddData | ExecuteTransform) else None

    @property
    def last_offset(self) -> int | None:
        """The last record of the dataset; None if there is none."""
        return None if self.data_event is None else self.data_event.last_offset

    @property
    def next_offset(self) -> int:
        """The offset of the next record."""
        return 0 if self.last_offset is None else self.last_offset + 1

    @property
    def watermark(self) -> Timestamp | None:
        """The event time before which no more data are expected."""
        return None if self.data_event is None else self.data_event.new_watermark

    @property
    def checkpoint(self) -> Multihash | None:
        """The checkpoint that the next data event builds on."""
        event = self.data_event
        if event is None or event.new_checkpoint is None:
            return None
        return event.new_checkpoint.physical_hash

    @property
    def transform(self) -> SetTransform | None:
        """The transform in force."""
        return self._find(SetTransform)

    @property
    def schema(self) -> SetDataSchema | None:
        """The schema in force."""
        return self._find(SetDataSchema)

    @property
    def vocabulary(self) -> SetVocab:
        """The names of system columns in force; absent ones are the default ones."""
        return self._find(SetVocab) or SetVocab()

    @property
    def info(self) -> SetInfo | None:
        """What the dataset is about."""
        return self._find(SetInfo)

    @property
    def license(self) -> SetLicense | None:
        """Under which terms the data may be used."""
        return self._find(SetLicense)

    @property
    def had_polling_source(self) -> bool:
        """Whether a polling source was ever set."""
        return _ROLES[SetPollingSource] in self.latest

    @property
    def had_push_source(self) -> bool:
        """Whether a push source was ever added."""
        return any(role.startswith(_PUSH_SOURCE) for role in self.latest)

    @property
    def had_source_disabled(self) -> bool:
        """Whether any source was ever disabled."""
        disabling = (_ROLES[DisablePollingSource], _DISABLED_PUSH_SOURCE)
        return any(role.startswith(disabling) for role in self.latest)

    @property
    def polling_source(self) -> SetPollingSource | None:
        """The polling source that is active."""
        role = _ROLES[SetPollingSource]
        event = self._active(role, _ROLES[DisablePollingSource])
        return event if isinstance(event, SetPollingSource) else None

    @property
    def push_sources(self) -> Mapping[str, AddPushSource]:
        """The push sources that are active, by name."""
        roles = [role for role in self.latest if role.startswith(_PUSH_SOURCE)]
        names = [role.removeprefix(_PUSH_SOURCE) for role in roles]
        found = {
            name: self._active(_PUSH_SOURCE + name, _DISABLED_PUSH_SOURCE + name) for name in names
        }
        return {name: event for name, event in found.items() if isinstance(event, AddPushSource)}

    def has_in_force(self, event: MetadataEvent) -> bool:
        """Tell whether appending an event would change nothing that the state knows."""
        match event:
            case SetPollingSource():
                return self.polling_source == event
            case AddPushSource(source_name=name):
                return self.push_sources.get(name) == event
            case _:
                role = _role_of(event)
                return role is not None and self._event(role) == event

    def _event(self, role: str) -> MetadataEvent | None:
        block = self.latest.get(role)
        return None if block is None else block.event

    def _find[T](self, kind: type[T]) -> T | None:
        event = self._event(_ROLES[kind])
        return event if isinstance(event, kind) else None

    def _active(self, role: str, disabling: str) -> MetadataEvent | None:
        """Return what plays a role, unless it was disabled since."""
        block, disabled = self.latest.get(role), self.latest.get(disabling)
        if block is None or (disabled and disabled.sequence_number > block.sequence_number):
            return None
        return block.event


def _role_of(event: MetadataEvent) -> str | None:
    """Return the role of an event; None if nothing that follows depends on it."""
    match event:
        case AddPushSource(source_name=name):
            return _PUSH_SOURCE + name
        case DisablePushSource(source_name=name):
            return _DISABLED_PUSH_SOURCE + name
        case _:
            return _ROLES.get(type(event))
