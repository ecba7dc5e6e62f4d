"""BFCL v4's multi-turn tasks: its simulated systems as states, its ground truth as contracts."""
