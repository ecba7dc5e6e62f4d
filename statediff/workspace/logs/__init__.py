"""Logs of verdicts: their files, signed releases for them, and witnesses of their checkpoints."""
