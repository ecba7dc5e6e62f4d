"""Recorded runs of Agent-Diff."""
