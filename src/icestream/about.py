"""What this package is, and which version."""

import importlib.metadata
import platform
import sys

from icestream.repository.repository import SpecVersion

__version__ = importlib.metadata.version("icestream")


def spec_version() -> SpecVersion:
    """Return the newest version of the Icechunk format that this package writes."""
    return SpecVersion.current()


def user_agent() -> str:
    """Return how this package names itself in requests and files."""
    return f"icestream-{__version__}"


def print_debug_info() -> None:
    """Print the versions that a bug report should name."""
    lines = [f"platform: {platform.platform()}", f"python: {platform.python_version()}"]
    for package in ("icestream", "zarr", "numpy", "pyarrow", "obstore", "xarray", "dask"):
        try:
            lines.append(f"{package}: {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            lines.append(f"{package}: not installed")
    sys.stdout.write("\n".join(lines) + "\n")
