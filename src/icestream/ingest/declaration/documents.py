"""Declarations of archives as YAML, with every fault named by its path in one error."""

import difflib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from icestream.codec.chunk_manifests import chunk_manifests_tree, read_chunk_manifests
from icestream.codec.tree_reading import TreeReader
from icestream.codec.yaml_documents import dump_yaml, load_yaml
from icestream.errors import ErrorKind, InvalidInputError
from icestream.ingest.declaration.archives import (
    AUTO,
    Archive,
    Axis,
    Combination,
    OnBroken,
    OnChanged,
    OnMismatch,
    OnVanished,
    ParserChoice,
    PlaceBy,
    Policies,
    Target,
)
from icestream.ingest.declaration.source_places import SourcePlace
from icestream.model.config_nodes import BOOLEAN, TEXT, Fault, Integer, Rule
from icestream.model.manifest_sets import ROOT as CHUNK_MANIFESTS
from icestream.model.manifest_sets import ChunkManifests

VERSION = 1
"""Of the form of documents."""

_COUNT = Integer(1, 2**63 - 1)
_POLICIES: Mapping[str, type[StrEnum]] = {
    "on-broken": OnBroken,
    "on-changed": OnChanged,
    "on-vanished": OnVanished,
    "on-mismatch": OnMismatch,
}
_KEYS = (
    *("version", "name", "sources", "exclude", "access", "container", "parser", "combine"),
    *("loaded", "drop", "time-units", "policies", "target", "ledger"),
)
_PLACE_TEXTS = ("prefix", "platform", "region", "endpoint-url", "account")
_PLACE_SWITCHES = ("anonymous", "allow-http", "force-path-style", "requester-pays")
_AXIS_KEYS = ("dimension", "by", "coordinate", "pattern", "format", "step", "new")
_COMBINE_KEYS = ("along", "constant", "group-per-file")
_TARGET_KEYS = ("repository", "branch", "group", CHUNK_MANIFESTS, "splits")


# -- reading --------------------------------------------------------------------------------------


def decode_archive(data: bytes, *, name: str = "archive") -> Archive:
    """Return the archive that a YAML document declares.

    Raises:
        FormatError: It is not a YAML document.
        InvalidInputError: The declaration has faults; the message names all of them.
    """
    reader = TreeReader()
    archive = _archive(_Part(reader, load_yaml(data, name=name), "", _KEYS))
    raise_faults([*reader.faults, *archive.faults()], name=name)
    return archive


def raise_faults(faults: Sequence[Fault], *, name: str) -> None:
    """Raise one error that names all faults of a declaration, if there are any."""
    distinct = {fault.path: fault for fault in reversed(faults)}  # the first at a path counts
    if distinct:
        told = "\n  ".join(map(str, reversed(distinct.values())))
        raise InvalidInputError(
            f"{name}: the declaration has faults:\n  {told}",
            kind=ErrorKind.INVALID_CONFIG,
        )


