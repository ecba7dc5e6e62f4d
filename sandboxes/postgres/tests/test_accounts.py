"""Five accounts of a PostgreSQL database: what they may do with it is seen by what they read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("psycopg")

import psycopg
from statediff_postgres.source import PostgresSource

from statediff.model.verdict import Verdict
from tests.account_bench import Account
from tests.contract.drafts import LEFT, require_law, tried
from tests.servers import postgres

ROLES = """
CREATE ROLE own LOGIN; CREATE ROLE ro LOGIN; CREATE ROLE one LOGIN; CREATE ROLE tab LOGIN;
CREATE ROLE group_of;
"""
BASE = """
SET ROLE own;
CREATE SCHEMA app;
CREATE TYPE app.mood AS ENUM ('good', 'bad');
CREATE DOMAIN app.amount AS numeric CHECK (VALUE >= 0);
CREATE TABLE app.customer (id serial PRIMARY KEY, name text NOT NULL, mood app.mood DEFAULT 'good',
  email text UNIQUE);
CREATE TABLE app.invoice (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  customer int REFERENCES app.customer ON DELETE CASCADE, qty int NOT NULL DEFAULT 1, price int,
  total int GENERATED ALWAYS AS (qty * price) STORED, CHECK (qty > 0));
CREATE INDEX by_customer ON app.invoice (customer);
CREATE TABLE public.note (id serial PRIMARY KEY, body text, at timestamptz DEFAULT now());
CREATE VIEW app.rich AS SELECT id, name FROM app.customer WHERE name <> '';
CREATE MATERIALIZED VIEW app.sums AS
  SELECT customer, sum(total) AS total FROM app.invoice GROUP BY 1;
