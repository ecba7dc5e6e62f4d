"""A PostgreSQL table made anew: other words for one meaning are no change, a lost rule is one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("psycopg")

import psycopg
from statediff_postgres.source import PostgresSource

from statediff.model.readings import Capture
from statediff.model.verdict import Verdict
from tests import rebuilt
from tests.rebuilt import read, verdict
from tests.servers import postgres

TEXT = """
CREATE TABLE p (id int PRIMARY KEY);
CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text COLLATE "C" NOT NULL DEFAULT 'x', qty int, price int,
  p int REFERENCES p (id) ON DELETE CASCADE, total int GENERATED ALWAYS AS (qty * price) STORED,
  CONSTRAINT positive CHECK (qty > 0), CONSTRAINT once UNIQUE (name, qty));
CREATE INDEX i ON t (qty);
CREATE VIEW v AS SELECT id, name FROM t WHERE qty > 1;
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f();
COMMENT ON COLUMN t.qty IS 'how many';
INSERT INTO p VALUES (1);
INSERT INTO t (name, qty, price, p) VALUES ('a', 2, 3, 1)
"""
OF_ONE_MEANING = (
    *rebuilt.OF_ONE_MEANING,
    ("CREATE TABLE t (", "create table public.t("),
    ("CREATE TABLE t (", 'CREATE TABLE "t" ('),
    ("qty > 0", "((qty) > (0))"),
    (", price int", ",\n  price int4"),
    ("name text", '"name" TEXT'),
    ("REFERENCES p (id)", "REFERENCES public.p"),
    ("qty * price", "(qty)*(price)"),
    ("UNIQUE (name, qty)", "unique(name,qty)"),
    ("DEFAULT 'x'", "DEFAULT 'x'::text"),
    ("DEFAULT 'x'", "DEFAULT ('x')"),
    ("ON t (qty)", "ON public.t USING btree (qty ASC)"),
    ("ON t (qty)", "ON t (qty ASC NULLS LAST)"),
    ("SELECT id, name FROM t WHERE qty > 1", "select id,name from public.t where qty>1"),
    ("SELECT id, name FROM t WHERE qty > 1", "SELECT t.id, t.name FROM t WHERE (t.qty > 1)"),
    ("CREATE VIEW v", "CREATE OR REPLACE VIEW public.v"),
    ("EXECUTE FUNCTION f()", "EXECUTE PROCEDURE public.f()"),
    ("BEFORE INSERT ON t FOR EACH ROW", "before insert on public.t for row"),
    ("IS 'how many'", "IS E'how many'"),
)
LOST = (
    *rebuilt.LOST,
    ("CONSTRAINT positive CHECK (qty > 0), ", ""),
    (' COLLATE "C"', ""),
    (" REFERENCES p (id) ON DELETE CASCADE", ""),
    (", CONSTRAINT once UNIQUE (name, qty)", ""),
    ("UNIQUE (name, qty)", "UNIQUE (name)"),
    ("price int", "price bigint"),
    ("qty int, price int", "price int, qty int"),
    ("ALWAYS AS IDENTITY", "BY DEFAULT AS IDENTITY"),
    ("ON t (qty)", "ON t (price)"),
    ("BEFORE INSERT", "AFTER INSERT"),
    ("COMMENT ON COLUMN t.qty IS 'how many';", ""),
    ("COMMENT ON", "ALTER VIEW v ALTER name SET DEFAULT 'y'; COMMENT ON"),
)  # fmt: skip


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with postgres() as found:
        yield found


def made(port: int, old: str, new: str, like: Capture | None) -> Capture:
    url = f"postgresql://postgres@127.0.0.1:{port}"
    with psycopg.connect(f"{url}/postgres", autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS work WITH (FORCE)")
        connection.execute("CREATE DATABASE work")
    text = TEXT.replace(old, new) if old else TEXT
    assert not old or text != TEXT
    with psycopg.connect(f"{url}/work", autocommit=True) as connection:
        connection.execute(text.encode())
    return read(PostgresSource("db", f"{url}/work"), like)


@pytest.mark.slow
@pytest.mark.parametrize("expected", [Verdict.MATCH, Verdict.DIVERGE])
def test_a_lost_rule_is_seen_and_other_words_are_no_change(port: int, expected: Verdict) -> None:
    before, words = made(port, "", "", None), OF_ONE_MEANING if expected is Verdict.MATCH else LOST
    found = {each: verdict(before, made(port, *each, before)) for each in words}
    assert [each for each, said in found.items() if said is not expected] == []
