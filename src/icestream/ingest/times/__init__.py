"""Times of the CF conventions: calendars, units, and one scale for all files."""
