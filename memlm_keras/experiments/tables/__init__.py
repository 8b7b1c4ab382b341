"""Tables of the papers: runs of their rows, and the written tables."""
