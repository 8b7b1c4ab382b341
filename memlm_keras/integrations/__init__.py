"""Export formats for other programs; each folder can be deleted."""
