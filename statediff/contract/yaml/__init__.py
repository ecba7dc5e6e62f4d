"""YAML documents read safely: plain values, each with its line and column."""
