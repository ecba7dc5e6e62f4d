"""A payment API: localstripe in a process of its own, with keys, disputes and idempotency."""
