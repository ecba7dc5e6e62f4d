"""Recorded runs of τ²-bench and its kin."""