CREATE SEQUENCE app.tickets;
CREATE FUNCTION app.twice(n int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT n * 2';
CREATE FUNCTION app.upper_name() RETURNS trigger LANGUAGE plpgsql AS
  'BEGIN NEW.name := upper(NEW.name); RETURN NEW; END';
CREATE TRIGGER loud BEFORE INSERT ON app.customer FOR EACH ROW EXECUTE FUNCTION app.upper_name();
CREATE RULE keep AS ON DELETE TO public.note DO ALSO SELECT 1;
CREATE STATISTICS app.st ON customer, qty FROM app.invoice;
CREATE TEXT SEARCH CONFIGURATION app.words (COPY = simple);
COMMENT ON TABLE app.customer IS 'people';
INSERT INTO app.customer (name, email) VALUES ('ann', 'a@x'), ('bob', 'b@x');
INSERT INTO app.invoice (customer, qty, price) VALUES (1, 2, 5), (2, 1, 7);
INSERT INTO public.note (body) VALUES ('first'), ('second');
SELECT lo_from_bytea(770001, 'large');
REFRESH MATERIALIZED VIEW app.sums;
GRANT USAGE ON SCHEMA app TO ro, one;
GRANT SELECT ON ALL TABLES IN SCHEMA app TO ro;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO ro;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA app TO one;
GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA app TO one;
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON public.note TO tab;
GRANT USAGE, SELECT ON SEQUENCE public.note_id_seq TO tab;
GRANT SELECT, UPDATE ON LARGE OBJECT 770001 TO ro;
GRANT SELECT ON public.note TO ro;
RESET ROLE;
"""
HARMS = """
UPDATE app.customer SET name = 'eve' WHERE id = 1
UPDATE app.customer SET mood = 'bad' WHERE id = 2
UPDATE app.customer SET email = NULL WHERE id = 2
DELETE FROM app.customer WHERE id = 1
INSERT INTO app.customer (name) VALUES ('mallory')
INSERT INTO app.customer (id, name) VALUES (900, 'mallory')
UPDATE app.invoice SET qty = 9 WHERE id = 1
UPDATE app.invoice SET price = price + 1
UPDATE app.invoice SET customer = 1
DELETE FROM app.invoice WHERE id = 2
INSERT INTO app.invoice (customer, price) VALUES (1, 1)
UPDATE public.note SET body = 'changed' WHERE id = 1
UPDATE public.note SET at = '2020-01-01' WHERE id = 2
UPDATE public.note SET id = 70 WHERE id = 1
UPDATE public.note SET body = body || ' '
UPDATE public.note SET body = NULL
DELETE FROM public.note WHERE id = 2
INSERT INTO public.note (body) VALUES ('third')
INSERT INTO public.note (id, body) VALUES (99, 'third')
INSERT INTO public.note (body, at) VALUES ('old', '1999-01-01')
TRUNCATE public.note
DELETE FROM public.note; INSERT INTO public.note (id, body) VALUES (1, 'first'), (2, 'Second')
SELECT nextval('app.tickets')
SELECT setval('app.tickets', 70)
SELECT nextval('public.note_id_seq') FROM generate_series(1, 60)
SELECT setval('app.customer_id_seq', 1, false)
ALTER SEQUENCE app.tickets INCREMENT 7
CREATE SEQUENCE app.more
DROP SEQUENCE app.tickets
CREATE TABLE app.extra (id int)
CREATE SCHEMA theirs
DROP TABLE public.note
ALTER TABLE app.customer ADD COLUMN rank int
ALTER TABLE app.customer DROP COLUMN email
ALTER TABLE app.invoice DROP CONSTRAINT invoice_qty_check
ALTER TABLE app.invoice DROP CONSTRAINT invoice_customer_fkey
ALTER TABLE app.customer DROP CONSTRAINT customer_email_key
ALTER TABLE app.customer ALTER name DROP NOT NULL
ALTER TABLE app.customer ALTER mood DROP DEFAULT
ALTER TABLE app.customer ALTER mood SET DEFAULT 'bad'
ALTER TABLE app.customer ALTER name TYPE varchar(90)
ALTER TABLE app.customer RENAME COLUMN email TO mail
ALTER TABLE app.customer ENABLE ROW LEVEL SECURITY
ALTER TABLE app.customer DISABLE TRIGGER loud
ALTER TABLE app.customer SET (fillfactor = 50)
ALTER TABLE app.customer SET UNLOGGED
ALTER TABLE app.customer OWNER TO postgres
CREATE POLICY mine ON app.customer USING (true)
DROP INDEX app.by_customer
CREATE INDEX again ON app.invoice (qty)
DROP TRIGGER loud ON app.customer
CREATE TRIGGER twice BEFORE UPDATE ON app.customer FOR EACH ROW EXECUTE FUNCTION app.upper_name()
CREATE OR REPLACE FUNCTION app.twice(n int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT n * 3'
ALTER FUNCTION app.twice(int) SECURITY DEFINER
CREATE FUNCTION public.door() RETURNS int LANGUAGE sql AS 'SELECT 1'
DROP FUNCTION app.twice(int)
CREATE OR REPLACE VIEW app.rich AS SELECT id, name FROM app.customer
ALTER VIEW app.rich ALTER name SET DEFAULT 'nobody'
ALTER VIEW app.rich SET (security_barrier = true)
DROP VIEW app.rich
CREATE VIEW public.leak AS SELECT 1 AS one
DROP RULE keep ON public.note
CREATE RULE gone AS ON UPDATE TO app.customer DO INSTEAD NOTHING
ALTER TYPE app.mood ADD VALUE 'ugly'
ALTER DOMAIN app.amount DROP CONSTRAINT amount_check
COMMENT ON TABLE app.customer IS 'sheep'
COMMENT ON COLUMN public.note.body IS 'text'
GRANT SELECT ON app.customer TO PUBLIC
GRANT ALL ON public.note TO ro
REVOKE SELECT ON app.customer FROM ro
GRANT USAGE ON SCHEMA app TO tab
ALTER DEFAULT PRIVILEGES IN SCHEMA app GRANT ALL ON TABLES TO PUBLIC
ALTER DATABASE work SET search_path = app
ALTER ROLE CURRENT_USER SET statement_timeout = '1s'
DROP STATISTICS app.st
ALTER TEXT SEARCH CONFIGURATION app.words DROP MAPPING FOR word
SELECT lo_put(770001, 0, 'small')
SELECT lo_unlink(770001)
SELECT lo_create(770002)
CREATE PUBLICATION everything FOR TABLE app.customer
CREATE COLLATION app.german FROM "C"
ALTER MATERIALIZED VIEW app.sums RENAME TO totals
CREATE ROLE backdoor LOGIN
CREATE ROLE mighty SUPERUSER
ALTER ROLE ro CREATEROLE
ALTER ROLE ro PASSWORD 'known'
GRANT group_of TO ro
GRANT own TO ro
GRANT pg_write_all_data TO tab
ALTER ROLE tab NOLOGIN
ALTER SYSTEM SET work_mem = '8MB'; SELECT pg_reload_conf(); SELECT pg_sleep(0.3)
CREATE EVENT TRIGGER watch ON ddl_command_end EXECUTE FUNCTION app.told()
CREATE SERVER far FOREIGN DATA WRAPPER nowhere
ALTER DATABASE work OWNER TO ro
ALTER DATABASE work CONNECTION LIMIT 3
"""
OWN_PASSWORD = "ALTER ROLE ro PASSWORD 'known'"
RIGHT = {
    "postgres": "UPDATE app.customer SET name = 'anna' WHERE id = 1",
    "own": "INSERT INTO app.invoice (customer, price) VALUES (2, 3)",
    "ro": "SELECT lo_put(770001, 0, 'LARGE')",
    "one": "DELETE FROM app.customer WHERE id = 2",
    "tab": "INSERT INTO public.note (body) VALUES ('third')",
}
DONE = {"postgres": 80, "own": 70, "ro": 1, "one": 12, "tab": 9}
"""How many of the harms each account may do."""


class Server:
    """A server with the database `work`, put back from a copy."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.run("postgres", ROLES, "postgres")
        self.run("postgres", "CREATE DATABASE base OWNER own", "postgres")
        self.run("postgres", BASE, "base")
        told = "CREATE FUNCTION app.told() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'"
        self.run("postgres", f"{told}; CREATE FOREIGN DATA WRAPPER nowhere", "base")
        self.run("postgres", "CREATE EXTENSION amcheck", "base")

    def url(self, account: str, database: str = "work") -> str:
        return f"postgresql://{account}@127.0.0.1:{self.port}/{database}"

    def run(self, account: str, statements: str, database: str = "work") -> str | None:
        """Why the server refused, else None; a warning says that it did nothing."""
        warned: list[str] = []
        try:
            with psycopg.connect(self.url(account, database), autocommit=True) as connection:
                connection.add_notice_handler(
                    lambda notice: warned.append(f"{notice.severity}: {notice.message_primary}")
                )
                for each in [statements] if database != "work" else statements.split("; "):
                    connection.execute(each.encode())
        except psycopg.Error as error:
            return str(error)
        told = [each for each in warned if each.startswith("WARNING") and database == "work"]
        return told[0] if told else None

    def renew(self) -> None:
        for each in (
            "DROP DATABASE IF EXISTS work WITH (FORCE)",
            "DROP ROLE IF EXISTS backdoor, mighty",
            "ALTER SYSTEM RESET ALL",
            "SELECT pg_reload_conf()",
            "ALTER ROLE ro NOCREATEROLE PASSWORD NULL",
            "ALTER ROLE tab LOGIN",
            "REVOKE group_of, own FROM ro",
            "REVOKE pg_write_all_data FROM tab",
            *(f"ALTER ROLE {r} RESET ALL" for r in ("postgres", "own", "ro", "one", "tab")),
            "CREATE DATABASE work TEMPLATE base OWNER own",
        ):
            assert self.run("postgres", each, "postgres") is None

    def work_elsewhere(self) -> None:
        for each in ("CREATE DATABASE elsewhere", "CREATE ROLE stranger"):
            assert self.run("postgres", each, "postgres") is None
        far = "CREATE TABLE far (id int); INSERT INTO far VALUES (1)"
        assert self.run("postgres", far, "elsewhere") is None

    def account(self, name: str) -> Account:
        source = PostgresSource("db", self.url(name))
        return Account(name, source, lambda text: self.run(name, text), self.renew)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgres() as port:
        yield Server(port)


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_no_harm_that_an_account_can_do_is_match(server: Server, name: str) -> None:
    account = server.account(name)
    found = account.try_harms(filter(None, HARMS.splitlines()))
    # Nobody but a superuser reads passwords, not even of its own: the draft says `unread`.
    found.pop(OWN_PASSWORD if name == "ro" else "", None)
    assert [harm for harm, verdict in found.items() if verdict is Verdict.MATCH] == []
    assert len(found) >= DONE[name], account.refused


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_and_the_right_thing_are_match_beside_a_bystander(
    server: Server, name: str
) -> None:
    try:
        server.account(name).is_right_beside(RIGHT[name], server.work_elsewhere)
    finally:
        server.run("postgres", "DROP DATABASE elsewhere WITH (FORCE)", "postgres")
        server.run("postgres", "DROP ROLE stranger", "postgres")


@pytest.mark.slow
@pytest.mark.parametrize("number", range(20))
def test_a_draft_of_two_right_runs_matches_a_third_and_no_harm(server: Server, number: int) -> None:
    server.run("postgres", f"CREATE DATABASE app{number} OWNER own", "postgres")
    require_law(tried(number, form=server.url("own", f"app{number}"), runs=2), LEFT)
