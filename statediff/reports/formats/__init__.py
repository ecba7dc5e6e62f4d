"""Judged trials in the forms that other tools read."""
