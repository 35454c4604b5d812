"""GRIB files of edition 1 and 2: one message is one chunk, decoded by ecCodes."""
