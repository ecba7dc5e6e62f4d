"""Tryton, an ERP: its server, reached by JSON-RPC, and the SQLite database that it keeps."""
