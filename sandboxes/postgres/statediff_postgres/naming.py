"""How queries of PostgreSQL's catalogue name tables, and which of them are somebody's own."""

from __future__ import annotations

from typing import Final

FIRST_OWN: Final = 16384
"""The first number that the server gives to an object it did not come with."""


def part(column: str) -> str:
    """SQL: the name, in quotation marks where it could be read as two or as a reserved one."""
    return (
        f"CASE WHEN {column} ~ '^[^.\"]+$' AND {column} NOT IN ('db', 'git') THEN {column}::text"
        f" ELSE '\"' || replace({column}::text, '\"', '\"\"') || '\"' END"
    )


def qualified(schema: str, name: str) -> str:
    """SQL: `orders` in the schema `public`, `archive.orders` elsewhere."""
    return f"(CASE {schema} WHEN 'public' THEN '' ELSE {part(schema)} || '.' END || {part(name)})"


REL: Final = qualified("n.nspname", "c.relname")
OWN_REL: Final = (
    f"c.oid >= {FIRST_OWN} AND c.relpersistence <> 't' AND n.nspname !~ '^pg_(toast|temp)'"
)
OWN_FUNCTION: Final = (
    f"p.oid >= {FIRST_OWN} AND NOT EXISTS (SELECT FROM pg_namespace n"
    " WHERE n.oid = p.pronamespace AND n.nspname ~ '^pg_temp')"
)
"""Of `pg_proc p`: those that the server did not come with, and no session has for itself."""
CLASS: Final = "pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
