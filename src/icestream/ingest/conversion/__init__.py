"""Stored values of one form, made stored values of another that mean the same."""
