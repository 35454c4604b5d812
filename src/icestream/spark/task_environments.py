"""What tasks take over from the environment of the driver: credentials, and how stores are reached.

It travels with the code of tasks. Settings of Spark would be shown by its web interface.
"""

import os
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import partial
from typing import Self

PREFIXES = ("AWS_", "AZURE_", "GOOGLE_")
"""Of the variables that clients of object stores look at, one for each platform."""


@dataclass(frozen=True, slots=True)
class TaskEnvironment:
    """Variables of the driver; its text shows none of them."""

    variables: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        """Return what stores need of an environment."""
        return cls({name: text for name, text in environment.items() if name.startswith(PREFIXES)})

    def apply(self, environment: MutableMapping[str, str]) -> None:
        """Add the variables of platforms of which a machine knows nothing by itself.

        Where it knows something, that holds: half of one and half of another are no credentials.
        """
        for prefix in PREFIXES:
            if not any(name.startswith(prefix) for name in environment):
                own = {n: text for n, text in self.variables.items() if n.startswith(prefix)}
                environment.update(own)

    def around[T, R](self, work: Callable[[T], R]) -> Callable[[T], R]:
        """Return work that a task does in this environment."""
        return partial(_work_in, self, work) if self.variables else work


def _work_in[T, R](environment: TaskEnvironment, work: Callable[[T], R], given: T) -> R:
    environment.apply(os.environ)
    return work(given)
