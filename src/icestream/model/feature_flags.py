"""Features of a repository that can be switched off."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureFlag:
    """One feature and its state in a repository."""

    id: int
    name: str
    default_enabled: bool
    setting: bool | None = None
    """What the repository says; None leaves the default."""

    @property
    def enabled(self) -> bool:
        """Whether the feature is on."""
        return self.default_enabled if self.setting is None else self.setting
