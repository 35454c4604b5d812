"""Planned repositories, as people write them.

    appends-per-day: 24
    arrays:
      - path: /temperature
        chunks: [0, 10, 10]
        dimension-names: [time, lat, lon]
        append-dimension: time
        chunks-per-append: 1

An array may have `references`, fewer than its chunks, and `count`: so many arrays like it, with
numbers after their path.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from icestream.codec.configs import decode_config_yaml
from icestream.codec.yaml_documents import dump_yaml, load_yaml
from icestream.errors import ErrorKind, FormatError, InvalidInputError
from icestream.model.config import RepositoryConfig
from icestream.packing.planned_pieces import PackingPlan
from icestream.packing.workloads import ArrayFacts, Workload

_CONFIG_KEYS = ("chunk-manifests", "manifest")
_NUMBERS = ("appends-per-day", "bytes-per-reference", "location-length", "commits")
_ARRAY_KEYS = (
    "path",
    "chunks",
    "dimension-names",
    "references",
    "append-dimension",
    "chunks-per-append",
    "count",
)


def read_plan(document: str, name: str) -> tuple[Workload, PackingPlan]:
    """Return the workload and the configuration that a document plans.

    Raises:
        InvalidInputError: The document is no plan.
    """
    try:
        tree = load_yaml(document.encode(), name=name)
        _check_keys(tree, (*_NUMBERS, *_CONFIG_KEYS, "arrays"), name)
        settings = {key: tree[key] for key in _CONFIG_KEYS if key in tree}
        config = decode_config_yaml(dump_yaml(settings), name=name)
    except FormatError as error:
        raise _bad_plan(str(error)) from error
    items = tree.get("arrays")
    if not isinstance(items, list):
        raise _bad_plan(f"{name}: arrays is not a list")
    numbers = {key.replace("-", "_"): _number(tree, key, name) for key in _NUMBERS if key in tree}
    arrays = [
        array for i, item in enumerate(items) for array in _arrays(item, f"{name}: arrays[{i}]")
    ]
    return Workload(arrays=tuple(arrays), **numbers), _packing(config)


def _packing(config: RepositoryConfig) -> PackingPlan:
    splitting = config.manifest.splitting if config.manifest else None
    if config.chunk_manifests is None:
        return PackingPlan(splitting=splitting)
    return PackingPlan(config.chunk_manifests, splitting)


def _arrays(item: Any, at: str) -> Iterator[ArrayFacts]:
    _check_keys(item, _ARRAY_KEYS, at)
    path, chunks = item.get("path"), item.get("chunks")
    if not isinstance(path, str) or not path.startswith("/"):
        raise _bad_plan(f"{at}.path is not an absolute path such as /temperature")
    if not isinstance(chunks, list) or not all(_is_count(n) for n in chunks):
        raise _bad_plan(f"{at}.chunks is not a list with the number of chunks per dimension")
    names = item.get("dimension-names")
    if names is not None and (not isinstance(names, list) or len(names) != len(chunks)):
        raise _bad_plan(f"{at}.dimension-names are not one name per dimension")
    array = ArrayFacts(
        path=path,
        grid=tuple(chunks),
        references=int(_number(item, "references", at, math.prod(chunks))),
        dimension_names=None if names is None else tuple(names),
        append_axis=_axis(item, len(chunks), at),
        chunks_per_append=_number(item, "chunks-per-append", at, 0),
    )
    count = int(_number(item, "count", at, 1))
    if count == 1:
        yield array
    else:
        yield from (replace(array, path=f"{path}{i}") for i in range(count))


def _axis(item: dict[str, Any], rank: int, at: str) -> int:
    """Return the number of the dimension that grows, which may be given by its name."""
    wanted = item.get("append-dimension", 0)
    names = item.get("dimension-names") or []
    axis = names.index(wanted) if wanted in names else wanted
    if not _is_count(axis) or axis >= max(rank, 1):
        raise _bad_plan(f"{at}.append-dimension: there is no dimension {wanted!r}")
    return int(axis)


def _number(tree: dict[str, Any], key: str, at: str, default: float = 0) -> Any:
    value = tree.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise _bad_plan(f"{at}.{key}: {value!r} is not a number from 0")
    return value


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _check_keys(tree: Any, known: tuple[str, ...], at: str) -> None:
    if not isinstance(tree, dict):
        raise _bad_plan(f"{at} is not a mapping")
    unknown = sorted(set(tree) - set(known))
    if unknown:
        raise _bad_plan(f"{at}: there is no {', '.join(unknown)}; known are {', '.join(known)}")


def _bad_plan(reason: str) -> InvalidInputError:
    return InvalidInputError(reason, kind=ErrorKind.INVALID_ARGUMENT)
