"""Watching production: a guard that follows a log and judges after the commit."""
