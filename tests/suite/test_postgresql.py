"""A store in a real PostgreSQL: the same answers as in SQLite, and many may write at once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

psycopg = pytest.importorskip("psycopg")


from statediff_postgres.machines import VARIABLE  # noqa: E402
from statediff_postgres.sandbox import PostgresSystem  # noqa: E402

from statediff.errors import StorageError, UsageError  # noqa: E402
from statediff.packs import PackSource  # noqa: E402
from statediff.suite.indexing import index_run  # noqa: E402
from statediff.suite.overview import (  # noqa: E402
    TrialChoice,
    failures,
    find_trials,
    groups,
    matrix,
    passes,
    violations,
)
from statediff.suite.store import FORM, Store, open_store  # noqa: E402
from statediff.workspace.runfolders import run_facts  # noqa: E402
from statediff.workspace.stores import look  # noqa: E402
from tests.needs import package_programs  # noqa: E402
from tests.suite.folders import Folders, write_at_once  # noqa: E402

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("pack")
    (folder / "ddl.sql").write_text("CREATE TABLE item (id int PRIMARY KEY);")
    (folder / "seed.sql").write_text("INSERT INTO item VALUES (1);")
    files = {"ddl": folder / "ddl.sql", "seed": folder / "seed.sql"}
    system = PostgresSystem(PackSource("store", "postgres", None, files), (), folder / "own")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(package_programs()))
        system.start()
        system.reset()  # the agent's account lives from one reset to the next
        yield system.url
        system.stop()


def indexed(store: Store, folder: Path) -> str:
    return index_run(store, folder, run_facts(folder), look).id


def test_postgresql_and_sqlite_answer_alike_after_many_wrote_at_once(
    url: str, tmp_path: Path
) -> None:
    folders = Folders(tmp_path)
    ends = ["MATCH", "DIVERGE", "fault", "damaged", "unfinished", ""]
    runs = [
        folders.run(name, {"notes/close": ends, "notes/other": ["DIVERGE", "MATCH"]}, times=7)
        for name in ("one", "two")
    ]
    write_at_once(url, runs)
    with open_store(url) as there, open_store("sqlite://") as here:
        ids = [indexed(here, folder) for folder in runs]
        assert [indexed(there, folder) for folder in runs] == ids
        for ask in (groups, matrix, passes, violations, failures):
            assert ask(there) == ask(here), ask.__name__
        for chosen in (
            TrialChoice(clause="closed", sort="time"),
            TrialChoice(sort="cost", is_down=True),
        ):
            pages = [find_trials(s, chosen, limit=3, with_findings=True) for s in (there, here)]
            assert pages[0] == pages[1]
        for run in ids:
            assert there.trials(run, with_findings=True) == here.trials(run, with_findings=True)
        assert [e.counts for e in there.runs()] == [e.counts for e in here.runs()]


def test_a_store_of_another_form_is_refused_and_other_tables_are_none_of_its_own(url: str) -> None:
    with open_store(url), psycopg.connect(url, autocommit=True) as theirs:
        assert theirs.execute("SELECT id FROM item").fetchall() == [(1,)]
        for said, found in (("statediff:2", "form 2"), ("theirs", "none of ours")):
            theirs.execute(f"COMMENT ON TABLE runs IS '{said}'")
            with pytest.raises(UsageError, match=found), open_store(url):
                pass
        theirs.execute(f"COMMENT ON TABLE runs IS 'statediff:{FORM}'")
    with open_store(url) as store:
        store.runs()


def test_a_connection_that_is_lost_is_an_error_once_and_then_there_again(url: str) -> None:
    with open_store(url) as store, psycopg.connect(url, autocommit=True) as theirs:
        known = store.runs()
        theirs.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE usename = current_user AND pid <> pg_backend_pid()"
        )
        with pytest.raises(StorageError, match="cannot be used"):
            store.runs()
        assert store.runs() == known
