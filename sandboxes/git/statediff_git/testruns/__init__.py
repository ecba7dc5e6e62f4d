"""A repository's own tests as evidence."""
