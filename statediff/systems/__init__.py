"""The systems that statediff reads, resets and gives agents access to: a folder a system."""
