"""Sources: one module a system. Nothing is imported here: the mail sink starts through it."""
