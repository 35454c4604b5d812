"""Arrays that are computed from other arrays, chunk by chunk, where those changed."""
