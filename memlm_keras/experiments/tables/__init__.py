"""Tables of the papers: runs of their rows, and what is written of them."""
