"""Stage 1: what is read of the systems, by whom, when and how completely."""
