"""A session of a repository as a zarr store."""
