"""A recorded judgement in words, and its rows by name."""
