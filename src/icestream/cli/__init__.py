"""The command `icestream`: arguments in, text or JSON out."""

from icestream.cli.main import main

__all__ = ["main"]
