"""Hosts, which train and test agents elsewhere: statediff as judge in other programs."""
