"""The systems that statediff lab reads, resets and gives agents access to: a folder a system."""
