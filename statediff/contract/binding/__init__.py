"""Documents bound to a state schema: every name resolved, every expression typed."""
