"""How often and how patiently a request is repeated."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Exponential back-off with full jitter, within a budget of tries."""

    max_tries: int = 10
    initial_backoff_s: float = 0.1
    max_backoff_s: float = 15.0

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
