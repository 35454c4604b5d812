"""Transactions: repositories, sessions, commits, history and their maintenance."""

from icestream.repository.repository import Repository

__all__ = ["Repository"]
