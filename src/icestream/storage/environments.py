"""What clients of object stores take from the environment of a process."""

from collections.abc import Mapping

PREFIXES = ("AWS_", "AZURE_", "GOOGLE_")
"""Of the variables that clients look at, one for each platform."""


def store_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return credentials, and how stores are reached, as far as an environment tells them."""
    return {name: text for name, text in environment.items() if name.startswith(PREFIXES)}
