"""Which call of the run made which change, where that is certain."""
