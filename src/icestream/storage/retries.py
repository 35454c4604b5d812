"""How often and how patiently a request is repeated."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Self

from icestream.model.storage_config import StorageRetriesSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Exponential back-off with full jitter, within a budget of tries."""

    max_tries: int = 10
    initial_backoff_s: float = 0.1
    max_backoff_s: float = 15.0

    @classmethod
    def of(cls, settings: StorageRetriesSettings | None) -> Self:
        """Return the policy that settings ask for; what they leave open keeps its default."""
        policy = cls()
        if settings is None:
            return policy
        if settings.max_tries is not None:
            policy = replace(policy, max_tries=settings.max_tries)
        if settings.initial_backoff_ms is not None:
            policy = replace(policy, initial_backoff_s=settings.initial_backoff_ms / 1000)
        if settings.max_backoff_ms is not None:
            policy = replace(policy, max_backoff_s=settings.max_backoff_ms / 1000)
        return policy

    def delays_s(self) -> Iterator[float]:
        """Yield how long to wait before each try; the first is at once."""
        yield 0.0
        ceiling = self.initial_backoff_s
        for _ in range(self.max_tries - 1):
            yield random.uniform(0, ceiling)
            ceiling = min(2 * ceiling, self.max_backoff_s)

    def client_options(self, *, retry: bool) -> dict[str, object]:
        """Return the same policy in the words of obstore; `retry=False` switches it off there."""
        return {
            "max_retries": self.max_tries - 1 if retry else 0,
            "backoff": {
                "init_backoff": timedelta(seconds=self.initial_backoff_s),
                "max_backoff": timedelta(seconds=self.max_backoff_s),
                "base": 2,
            },
            "retry_timeout": timedelta(minutes=3),
        }
