"""Which references go to which manifest: pure functions over pieces of arrays."""
