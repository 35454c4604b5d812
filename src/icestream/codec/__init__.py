"""How things are written: bytes to values and back, one module per kind of file."""
