"""Plain JSON tables, as any system may be exported."""
