"""Commands for authors of contracts."""
