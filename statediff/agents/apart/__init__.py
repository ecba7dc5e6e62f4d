"""The programs that an isolated program runs below: sent as code, never imported by statediff."""
