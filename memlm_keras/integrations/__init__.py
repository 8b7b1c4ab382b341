"""Export formats for programs of others; each folder can be deleted."""
