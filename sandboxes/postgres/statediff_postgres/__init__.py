"""PostgreSQL servers."""
