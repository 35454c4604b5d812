"""DataFrames written to repositories: tasks make chunks or references, the driver one commit."""
