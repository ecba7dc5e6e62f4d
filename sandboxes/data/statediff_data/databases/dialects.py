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

SCHEMAS: Final = {
    "duckdb": "SELECT schema_name FROM information_schema.schemata "
    "WHERE catalog_name = current_database()"
}
"""Dialect → the query for its schemas, where reflection also names those of other databases."""
SYSTEM_SCHEMAS: Final = frozenset(
    {
        *("information_schema", "pg_catalog", "pg_toast", "pg_internal", "sys", "system", "guest"),
        *("performance_schema", "mysql", "outln", "dbsnmp", "xdb", "ctxsys", "mdsys", "ordsys"),
        *("ordplugins", "wmsys", "appqossys", "gsmadmin_internal", "lbacsys", "olapsys", "audsys"),
        *("db_owner", "db_accessadmin", "db_securityadmin", "db_ddladmin", "db_backupoperator"),
        *("db_datareader", "db_datawriter", "db_denydatareader", "db_denydatawriter"),
    }
)
"""Schemas that databases come with, in lower case; what is in them is no application's."""
