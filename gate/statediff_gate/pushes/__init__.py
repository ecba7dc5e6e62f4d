"""Pushes to a git repository before they count: the hooks, and the kit that tries them."""
