"""Reading a tree of plain values while collecting every fault by its path."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from icestream.codec.yaml_documents import Tagged
from icestream.model.config_nodes import Fault, Rule, joined


@dataclass(slots=True)
class TreeReader:
    """Returns what is asked for, or something empty after taking note of a fault."""

    faults: list[Fault] = field(default_factory=list)

    def fault(self, path: str, reason: str) -> None:
        """Take note of a fault."""
        self.faults.append(Fault(path, reason))

    def follows(self, rule: Rule, value: Any, path: str) -> bool:
        """Tell whether the value follows the rule."""
        found = list(rule.faults(value, path))
        self.faults += found
        return not found

    def mapping(self, tree: Any, path: str) -> dict[str, Any]:
        """Return a mapping."""
        if isinstance(tree, dict):
            return tree
        self.fault(path, f"a {_noun(tree)} is not a mapping")
        return {}

    def items(self, tree: Any, path: str) -> list[Any]:
        """Return a list."""
        if isinstance(tree, list):
            return tree
        self.fault(path, f"a {_noun(tree)} is not a list")
        return []

    def fields(
        self, tree: Any, path: str, *required: str
    ) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return the required fields of a struct and the other ones; None if one is missing."""
        content = self.mapping(tree, path)
        missing = [name for name in required if content.get(name) is None]
        for name in missing if isinstance(tree, dict) else ():
            self.fault(joined(path, name), "is missing")
        if missing:
            return None
        others = {key: value for key, value in content.items() if key not in required}
        return {name: content[name] for name in required}, others

    def variant(self, tree: Any, path: str, names: Collection[str]) -> tuple[str, Any]:
        """Return the name of an enum variant and what it carries; without a name if it is none.

        A variant is a tagged value in YAML, a map with one entry in FlexBuffers; one that carries
        nothing is a text in both, and in YAML the texts `true` and `false` may lack quotes.
        """
        match tree:
            case Tagged():
                name, content = tree.tag, tree.value
            case bool():
                name, content = str(tree).lower(), None
            case str():
                name, content = tree, None
            case dict() if len(tree) == 1:
                ((name, content),) = tree.items()
            case _:
                name, content = _noun(tree), None
        if name in names:
            return name, content
        self.fault(path, f"{name!r} is not one of {', '.join(names)}")
        return "", None

    def choice(self, tree: Any, path: str, choices: Mapping[str, Any]) -> Any:
        """Return what a text stands for."""
        return choices.get(self.variant(tree, path, choices)[0])


def _noun(tree: Any) -> str:
    return "null" if tree is None else type(tree).__name__
