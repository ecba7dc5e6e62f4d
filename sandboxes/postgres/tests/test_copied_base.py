"""Copies of a database by its URL: what its owner changes between commands is the base."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("psycopg")

import psycopg
from statediff_postgres.byurl import PostgresByUrl

from statediff.errors import SandboxError, UnprovenBase
from statediff.packs import read_pack
from tests.servers import postgres


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with postgres() as port:
        place = f"postgresql://postgres@127.0.0.1:{port}"
        with psycopg.connect(f"{place}/postgres", autocommit=True) as connection:
            connection.execute("CREATE DATABASE shop")
        change(f"{place}/shop", "CREATE TABLE t (id serial PRIMARY KEY, n int)")
        yield f"{place}/shop"


def change(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


def test_who_changed_the_original_decides_whether_it_is_the_base(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = tmp_path / "shop.sandbox.yaml"
    file.write_text(f'sources: {{db: {{kind: postgres, url: "{url}"}}}}\n')

    def command(during: str = "SELECT 1") -> None:
        (source,) = read_pack(file).sources
        system = PostgresByUrl(source, (), tmp_path)
        system.start()
        change(url, during)
        system.stop()

    command()
    change(url, "INSERT INTO t (n) VALUES (1)")  # by its owner, while no command runs
    command()
    command("INSERT INTO t (n) VALUES (2)")  # by an agent, while one runs
    with pytest.raises(UnprovenBase, match="is not in the base"):
        command()


@pytest.mark.parametrize("name", ["shop", "statediff_000000_1_000000"])
def test_a_fork_begins_with_a_copy_of_this_machine_only(
    url: str, tmp_path: Path, name: str
) -> None:
    (file := tmp_path / "a.yaml").write_text(f"sources: {{db: {{kind: postgres, url: '{url}'}}}}")
    (kept := tmp_path / "db").write_text(name)
    with pytest.raises(SandboxError, match=f"the name of a kept copy, found {name}"):
        PostgresByUrl(read_pack(file).sources[0], (), tmp_path).begin_at(kept)
