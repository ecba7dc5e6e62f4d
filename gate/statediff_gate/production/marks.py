"""Marks in a server's log: which transactions are the agent's.

The log does not say whose a transaction is. So each table gets a trigger for statements of the
agent's role alone, which puts a message into the log of that very transaction, or subtransaction:
what is rolled back takes its mark along. `session_user` is what the connection logged in as, which
no `SET ROLE` and no function of somebody else's changes; statements of others only ask for it.

That holds as long as the agent can neither make nor remove a trigger, nor make a table, as any of
the roles that it may become: `require_agent`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import sql
from statediff_postgres.session import Connection, cause_of

from statediff.errors import InputError, UsageError

SCHEMA: Final = "statediff_guard"
_MARK: Final = """
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog AS $$
BEGIN
  PERFORM pg_catalog.pg_logical_emit_message(true, TG_NAME::text, TG_RELID::text);
  RETURN NULL;
END $$
"""
_TRIGGER: Final = """
CREATE TRIGGER {name} AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {table} FOR EACH STATEMENT
WHEN (session_user OPERATOR(pg_catalog.=) {agent}) EXECUTE FUNCTION {function}();
ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}
"""
_SHAPE: Final = """
SELECT c.oid::text, n.nspname::text, c.relname::text,
  concat_ws(' ', c.relkind, c.relpersistence, c.relreplident, (SELECT md5(string_agg(concat_ws(
    ',', a.attnum, a.attname, a.atttypid, a.atttypmod, a.attnotnull, a.attisdropped), ';'
    ORDER BY a.attnum)) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0),
    (SELECT string_agg(i.indkey::text, ',') FROM pg_index i
     WHERE i.indrelid = c.oid AND i.indisprimary)),
  coalesce((SELECT t.tgenabled = 'A' AND t.tgtype = 60 AND t.tgfoid = to_regproc(%s)
      AND strpos(pg_get_triggerdef(t.oid), %s) > 0
    FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgname = %s), false)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.oid >= 16384 AND n.nspname !~ '^pg_' ORDER BY c.oid
"""
_MAY: Final = """
WITH RECURSIVE me AS (
  SELECT oid FROM pg_roles WHERE rolname = %s
  UNION SELECT m.roleid FROM pg_auth_members m JOIN me ON m.member = me.oid
)
SELECT 'is a superuser, or may become another role' FROM pg_roles r JOIN me USING (oid)
  WHERE rolsuper OR rolcreaterole OR rolreplication OR rolbypassrls
UNION ALL SELECT 'owns ' || c.oid::regclass FROM pg_class c JOIN me ON c.relowner = me.oid
  WHERE c.relkind IN ('r', 'p')
UNION ALL SELECT 'owns the database' FROM pg_database d JOIN me ON d.datdba = me.oid
  WHERE d.datname = current_database()
UNION ALL SELECT 'may create tables in the schema ' || n.nspname FROM pg_namespace n, me
  WHERE has_schema_privilege(me.oid, n.oid, 'CREATE') AND n.nspname !~ '^pg_'
UNION ALL SELECT 'may create schemas' FROM me
  WHERE has_database_privilege(me.oid, current_database(), 'CREATE')
UNION ALL SELECT format('may make triggers, run by others (REVOKE TRIGGER ON %%s FROM '
  '%%s)', c.oid::regclass, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END)
  FROM pg_class c, aclexplode(c.relacl) a
  WHERE a.privilege_type = 'TRIGGER' AND (a.grantee = 0 OR a.grantee IN (SELECT oid FROM me))
LIMIT 1
"""


@dataclass(frozen=True)
class Shape:
    """The shape of the tables, as far as rows in the log are read by it."""

    tables: tuple[tuple[str, ...], ...]
    """Number, schema, name and form of each."""
    unmarked: tuple[tuple[str, str], ...] = ()
    """Schema and name of each without a mark."""

    @property
    def names(self) -> frozenset[tuple[str, str]]:
        """Schema and name of each."""
        return frozenset((schema, name) for _, schema, name, _ in self.tables)


class Marks:
    """The marks of one agent in one database, by the name of a guard's slot."""

    def __init__(self, own: Connection, slot: str, agent: str) -> None:
        self._own, self.slot, self.agent = own, slot, agent

    def require_agent(self) -> None:
        """The agent's account cannot remove a mark. `UsageError`."""
        found = self._one("SELECT 1 FROM pg_roles WHERE rolname = %s", self.agent)
        if found is None:
            raise UsageError(f"no role {self.agent!r} is known to the server")
        why = self._one(_MAY, self.agent)
        if why is not None:
            raise UsageError(
                f"the role {self.agent!r} {why[0]}: what it does could pass for others' work; "
                "give the agent an account of its own, that owns and creates nothing"
            )

    def shape(self) -> Shape:
        """The tables as they are now."""
        name = f"'{self.agent.replace(chr(39), chr(39) * 2)}'"
        asked = (f"{SCHEMA}.{self.slot}", name, self.slot)
        rows = self._own.execute(_SHAPE, asked, prepare=True).fetchall()
        return Shape(
            tuple((oid, schema, table, form) for oid, schema, table, form, _ in rows),
            tuple((schema, table) for _, schema, table, _, is_marked in rows if not is_marked),
        )

    def put(self) -> None:
        """Every table has its mark. `InputError` where our account may not."""
        names = {"schema": sql.Identifier(SCHEMA), "function": sql.Identifier(SCHEMA, self.slot)}
        try:
            self._own.execute(sql.SQL(_MARK).format(**names))
            for schema, table in self.shape().unmarked:
                place = {"name": sql.Identifier(self.slot), "table": sql.Identifier(schema, table)}
                with self._own.transaction():
                    self._own.execute(
                        sql.SQL("DROP TRIGGER IF EXISTS {name} ON {table}").format(**place)
                    )
                    self._own.execute(
                        sql.SQL(_TRIGGER).format(**names, **place, agent=sql.Literal(self.agent))
                    )
        except psycopg.Error as error:
            raise InputError(f"the tables cannot be marked: {cause_of(error)}") from error

    def remove(self) -> None:
        """No table has one. Partitions lose theirs with it too: each has its own."""
        function = sql.Identifier(SCHEMA, self.slot)
        self._own.execute(sql.SQL("DROP FUNCTION IF EXISTS {} CASCADE").format(function))
        left = "SELECT 1 FROM pg_proc WHERE pronamespace = to_regnamespace(%s) LIMIT 1"
        if self._one(left, SCHEMA) is None:
            self._own.execute(sql.SQL("DROP SCHEMA IF EXISTS {}").format(sql.Identifier(SCHEMA)))

    def _one(self, question: str, *values: str) -> Any:
        return self._own.execute(question, values).fetchone()
