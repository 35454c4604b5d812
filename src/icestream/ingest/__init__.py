"""Archives become versions: declare, scan, place, publish."""
