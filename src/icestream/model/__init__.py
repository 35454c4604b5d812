"""What things are: frozen values and pure functions over them; no encoding, no I/O."""
