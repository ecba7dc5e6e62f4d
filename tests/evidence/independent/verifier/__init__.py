"""Verify statediff's files: from the specification alone; README.md lists what came later."""
