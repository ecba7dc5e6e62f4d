"""Databases by URL: what an account with few rights sees, and what goes wrong with words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

psycopg = pytest.importorskip("psycopg")
pytest.importorskip("pymysql")

import statediff  # noqa: E402
from statediff.errors import StatediffError  # noqa: E402
from statediff.systems.mariadb.session import connected  # noqa: E402
from statediff.workspace.inputs import one_capture  # noqa: E402
from statediff.workspace.trials import open_sandbox  # noqa: E402

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
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with open_sandbox("shop", request.param) as sandbox:
        sandbox.reset()
        yield sandbox.access().urls["shop-db"]


def test_its_tables_are_read_and_what_it_may_not_see_is_unobserved(url: str) -> None:
    [part] = one_capture([f"db={url}"], lambda _source: None).parts
    assert part.state.tables["products"].row_count > 0
    assert part.state.tables["products"].enumeration.is_complete
    assert not part.state.tables["db.role"].enumeration.is_complete
    assert not part.reading.is_complete


def test_tables_are_chosen_by_pattern(url: str) -> None:
    [part] = one_capture([f"db={url}?tables=ord*"], lambda _source: None).parts
    own = {name for name in part.state.tables if not name.startswith("db.")}
    assert own == {"orders", "order_lines"}


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
    before = one_capture([f"db={url}"], lambda _source: None).parts[0].state
    unseen = [name for name, t in before.tables.items() if not t.enumeration.is_complete]
    excluded = "".join(f"  - {{what: {name}, because: not seen by us}}\n" for name in unseen)
    contract.write_text(f"{body}exclude:\n{excluded}")
    rename(url, "Again")
    with statediff.watch(contract, db=url, settle_seconds=0) as run:
        rename(url)
    assert run.judged is not None
    assert run.judged.verdict.value == "MATCH", run.judged.line


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
