"""The toy importer of CONTRIBUTING.md."""
