"""A run that is not over: the contract that judges it so far, and what no end can make good."""