class _Part:
    """One mapping of a document, read key by key."""

    def __init__(self, reader: TreeReader, tree: Any, path: str, keys: Sequence[str]) -> None:
        self.reader = reader
        self.path = path
        self.content = {} if tree is None else reader.mapping(tree, path)
        for key in self.content:
            if key not in keys:
                reader.fault(self.at(key), _unknown(key, keys))

    def at(self, key: str) -> str:
        """Return the path of a key."""
        return f"{self.path}.{key}" if self.path else key

    def value(self, key: str, rule: Rule, default: Any) -> Any:
        """Return a value that follows a rule, or the default."""
        found = self.content.get(key)
        if found is None or not self.reader.follows(rule, found, self.at(key)):
            return default
        return found

    def text(self, key: str) -> str | None:
        """Return a text; numbers are not taken for one, because YAML may have changed them."""
        found: str | None = self.value(key, TEXT, None)
        return found

    def required(self, key: str) -> str:
        """Return a text that must be there."""
        if self.content.get(key) is None:
            self.reader.fault(self.at(key), "is missing")
        return self.text(key) or ""

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts; a single text is one of its own."""
        found = self.content.get(key)
        if isinstance(found, str):
            return (found,)
        items = [] if found is None else self.reader.items(found, self.at(key))
        return tuple(
            item
            for i, item in enumerate(items)
            if self.reader.follows(TEXT, item, f"{self.at(key)}[{i}]")
        )

    def choice[E: StrEnum](self, key: str, choices: type[E], default: E) -> E:
        """Return a member of an enumeration."""
        found = self.content.get(key)
        if found is None:
            return default
        members = {member.value: member for member in choices}
        if isinstance(found, str) and found in members:
            return members[found]
        self.reader.fault(self.at(key), f"{found!r} is not one of {', '.join(members)}")
        return default

    def part(self, key: str, keys: Sequence[str]) -> "_Part":
        """Return a mapping inside, empty if it is not there."""
        return _Part(self.reader, self.content.get(key), self.at(key), keys)

    def parts(self, key: str, keys: Sequence[str]) -> "list[_Part]":
        """Return the mappings of a list, none if it is not there."""
        found = self.content.get(key)
        items = [] if found is None else self.reader.items(found, self.at(key))
        return [
            _Part(self.reader, item, f"{self.at(key)}[{i}]", keys) for i, item in enumerate(items)
        ]

    def mapping(self, key: str) -> dict[str, Any]:
        """Return a mapping with any keys."""
        found = self.content.get(key)
        return {} if found is None else self.reader.mapping(found, self.at(key))


def _archive(part: _Part) -> Archive:
    version = part.value("version", Integer(1, 2**31), VERSION)
    if version > VERSION:
        reason = f"{version} is of a newer icestream; this one knows versions up to {VERSION}"
        part.reader.fault("version", reason)
    return Archive(
        name=part.required("name"),
        sources=part.texts("sources"),
        exclude=part.texts("exclude"),
        access=tuple(map(_place, part.parts("access", (*_PLACE_TEXTS, *_PLACE_SWITCHES)))),
        container=part.text("container"),
        parser=_parser(part),
        combine=_combination(part.part("combine", _COMBINE_KEYS)),
        loaded=part.texts("loaded"),
        drop=part.texts("drop"),
        time_units=part.text("time-units"),
        policies=_policies(part.part("policies", tuple(_POLICIES))),
        target=_target(part.part("target", _TARGET_KEYS)),
        ledger=part.text("ledger"),
    )


def _place(part: _Part) -> SourcePlace:
    given: dict[str, Any] = {key: part.text(key) for key in _PLACE_TEXTS}
    given |= {key: part.value(key, BOOLEAN, default=False) for key in _PLACE_SWITCHES}
    given["prefix"] = part.required("prefix")
    return SourcePlace(**{_field(key): value for key, value in given.items()})


def _parser(part: _Part) -> ParserChoice:
    if isinstance(part.content.get("parser"), str):
        return ParserChoice(name=part.content["parser"])
    inner = part.part("parser", ("name", "options"))
    return ParserChoice(name=inner.text("name") or AUTO, options=inner.mapping("options"))


def _combination(part: _Part) -> Combination:
    return Combination(
        along=tuple(map(_axis, part.parts("along", _AXIS_KEYS))),
        constant=part.texts("constant"),
        group_per_file=part.text("group-per-file"),
    )


def _axis(part: _Part) -> Axis:
    step = part.content.get("step")
    if isinstance(step, int | float) and not isinstance(step, bool):
        part.content = {**part.content, "step": str(step)}
    return Axis(
        dimension=part.required("dimension"),
        by=part.choice("by", PlaceBy, PlaceBy.COORDINATE),
        coordinate=part.text("coordinate"),
        pattern=part.text("pattern"),
        format=part.text("format"),
        step=part.text("step"),
        new=part.value("new", BOOLEAN, default=False),
    )


def _policies(part: _Part) -> Policies:
    default = Policies()
    return Policies(
        on_broken=part.choice("on-broken", OnBroken, default.on_broken),
        on_changed=part.choice("on-changed", OnChanged, default.on_changed),
        on_vanished=part.choice("on-vanished", OnVanished, default.on_vanished),
        on_mismatch=part.choice("on-mismatch", OnMismatch, default.on_mismatch),
    )


def _target(part: _Part) -> Target:
    splits = {
        dimension: size
        for dimension, size in part.mapping("splits").items()
        if part.reader.follows(_COUNT, size, f"{part.at('splits')}.{dimension}")
    }
    manifests = part.content.get(CHUNK_MANIFESTS)
    return Target(
        repository=part.required("repository"),
        branch=part.value("branch", TEXT, "main"),
        group=part.value("group", TEXT, "/"),
        chunk_manifests=None if manifests is None else _chunk_manifests(part, manifests),
        splits=splits,
    )


def _chunk_manifests(part: _Part, tree: Any) -> ChunkManifests | None:
    """Read manifest sets, whose faults name their place in a repository's configuration."""
    reader = TreeReader()
    read = read_chunk_manifests(reader, tree)
    for fault in [*reader.faults, *read.faults()]:
        part.reader.fault(f"{part.path}.{fault.path}", fault.reason)
    return None if read == ChunkManifests() else read


