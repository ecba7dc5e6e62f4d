"""Roundup trackers."""
