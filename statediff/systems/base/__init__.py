"""What every system shares: protocols, the receipt, tools, a sandbox made of systems."""
