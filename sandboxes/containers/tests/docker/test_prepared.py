"""Data folders that are kept for the next server: as good as new, and never trusted."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("psycopg")
pytest.importorskip("pymysql")
pytest.importorskip("docker")

import psycopg
from statediff_containers.database import PLACE
from statediff_containers.engine import Volume
from statediff_containers.prepared import STARTS, Shelf
from statediff_mariadb import sandbox as mariadb
from statediff_mariadb.sandbox import MariaDbSystem
from statediff_mariadb.session import connected, fetched
from statediff_postgres import sandbox as postgres_sandbox
from statediff_postgres.sandbox import Made, PostgresSystem

from statediff.packs import PackSource

pytestmark = pytest.mark.docker("postgres", "mariadb")

DDL = "CREATE TABLE item (id int PRIMARY KEY)"
NINE = "INSERT INTO item VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9)"
System = PostgresSystem | MariaDbSystem
Start = Callable[..., System]


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf[Made]:
    """PostgreSQL's, empty; MariaDB's is empty too."""
    monkeypatch.setattr(mariadb, "SHELF", Shelf())
    monkeypatch.setattr(postgres_sandbox, "SHELF", made := Shelf[Made]())
    return made


@pytest.fixture
def start(tmp_path: Path, shelf: Shelf[Made]) -> Iterator[Start]:
    assert not shelf._places
    began: list[System] = []

    def make(kind: type[System] = PostgresSystem, ddl: str = DDL) -> System:
        texts = {"ddl": tmp_path / "ddl.sql", "seed": tmp_path / "seed.sql"}
        texts["ddl"].write_text(ddl)
        texts["seed"].write_text(NINE)
        source = PackSource("store", "of this kind", None, texts)
        began.append(kind(source, (), tmp_path / str(len(began))))
        began[-1].start()
        began[-1].reset()
        return began[-1]

    yield make
    for system in began:
        system.stop()


def base_of(system: System) -> Volume | None:
    """The volume that its server's data folder began as."""
    (base,) = system._running().container.spec.over.values() or (None,)
    return base


def prove(*systems: System) -> None:
    for system in systems:
        proof, drift = system.verify()
        assert drift == ()
        assert (proof.expected == proof.found, proof.entities) == (True, 9)


def test_from_the_second_on_servers_of_a_pack_begin_over_what_it_kept_and_are_proven(
    start: Start, shelf: Shelf[Made]
):
    systems = [start() for _ in range(3)]
    first, second, third = map(base_of, systems)
    assert first is None
    assert second is not None
    assert second == third
    prove(*systems)
    assert len({system.url.partition("@")[0] for system in systems}) == 3, "its own password"

    with psycopg.connect(systems[2].url) as agent:
        agent.execute("DELETE FROM item")
    assert {entry.what.partition(" (")[0] for entry in systems[2].verify()[1]} >= {"table item"}
    prove(systems[1])  # what one writes no other sees
    systems[2].reset()
    prove(systems[2])

    taken_over = systems[2]._running().container
    assert "lowerdir" in taken_over.check("mount").decode(), "it is what this test is about"
    taken_over.check("sh", "-c", f"for f in $(find {PLACE}/data/base -type f); do echo > $f; done")
    taken_over.check("rm", "-r", f"{PLACE}/data/global")
    prove(systems[1], start())  # nor what becomes of the one below

    (place,) = shelf._places.values()
    facts = place.kept.facts
    files = {**facts.files, min(facts.files): "another digest"}
    place.kept = replace(place.kept, facts=replace(facts, files=files))
    proof, drift = start().verify()
    assert drift != ()
    assert proof.expected != proof.found, "a folder that is not what its maker found is not proven"


def test_what_is_not_logged_is_kept_too(start: Start):
    systems = [start(ddl=DDL.replace("TABLE", "UNLOGGED TABLE")) for _ in range(2)]
    assert base_of(systems[1]) is not None
    prove(*systems)


def test_mariadb_begins_over_what_was_kept_and_is_proven(start: Start):
    systems = [start(MariaDbSystem) for _ in range(3)]
    assert [base_of(system) is not None for system in systems] == [False, True, True]
    prove(*systems)
    assert len({system.url.partition("@")[0] for system in systems}) == 3, "its own password"
    agent, _ = connected(systems[2].url, 10.0)
    agent.select_db("store")
    assert len(fetched(agent, "SELECT * FROM item")) == 9
    agent.query("DELETE FROM item")
    assert {entry.what for entry in systems[2].verify()[1]} >= {"rows of item"}
    prove(systems[1])
    systems[2].reset()
    prove(systems[2])
    agent.close()


@pytest.mark.parametrize("kind", [PostgresSystem, MariaDbSystem])
def test_where_nothing_can_be_mounted_over_it_each_is_made_of_its_texts(
    start: Start, monkeypatch: pytest.MonkeyPatch, kind: type[System]
):
    monkeypatch.setattr(
        "statediff_containers.engine.OVER", "lowerdir={base}/nothing,no_such={work}"
    )
    systems = [start(kind) for _ in range(2)]
    assert [base_of(system) for system in systems] == [None, None]
    prove(*systems)


def test_a_server_is_being_started_until_it_was_proven_once(start: Start):
    system = start()
    assert isinstance(system, PostgresSystem)
    server = system._running()
    with server.as_first():
        assert STARTS._under_way == 1
    prove(system)
    with server.as_first():
        assert STARTS._under_way == 0
