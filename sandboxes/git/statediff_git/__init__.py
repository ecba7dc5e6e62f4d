"""Git repositories, read without running anything of theirs."""
