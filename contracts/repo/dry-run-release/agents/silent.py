"""Faulty: keeps everything as it is, and says nothing."""
