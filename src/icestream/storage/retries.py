"""How often and how patiently a request is repeated."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
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
        settings = settings or StorageRetriesSettings()
        chosen = {
            "max_tries": settings.max_tries,
            "initial_backoff_s": _seconds(settings.initial_backoff_ms),
            "max_backoff_s": _seconds(settings.max_backoff_ms),
        }
        return cls(**{name: value for name, value in chosen.items() if value is not None})

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


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
