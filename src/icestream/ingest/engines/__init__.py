"""What executors do with files and references, and who makes them do it."""
