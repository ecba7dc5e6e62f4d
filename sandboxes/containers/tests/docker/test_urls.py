"""Databases by URL: what an account with few rights sees, and what goes wrong with words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

psycopg = pytest.importorskip("psycopg")
pytest.importorskip("pymysql")

from statediff_data.databases.source import DatabaseSource  # noqa: E402
from statediff_mariadb.session import connected  # noqa: E402

import statediff  # noqa: E402
from statediff.capture.source import clock  # noqa: E402
from statediff.capture.take import take  # noqa: E402
from statediff.cli.main import run as run_command  # noqa: E402
from statediff.errors import StatediffError  # noqa: E402
from statediff.kernel import TrialFacts, evaluate  # noqa: E402
from statediff.model.state import MemoryChunks  # noqa: E402
from statediff.model.values import Unobserved  # noqa: E402
from statediff.model.verdict import Judgement  # noqa: E402
from statediff.workspace.inputs import one_capture  # noqa: E402
from statediff.workspace.trials import open_sandbox  # noqa: E402
from tests.lines import Line  # noqa: E402

CONTRACT = """
contract: shop/restock
version: 1.0.0
owner: warehouse
intent: Product 1 has a new name; nothing else changes.
require:
  - id: renamed
    update: products
    where: it.id == KEY
    set: {name: Renamed}
