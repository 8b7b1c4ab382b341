"""Tables of the papers: trains their rows, and writes them."""
