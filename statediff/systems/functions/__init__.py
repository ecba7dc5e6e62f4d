"""Functions of the caller's that give tables."""
