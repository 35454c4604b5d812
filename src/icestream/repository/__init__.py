"""Transactions: repositories, sessions, commits, history and their maintenance."""
