"""What tests need: a suite for storages, doubles that behave, a fault proxy, real servers."""
