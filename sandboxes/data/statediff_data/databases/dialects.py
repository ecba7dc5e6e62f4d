"""Dialects of SQLAlchemy: which have a reader of their own here, and what brings the others."""

from __future__ import annotations

from typing import Final

EXACT: Final = frozenset({"sqlite", "postgresql", "mysql", "mariadb"})
"""Dialects of databases that have a reader of their own."""
PACKAGES: Final = {
    "bigquery": "sqlalchemy-bigquery",
    "clickhouse": "clickhouse-sqlalchemy",
    "duckdb": "duckdb-engine",
    "firebird": "sqlalchemy-firebird",
    "mssql": "pyodbc",
    "oracle": "oracledb",
    "redshift": "sqlalchemy-redshift",
    "snowflake": "snowflake-sqlalchemy",
    "trino": "trino[sqlalchemy]",
}
"""Dialect → what `pip install` gets it, or its driver, with."""
