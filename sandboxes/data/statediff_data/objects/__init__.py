"""Object stores and remote folders, through fsspec."""
