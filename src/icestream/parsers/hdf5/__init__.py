"""HDF5 and NetCDF4 files, scanned with h5py's low-level calls: headers only, no chunk is read."""
