"""Data folders that are kept for the next server: as good as new, and never trusted."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("psycopg")
pytest.importorskip("docker")


import psycopg

from statediff.packs import PackSource
from statediff.sandbox import postgres_server
from statediff.sandbox.postgres import PostgresSystem
from statediff.sandbox.postgres_server import Made
from statediff.sandbox.prepared import PLACE, Shelf

pytestmark = pytest.mark.docker("postgres")

Start = Callable[[str], PostgresSystem]


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf[Made]:
    """An empty one."""
    monkeypatch.setattr(postgres_server, "SHELF", made := Shelf[Made]())
    return made


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    began: list[PostgresSystem] = []

    def make(ddl: str) -> PostgresSystem:
        texts = {"ddl": tmp_path / "ddl.sql", "seed": tmp_path / "seed.sql"}
        texts["ddl"].write_text(ddl)
        texts["seed"].write_text("INSERT INTO item SELECT generate_series(1, 9)")
        source = PackSource("store", "postgres", None, texts)
        began.append(PostgresSystem(source, (), tmp_path / str(len(began))))
        began[-1].start()
        began[-1].reset()
        return began[-1]

    yield make
    for system in began:
        system.stop()


def is_from_archive(system: PostgresSystem) -> bool:
    return any(shared.at == PLACE for shared in system._running().container.spec.shared)


def test_the_third_server_of_a_pack_unpacks_what_the_second_kept_and_is_proven(
    start: Start, shelf: Shelf[Made]
):
    ddl = "CREATE TABLE item (id int PRIMARY KEY)"
    systems = [start(ddl) for _ in range(3)]
    assert [is_from_archive(system) for system in systems] == [False, False, True]
    for system in systems:
        proof, drift = system.verify()
        assert drift == ()
        assert (proof.expected == proof.found, proof.entities) == (True, 9)
    assert len({system.url.partition("@")[0] for system in systems}) == 3, "its own password"
    with psycopg.connect(systems[2].url) as agent:
        agent.execute("DELETE FROM item")
    assert {entry.what.partition(" (")[0] for entry in systems[2].verify()[1]} >= {"table item"}
    systems[2].reset()
    assert systems[2].verify()[1] == ()

    (place,) = shelf._places.values()
    damaged = place.kept.archive.read_bytes().replace(b"scram-sha-256", b"trust        ")
    place.kept.archive.write_bytes(damaged)
    assert not is_from_archive(start(ddl)), "what was written over is made anew"

    facts = place.kept.facts
    files = {**facts.files, min(facts.files): "another digest"}
    place.kept = replace(place.kept, facts=replace(facts, files=files))
    unlike = start(ddl)
    assert is_from_archive(unlike)
    proof, drift = unlike.verify()
    assert drift != ()
    assert proof.expected != proof.found, "a folder that is not what its maker found is not proven"


def test_a_database_that_a_crash_would_empty_is_made_each_time(start: Start, shelf: Shelf[Made]):
    systems = [start("CREATE UNLOGGED TABLE item (id int PRIMARY KEY)") for _ in range(2)]
    assert not any(is_from_archive(system) for system in systems)
    assert all(place.kept is None for place in shelf._places.values())
    assert all(system.verify()[1] == () for system in systems)
