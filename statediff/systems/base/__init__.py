"""The common part of every system: protocols, the receipt, tools, a sandbox made of systems."""
