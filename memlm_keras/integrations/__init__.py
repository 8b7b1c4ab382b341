"""Export formats for other programs; the package works without them."""
