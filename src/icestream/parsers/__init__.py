"""One foreign file becomes Zarr metadata and columns of references."""
