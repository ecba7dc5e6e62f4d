"""Redmine trackers."""
