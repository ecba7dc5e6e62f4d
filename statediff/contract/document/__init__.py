"""Contracts and state schemas as documents: keys, shapes, defaults, loading."""
