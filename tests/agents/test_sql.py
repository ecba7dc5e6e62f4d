"""The effects of SQL: each class of the taxonomy, and whatever hides a worse one behind it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.model.trace import ActionClass
from statediff.systems.relational.sql import DIALECTS, MAX_TEXT, RISK, classify


@pytest.mark.parametrize(
    ("dialect", "text", "action_class"),
    [
        ("sqlite", "SELECT id, name FROM person WHERE id = 1", "read"),
        (
            "sqlite",
            "WITH x AS (SELECT * FROM t) SELECT x.a, u.b FROM x JOIN u ON u.id = x.id",
            "read",
        ),
        (
            "postgres",
            "WITH gone AS (DELETE FROM t RETURNING *) SELECT * FROM gone",
            "irreversible-deletion",
        ),
        ("postgres", "SELECT * FROM t FOR UPDATE", "reversible-update"),
        ("postgres", "SELECT * INTO u FROM t", "schema-change"),
        ("mysql", "SELECT * FROM t INTO OUTFILE '/tmp/x'", "unknown"),
        ("postgres", "SELECT pg_terminate_backend(1)", "unknown"),
        ("postgres", "SELECT lo_unlink(1)", "irreversible-deletion"),
        ("postgres", "SELECT nextval('s')", "conditional-update"),
        ("postgres", "SELECT set_config('role','x',false)", "permission-change"),
        ("postgres", "COPY t FROM STDIN", "conditional-update"),
        ("postgres", "COPY t TO PROGRAM 'rm -rf /'", "unknown"),
        ("postgres", "COPY (DELETE FROM t RETURNING *) TO STDOUT", "unknown"),
        ("postgres", "COPY t TO STDOUT", "read"),
        ("postgres", "DO $$ BEGIN DELETE FROM t; END $$", "unknown"),
        ("postgres", "DO 'x'", "unknown"),
        ("sqlite", "PRAGMA table_info(t)", "read"),
        ("sqlite", "PRAGMA writable_schema=1", "unknown"),
        ("sqlite", "PRAGMA foreign_keys(0)", "unknown"),
        ("sqlite", "ATTACH 'x.db' AS y", "unknown"),
        ("sqlite", "DETACH y", "unknown"),
        ("sqlite", "SELECT 1; DROP TABLE t", "irreversible-deletion"),
        ("sqlite", "REPLACE INTO t VALUES (1)", "irreversible-deletion"),
        ("mysql", "REPLACE INTO t VALUES (1)", "irreversible-deletion"),
        ("sqlite", "INSERT OR REPLACE INTO t (a) VALUES (1)", "irreversible-deletion"),
        (
            "sqlite",
            "INSERT INTO t (a, b) VALUES (1, 2) ON CONFLICT DO NOTHING",
            "conditional-update",
        ),
        ("sqlite", "UPDATE t SET a = 1 WHERE b = 2", "conditional-update"),
        ("sqlite", "DELETE FROM t", "irreversible-deletion"),
        ("postgres", "TRUNCATE t", "irreversible-deletion"),
        ("postgres", "GRANT SELECT ON t TO x", "permission-change"),
        ("postgres", "REVOKE ALL ON t FROM x", "permission-change"),
        ("postgres", "CREATE ROLE x SUPERUSER", "permission-change"),
        ("postgres", "ALTER ROLE x SUPERUSER", "permission-change"),
        ("postgres", "ALTER TABLE t OWNER TO x", "unknown"),
        ("postgres", "ALTER TABLE t DISABLE ROW LEVEL SECURITY", "unknown"),
        ("postgres", "ALTER TABLE t DROP COLUMN a", "irreversible-deletion"),
        ("postgres", "ALTER TABLE t ADD COLUMN a int", "schema-change"),
        ("postgres", "ALTER TABLE t DISABLE TRIGGER ALL", "unknown"),
        ("postgres", "CREATE TABLE t (a int)", "schema-change"),
        ("postgres", "CREATE FUNCTION f() RETURNS int AS $$ SELECT 1 $$ LANGUAGE sql", "unknown"),
        ("postgres", "CREATE TRIGGER x BEFORE INSERT ON t EXECUTE FUNCTION f()", "unknown"),
        ("sqlite", "CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM u; END", "unknown"),
        ("postgres", "NOTIFY x", "notification"),
        ("postgres", "SELECT pg_notify('a','b')", "notification"),
        ("postgres", "EXPLAIN DELETE FROM t", "read"),
        ("postgres", "EXPLAIN ANALYZE DELETE FROM t", "unknown"),
        ("postgres", "EXPLAIN (ANALYZE) DELETE FROM t", "unknown"),
        ("sqlite", "EXPLAIN QUERY PLAN SELECT 1", "read"),
        ("mysql", "/*!50000 DROP TABLE t */", "unknown"),
        ("mysql", "SELECT 1 --1; DROP TABLE t", "unknown"),
        ("sqlite", "/* /* */ DELETE FROM t; -- */", "unknown"),
        ("mysql", "SELECT 1; -- fine", "read"),
        ("sqlite", "SELECT load_extension('x')", "unknown"),
        ("sqlite", "nonsense here", "unknown"),
        ("sqlite", "", "read"),
        ("sqlite", "-- only a comment", "read"),
        ("postgres", "SET ROLE admin", "permission-change"),
        ("postgres", "SET SESSION AUTHORIZATION x", "permission-change"),
        ("postgres", "SET standard_conforming_strings = off", "unknown"),
        ("postgres", "SET search_path = x", "reversible-update"),
        ("mysql", "SET GLOBAL sql_mode = ''", "unknown"),
        ("postgres", "CALL f()", "unknown"),
        ("postgres", "EXECUTE p", "unknown"),
        ("postgres", "PREPARE p AS DELETE FROM t", "unknown"),
        (
            "postgres",
            "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE",
            "irreversible-deletion",
        ),
        ("postgres", "UPDATE pg_catalog.pg_authid SET rolsuper = true", "permission-change"),
        ("postgres", "DELETE FROM pg_authid", "permission-change"),
        ("sqlite", "DELETE FROM sqlite_master", "unknown"),
        ("sqlite", "VACUUM", "reversible-update"),
        ("sqlite", "VACUUM INTO '/tmp/x'", "unknown"),
        ("postgres", "BEGIN; UPDATE t SET a=1; COMMIT", "conditional-update"),
        ("postgres", "LOCK TABLE t", "reversible-update"),
        ("mysql", "LOAD DATA INFILE 'x' INTO TABLE t", "unknown"),
        ("mysql", "KILL 1", "unknown"),
        ("mysql", "HANDLER t OPEN", "unknown"),
        ("postgres", "SELECT dblink_exec('x','DROP TABLE t')", "unknown"),
        ("postgres", "SELECT * FROM f(1)", "unknown"),
        ("postgres", "SELECT query_to_xml('delete from t', true, true, '')", "unknown"),
        ("mysql", "SELECT * FROM t LOCK IN SHARE MODE", "reversible-update"),
        ("mysql", "SELECT a INTO @x FROM t", "unknown"),
        ("mysql", "SELECT 1 INTO DUMPFILE '/x'", "unknown"),
        ("mysql", "CREATE OR REPLACE TABLE t (a int)", "irreversible-deletion"),
        ("postgres", "CREATE TABLE x AS SELECT lo_unlink(1)", "irreversible-deletion"),
        ("postgres", "ALTER SYSTEM SET x = 1", "unknown"),
        ("postgres", "VALUES (1)", "read"),
        ("postgres", "TABLE t", "read"),
        ("postgres", "\\! rm -rf /", "unknown"),
        ("postgres", "SELECT 1 \\gexec", "unknown"),
        ("postgres", "INSERT INTO t SELECT * FROM (DELETE FROM u RETURNING *) x", "unknown"),
        ("mysql", "DELETE t1, t2 FROM t1 JOIN t2", "irreversible-deletion"),
        ("mysql", "DROP USER x", "permission-change"),
        ("postgres", "DROP TABLE t", "irreversible-deletion"),
        ("postgres", "CREATE EXTENSION dblink", "unknown"),
        ("postgres", "SECURITY LABEL ON TABLE t IS 'x'", "unknown"),
        ("postgres", "COMMENT ON TABLE t IS 'x'", "schema-change"),
        ("postgres", "DECLARE c CURSOR FOR SELECT 1", "unknown"),
        ("sqlite", "SELECT writefile('x','y')", "unknown"),
        ("sqlite", "CREATE VIRTUAL TABLE v USING fts5(a)", "schema-change"),
        ("mysql", "RENAME TABLE a TO b", "unknown"),
        ("mysql", "DELIMITER $$", "unknown"),
        ("postgres", "IMPORT FOREIGN SCHEMA x FROM SERVER y INTO z", "unknown"),
        ("postgres", "SHOW all", "read"),
        ("mysql", "SHOW TABLES", "read"),
        ("postgres", "DESCRIBE t", "read"),
        ("sqlite", "SELECT COUNT(*), SUM(a), COALESCE(b, 1), datetime('now') FROM t", "read"),
        ("sqlite", "PRAGMA main.table_info(t)", "read"),
        ("sqlite", "PRAGMA user_version", "read"),
        ("sqlite", "PRAGMA user_version = 7", "unknown"),
        ("sqlite", "PRAGMA foreign_keys = table_info", "unknown"),
        ("sqlite", "PRAGMA wal_checkpoint", "unknown"),
    ],
)
def test_a_text_is_of_the_class_of_the_worst_it_does(
    dialect: str, text: str, action_class: str
) -> None:
    found = classify(text, dialect)
    assert found.action_class.value == action_class
    assert bool(found.why) == (found.action_class is ActionClass.UNKNOWN)


def test_every_class_has_its_rank_and_the_unknown_is_the_riskiest() -> None:
    assert set(RISK) == set(ActionClass)
    assert RISK[-1] is ActionClass.UNKNOWN


def test_tables_and_columns_are_told_through_their_aliases() -> None:
    found = classify(
        "WITH paid AS (SELECT o.id FROM orders AS o WHERE o.state = 'paid')"
        ' UPDATE refund SET cents = 0 WHERE refund."order" IN (SELECT id FROM paid)',
        "sqlite",
    )
    assert found.tables == ("orders", "refund")
    assert {"orders.id", "orders.state", "refund.order"} <= set(found.columns)
    inserted = classify("INSERT INTO t (a, b) VALUES (1, 2)", "postgres")
    assert (inserted.tables, inserted.columns) == (("t",), ("t.a", "t.b"))


@pytest.mark.parametrize("text", ["x" * (MAX_TEXT + 1), "(" * 5000, "SELECT " + "(" * 900 + "1"])
def test_text_without_bounds_is_unknown_and_no_error(text: str) -> None:
    assert classify(text, "sqlite").action_class is ActionClass.UNKNOWN


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
@given(st.text(max_size=200))
def test_no_text_is_an_error(dialect: str, text: str) -> None:
    assert classify(text, dialect).action_class in RISK


HARM = st.sampled_from(
    ["DROP TABLE t", "DELETE FROM t", "GRANT ALL ON t TO x", "nonsense !", "SELECT evil()"]
)
HARMLESS = st.sampled_from(["SELECT 1", "SELECT a FROM t", "BEGIN", "SELECT 'it''s; fine'"])


@given(HARM, st.lists(HARMLESS, max_size=3), st.lists(HARMLESS, max_size=3))
def test_harm_is_found_among_whatever_stands_around_it(
    harm: str, ahead: list[str], behind: list[str]
) -> None:
    text = "; ".join([*ahead, harm, *behind])
    alone, among = (RISK.index(classify(t, "postgres").action_class) for t in (harm, text))
    assert among >= alone > RISK.index(ActionClass.CONDITIONAL_UPDATE)


def test_what_a_statement_says_of_itself_is_not_printed_as_it_came() -> None:
    found = classify("SELECT \x1b[2J( FROM \u202e", "sqlite")
    assert found.why.isprintable()
