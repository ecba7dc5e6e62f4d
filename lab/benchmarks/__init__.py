"""Measurements, side by side with peers in one run. Each module is a program."""
