"""Export formats for other programs, each of which can be deleted."""