"""


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=pytest.mark.docker(name)) for name in ("postgres", "mariadb")],
)
def sandbox(request: pytest.FixtureRequest) -> Iterator[Any]:
    with open_sandbox("shop", request.param) as sandbox:
        sandbox.reset()
        yield sandbox


@pytest.fixture(scope="module")
def url(sandbox: Any) -> str:
    return str(sandbox.access().urls["shop-db"])


def unread(url: str) -> str:
    """The section of a contract about what this account cannot read: types, and fields of rows."""
    state = one_capture([f"db={url}"], lambda _source: None).parts[0].state
    found = [name for name, t in state.tables.items() if not t.enumeration.is_complete]
    found += {
        f"{name}.{field}"
        for name, table in state.tables.items()
        for _, row in table.rows()
        for field, value in row.items()
        if isinstance(value, Unobserved)
    }
    lines = "".join(f"  - {{what: {name}, because: not seen by us}}\n" for name in sorted(found))
    return f"unread:\n{lines}" if found else ""


def test_its_tables_are_read_and_what_it_may_not_see_is_unobserved(url: str) -> None:
    [part] = one_capture([f"db={url}"], lambda _source: None).parts
    assert part.state.tables["products"].row_count > 0
    assert part.state.tables["products"].enumeration.is_complete
    assert "what: db." in unread(url)


def test_tables_are_chosen_by_pattern(url: str) -> None:
    [part] = one_capture([f"db={url}?tables=ord*"], lambda _source: None).parts
    own = {name for name in part.state.tables if not name.startswith(("db.", "source."))}
    assert own == {"orders", "order_lines"}


def test_a_large_table_is_never_held_whole_and_is_the_same_state(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = one_capture([f"db={url}"], lambda _source: None).parts[0].state
    monkeypatch.setattr("statediff.systems.relational.runs.HELD_ROWS", 3)
    streamed = one_capture([f"db={url}"], lambda _source: None).parts[0].state
    assert whole.tables["orders"].row_count > 3
    assert whole.digest() == streamed.digest()


def with_(url: str, **parts: str) -> str:
    return urlunsplit(urlsplit(url)._replace(**parts))


def test_what_is_wrong_with_a_url_is_named_without_its_password(url: str) -> None:
    place = urlsplit(url)
    password = place.password or ""
    wrong = url.replace(password, "wrong-" + password)
    nowhere = with_(url, path="/no_such_database")
    closed = url.replace(f":{place.port}/", ":1/")
    for bad, words in (
        (wrong, ("password", "denied")),
        (nowhere, ("does not exist", "has no database")),
        (closed, ("refused", "cannot be reached")),
        (with_(url, query="tables="), ("not empty",)),
        (with_(url, query="tables=products,nosuch"), ("no table is called nosuch",)),
        (with_(url, query="schema=nosuch"), ("no table of the schema nosuch",)),
        (
            url.replace(place.hostname or "", "nosuch.invalid"),
            ("resolve", "not known", "resolution"),
        ),
    ):
        with pytest.raises(StatediffError) as caught:
            one_capture([f"db={bad}"], lambda _source: None)
        assert any(each in str(caught.value) for each in words), str(caught.value)
        assert password not in str(caught.value)


def test_a_run_is_watched_and_others_are_reported(url: str, tmp_path: Path) -> None:
    with statediff.watch(db=url, settle_seconds=0) as run:
        rename(url)
    [delta] = run.changes
    assert (delta["type"], delta["path"], delta["after"]) == ("products", "name", "Renamed")
    rename(url, "Again")
    contract = tmp_path / "contract.yaml"
    body = CONTRACT.replace("KEY", str(delta["key"]))
    contract.write_text(body)
    with statediff.watch(contract, db=url, settle_seconds=0) as run:
        rename(url)
    assert run.judged is not None
    assert run.judged.verdict.value == "INCONCLUSIVE"  # this account does not see the roles
    contract.write_text(f"{body}{unread(url)}")
    rename(url, "Again")
    with statediff.watch(contract, db=url, settle_seconds=0) as run:
        rename(url)
    assert run.judged is not None
    assert run.judged.verdict.value == "MATCH", run.judged.line


NOTHING = """
contract: shop/look
version: 1.0.0
owner: warehouse
intent: Nothing changes.
noop: true
"""


def nothing_changes(url: str) -> statediff.api.ContractFile:
    """A contract over what this account sees: with a line that holds, it is a MATCH."""
    return statediff.load_contract(f"{NOTHING}{unread(url)}")


@pytest.mark.parametrize(
    ("cut", "verdict"), [(None, "MATCH"), (0, "INCONCLUSIVE"), (6_000, "INCONCLUSIVE")]
)
def test_a_connection_that_is_dropped_is_never_a_match(
    url: str, cut: int | None, verdict: str
) -> None:
    """The line is cut before the second reading, or in the middle of it."""
    with Line(url) as line:
        with statediff.watch(nothing_changes(url), db=line.url, settle_seconds=0) as run:
            line.cut_after(cut)
        assert run.judged is not None
        assert run.judged.verdict.value == verdict, run.judged.text()
        assert (urlsplit(url).password or "") not in run.judged.text()


def judged_by_sqlalchemy(url: str, between: Callable[[], object]) -> Judgement:
    """The judgement of a run that does nothing, by the reader for all other databases."""
    for ours, theirs in (("mysql:", "mysql+pymysql:"), ("postgresql:", "postgresql+psycopg:")):
        url = url.replace(ours, theirs)
    source, chunks = DatabaseSource("db", url), MemoryChunks()
    before = take([source], chunks, clock, None, "before")
    between()
    after = take([source], chunks, clock, before, "after")
    for part in (before, after):
        assert (urlsplit(url).password or "") not in str(part.parts[0].reading)
    facts = TrialFacts("trial")
    return evaluate(statediff.load_contract(NOTHING), before, after, facts=facts).judgement


@pytest.mark.parametrize(
    ("cut", "verdict"), [(None, "MATCH"), (0, "INCONCLUSIVE"), (9_000, "INCONCLUSIVE")]
)
def test_a_line_of_sqlalchemy_that_is_dropped_is_never_a_match(
    url: str, cut: int | None, verdict: str
) -> None:
    with Line(url) as line:
        judgement = judged_by_sqlalchemy(line.url, lambda: line.cut_after(cut))
    assert judgement.verdict.value == verdict
    assert verdict == "MATCH" or judgement.findings


def rename(url: str, name: str = "Renamed") -> None:
    place = urlsplit(url)
    statement = f"UPDATE products SET name = '{name}' WHERE id = (SELECT MIN(id) FROM products)"
    if place.scheme == "postgresql":
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(statement.encode())
        return
    connection, database = connected(url, 10)
    with connection:
        connection.select_db(database)
        connection.query(statement)


def test_the_password_may_be_elsewhere_and_is_in_no_output(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = urlsplit(url)
    password = place.password or ""
    kept = tmp_path / "pgpass"
    kept.write_text(f"*:*:*:{place.username}:{password}\n")
    kept.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(kept))
    monkeypatch.setenv("MYSQL_PWD", password)
    bare = url.replace(f":{password}@", "@")
    out = tmp_path / "out"
    out.mkdir()
    contract = out / "contract.yaml"
    contract.write_text(NOTHING)
    for state in (f"db={bare}", f"db={url}"):
        run_command(["capture", state, "--json", "--out", str(out / "db.state")])
        judged = ["--contract", str(contract), "--out", str(out / "b")]
        run_command(["watch", "--state", state, *judged, "--", "true"])
        run_command(["watch", "--state", state, "--json", "--", "true"])
    said = capsys.readouterr()
    assert "products" in said.out
    written = [path.read_bytes() for path in out.rglob("*") if path.is_file()]
    assert len(written) > 5
    assert password not in said.out + said.err
    assert not any(password.encode() in content for content in written)


def test_a_right_that_was_revoked_is_never_a_match(sandbox: Any, url: str) -> None:
    """The last test of a server: the right is gone for good."""
    contract = nothing_changes(url)

    def revoke() -> None:
        if urlsplit(url).scheme == "postgresql":
            with psycopg.connect(
                url, autocommit=True
            ) as own:  # it may take from itself what it made
                own.execute("REVOKE ALL ON products FROM CURRENT_USER")
        else:
            place = urlsplit(url).path.removeprefix("/")
            with sandbox.system("shop-db")._server.admin() as admin:
                admin.query(f"REVOKE ALL ON `{place}`.* FROM agent@localhost")
                admin.query(f"GRANT SELECT ON `{place}`.orders TO agent@localhost")

    def look() -> None:
        with statediff.watch(contract, db=url, settle_seconds=0) as run:
            revoke()
        runs.append(run)

    runs: list[Any] = []
    judgement = judged_by_sqlalchemy(url, look)
    assert judgement.verdict.value != "MATCH"
    [run] = runs
    assert run.judged is not None
    assert run.judged.verdict.value != "MATCH", run.judged.text()
    assert "deleted" not in run.judged.text()
