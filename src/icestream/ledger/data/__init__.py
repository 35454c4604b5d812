"""Slices: Arrow tables to and from hashed Parquet."""
