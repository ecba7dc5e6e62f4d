"""The states of a run between its ends, as clauses read them."""