def _unknown(key: str, keys: Sequence[str]) -> str:
    near = difflib.get_close_matches(key.replace("_", "-"), keys, n=1)
    told = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(keys)}"
    return f"is unknown; {told}"


# -- writing --------------------------------------------------------------------------------------


def encode_archive(archive: Archive) -> bytes:
    """Return the YAML document of an archive.

    Raises:
        InvalidInputError: The declaration has faults; the message names all of them.
    """
    raise_faults(list(archive.faults()), name=archive.name or "archive")
    return dump_yaml(archive_tree(archive))


def archive_tree(archive: Archive) -> dict[str, Any]:
    """Return a declaration as plain values; what is as by default is left out."""
    parser = archive.parser
    options = {"options": dict(parser.options)} if parser.options else {}
    return _given(
        {
            "version": VERSION,
            "name": archive.name,
            "sources": list(archive.sources),
            "exclude": list(archive.exclude),
            "access": [_place_tree(place) for place in archive.access],
            "container": archive.container,
            "parser": {"name": parser.name, **options} if parser != ParserChoice() else None,
            "combine": _combination_tree(archive.combine),
            "loaded": list(archive.loaded),
            "drop": list(archive.drop),
            "time-units": archive.time_units,
            "policies": _policies_tree(archive.policies),
            "target": _target_tree(archive.target),
            "ledger": archive.ledger,
        }
    )


def _place_tree(place: SourcePlace) -> dict[str, Any]:
    values = {key: getattr(place, _field(key)) for key in (*_PLACE_TEXTS, *_PLACE_SWITCHES)}
    return {key: value for key, value in values.items() if value}


def _field(key: str) -> str:
    return key.replace("-", "_")


def _combination_tree(combine: Combination) -> dict[str, Any]:
    return _given(
        {
            "along": [_axis_tree(axis) for axis in combine.along],
            "constant": list(combine.constant),
            "group-per-file": combine.group_per_file,
        }
    )


def _axis_tree(axis: Axis) -> dict[str, Any]:
    tree = _given({key: getattr(axis, key) for key in _AXIS_KEYS if key != "new"})
    return {**tree, "by": axis.by.value, **({"new": True} if axis.new else {})}


def _policies_tree(policies: Policies) -> dict[str, str]:
    chosen = {key: getattr(policies, key.replace("-", "_")) for key in _POLICIES}
    default = Policies()
    return {
        key: choice.value
        for key, choice in chosen.items()
        if choice is not getattr(default, key.replace("-", "_"))
    }


def _target_tree(target: Target) -> dict[str, Any]:
    manifests = target.chunk_manifests
    return _given(
        {
            "repository": target.repository,
            "branch": target.branch if target.branch != "main" else None,
            "group": target.group if target.group != "/" else None,
            CHUNK_MANIFESTS: None if manifests is None else chunk_manifests_tree(manifests),
            "splits": dict(target.splits),
        }
    )


def _given(tree: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in tree.items() if value not in (None, [], {}, ())}
