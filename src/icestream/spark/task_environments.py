"""What tasks take over from the environment of the driver: credentials, and how stores are reached.

It travels with the code of tasks. Settings of Spark would be shown by its web interface.
"""

import os
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import partial
from typing import Self

from icestream.storage.environments import PREFIXES, store_variables

_CREDENTIAL_WORDS = ("ACCOUNT", "CLIENT", "CREDENTIAL", "KEY", "PROFILE", "ROLE", "SECRET", "TOKEN")
"""Variables with one of them in their names say who asks; others how a store is reached."""


@dataclass(frozen=True, slots=True)
class TaskEnvironment:
    """Variables of the driver; its text shows none of them."""

    variables: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        """Return what stores need of an environment."""
        return cls(store_variables(environment))

    def apply(self, environment: MutableMapping[str, str]) -> None:
        """Add the variables of platforms for which a machine has no credentials by itself.

        Where it has some, they hold: half of one and half of another are no credentials. And what
        it knows by itself of the way to a store, such as certificates, it keeps.
        """
        for prefix in PREFIXES:
            if any(_is_credential(name, prefix) for name in environment):
                continue
            own = {n: text for n, text in self.variables.items() if n.startswith(prefix)}
            environment.update({**own, **environment})

    @classmethod
    def of_driver(cls) -> Self:
        """Return what tasks need of the environment of this process."""
        return cls.of(os.environ)

    def around[T, R](self, work: Callable[[T], R]) -> Callable[[T], R]:
        """Return work that a task does in this environment."""
        return partial(_work_in, self, work) if self.variables else work


def _is_credential(name: str, prefix: str) -> bool:
    return name.startswith(prefix) and any(word in name for word in _CREDENTIAL_WORDS)


def _work_in[T, R](environment: TaskEnvironment, work: Callable[[T], R], given: T) -> R:
    environment.apply(os.environ)
    return work(given)
