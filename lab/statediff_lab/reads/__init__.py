"""Questions, worlds and scores of reads."""
