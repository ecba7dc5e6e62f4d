"""States that were captured before, in one lossless file each."""
