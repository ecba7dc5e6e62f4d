"""JSON columns of real servers: a contract that pins one path has all else in its frame."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

psycopg = pytest.importorskip("psycopg")
pymysql = pytest.importorskip("pymysql")

from statediff_mariadb.sandbox import MariaDbSystem  # noqa: E402
from statediff_postgres.sandbox import PostgresSystem  # noqa: E402

from statediff.capture.take import take  # noqa: E402
from statediff.conformance import clock  # noqa: E402
from statediff.contract.file import parse_contract  # noqa: E402
from statediff.kernel import evaluate  # noqa: E402
from statediff.model.state import MemoryChunks  # noqa: E402
from statediff.packs import PackSource  # noqa: E402
from statediff.systems.base.protocol import System  # noqa: E402
from tests.json_harms import BEFORE, CASES, DOUBLED  # noqa: E402
from tests.judging import contract  # noqa: E402

MAKERS = {"postgres": PostgresSystem, "mariadb": MariaDbSystem}
SEED = f"INSERT INTO user VALUES (1, '{json.dumps(BEFORE)}'), (3, '{json.dumps(BEFORE)}');"
COLUMNS = [
    pytest.param("postgres", "json", marks=pytest.mark.docker("postgres")),
    pytest.param("postgres", "jsonb", marks=pytest.mark.docker("postgres")),
    pytest.param("mariadb", "JSON", marks=pytest.mark.docker("mariadb")),
]


def made(kind: str, column: str, folder: Path) -> System:
    name = "user" if kind == "mariadb" else '"user"'
    files = {"ddl": folder / "ddl.sql", "seed": folder / "seed.sql"}
    files["ddl"].write_text(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, settings {column});")
    files["seed"].write_text(SEED.replace("user", name))
    return MAKERS[kind](PackSource("store", kind, None, files), (), folder / "own")


def write(system: System, kind: str, settings: str) -> None:
    if kind == "postgres":
        with psycopg.connect(system.url, autocommit=True) as connection:
            connection.execute('UPDATE "user" SET settings = %s WHERE id = 3', [settings])
        return
    parts = urlsplit(system.url)
    with pymysql.connect(
        host=parts.hostname, port=parts.port, user=parts.username, password=parts.password,
        database="store", charset="utf8mb4", autocommit=True, ssl_disabled=True,
    ) as connection, connection.cursor() as cursor:  # fmt: skip
        cursor.execute("UPDATE user SET settings = %s WHERE id = 3", [settings])


@pytest.mark.parametrize(("kind", "declared"), COLUMNS)
def test_what_else_an_agent_writes_into_the_object_is_in_the_frame(
    kind: str, declared: str, tmp_path: Path
) -> None:
    system = made(kind, declared, tmp_path)
    found: dict[str, str] = {}
    wanted: dict[str, str] = {}
    system.start()
    try:
        for clause, settings, right, wrong in CASES:
            file = parse_contract(contract(clause).encode(), "c.yaml")
            # A server that reads JSON keeps the last of two members of one name.
            doubled = {} if declared == "jsonb" or settings is not BEFORE else DOUBLED
            for name, written in (right | wrong | doubled).items():
                system.reset()
                write(system, kind, json.dumps(settings))
                store = MemoryChunks()
                before = take(system.sources(), store, clock, None, "before")
                write(system, kind, written)
                after = take(system.sources(), store, clock, before, "after")
                found[name] = evaluate(file, before, after).judgement.verdict.value
                wanted[name] = "MATCH" if name in right else "DIVERGE"
    finally:
        system.stop()
    assert found == wanted
