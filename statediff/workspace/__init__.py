"""The application layer without a terminal: what a user names, found and read or written.

States, contracts, bundles, runs and logs, by path, URL or name. Nothing here prints, exits or knows
an option's type; the Python API, the command line and the integrations stand on it.
"""
