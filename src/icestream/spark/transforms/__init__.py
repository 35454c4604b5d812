"""Derivative datasets: queries over new records, exactly once."""
