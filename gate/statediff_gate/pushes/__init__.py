"""Pushes to a git repository before they count: the hooks, and the repository as a participant."""
