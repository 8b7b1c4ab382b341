"""Export formats for other programs. Any of these folders can be deleted."""
