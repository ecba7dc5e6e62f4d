"""A COPY delivers whole rows, all of them or an error, and leaves the line usable."""

from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest

psycopg = pytest.importorskip("psycopg")

from statediff_postgres import session as postgres_session  # noqa: E402
from statediff_postgres.sandbox import PostgresSystem  # noqa: E402
from statediff_postgres.session import (  # noqa: E402
    Copied,
    ahead,
    blocks_copied,
    cells,
    connected,
)

from statediff.packs import PackSource  # noqa: E402

pytestmark = pytest.mark.docker("postgres")
MANY = "COPY (SELECT n, repeat('x', n % 90) FROM generate_series(1, 60000) n) TO STDOUT"
ENDLESS = MANY.replace(" n)", " n, generate_series(1, 60000) m)")
FAILS = "COPY (SELECT 1 / (40000 - n) FROM generate_series(1, 60000) n) TO STDOUT"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("pack")
    (folder / "none.sql").write_text("SELECT 1;")
    files = {"ddl": folder / "none.sql", "seed": folder / "none.sql"}
    system = PostgresSystem(PackSource("store", "postgres", None, files), (), folder / "own")
    system.start()
    try:
        system.reset()
        yield system.url
    finally:
        system.stop()


@pytest.fixture
def line(url, monkeypatch):
    monkeypatch.setattr(postgres_session, "BLOCK_BYTES", 10_000)
    with connected(url, 60) as connection:
        yield connection
        assert connection.execute("SELECT 1").fetchone() == (1,)  # whatever was done with it


def test_blocks_are_whole_rows_and_together_all_of_them(line):
    blocks = list(ahead(blocks_copied(line, MANY)))
    assert len(blocks) > 100
    assert all(block.endswith(b"\n") for block in blocks)
    whole = b"".join(f"{n}\t{'x' * (n % 90)}\n".encode() for n in range(1, 60001))
    assert b"".join(blocks) == whole
    assert list(blocks_copied(line, "COPY (SELECT 1 WHERE false) TO STDOUT")) == []


@pytest.mark.parametrize("taken", [0, 1, 5])
@pytest.mark.parametrize("how", [ahead, iter])
def test_who_stops_in_the_middle_has_the_statement_cancelled(line, taken, how):
    blocks = how(blocks_copied(line, ENDLESS))
    assert len(list(islice(blocks, taken))) == taken
    blocks.close()


def test_what_fails_in_the_middle_is_an_error_and_no_end(line):
    with pytest.raises(psycopg.errors.DivisionByZero):
        list(ahead(blocks_copied(line, FAILS)))
    with pytest.raises(psycopg.errors.SyntaxError):
        list(ahead(blocks_copied(line, "COPY nonsense")))


def test_a_line_that_is_cut_is_an_error_and_no_end(url):
    with psycopg.connect(url, autocommit=True) as other, connected(url, 60) as cut:
        blocks = blocks_copied(cut, ENDLESS)
        next(blocks)
        other.execute("SELECT pg_terminate_backend(%s)", (cut.info.backend_pid,))
        with pytest.raises(psycopg.OperationalError):
            list(blocks)


def test_a_server_that_says_nothing_more_is_hung_up_on(url):
    with pytest.raises(psycopg.OperationalError), connected(url, 0.3) as line:
        list(ahead(blocks_copied(line, "COPY (SELECT pg_sleep(60)) TO STDOUT")))


ODD = (
    "SELECT n, nullif(repeat(E'\\\\\\t\\n\\r\\b\\f\\v\\\\N', n % 3) || "
    "chr(200 + n), chr(203)) AS text"
)


def test_rows_copied_in_a_transaction_are_cell_by_cell_what_a_query_gives(line):
    query = f"{ODD} FROM generate_series(0, 50) n"
    line.execute("BEGIN")
    with closing(Copied(line, f"COPY ({query}) TO STDOUT")) as copied:
        found = [cells(row) for row in copied]
    wanted = [(str(n), text) for n, text in line.execute(query).fetchall()]
    assert found == wanted
    assert ("3", None) in wanted
    assert cells(b"\n") == ("",), "an empty text is no missing column"


def test_two_connections_work_at_the_same_time_and_each_goes_on(line, url):
    with connected(url, 60) as other:
        for each in (line, other):
            each.execute("BEGIN")
        with closing(Copied(line, MANY)) as one, closing(Copied(other, MANY)) as two:
            assert list(two) == list(one)
        for each in (line, other):
            assert each.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("reads", [True, False])
def test_a_copy_that_fails_or_is_left_alone_does_not_end_the_transaction(line, reads):
    line.execute("BEGIN")
    (begun,) = line.execute("SELECT now()").fetchone()
    with closing(Copied(line, FAILS)) as copied:
        if reads:
            with pytest.raises(psycopg.errors.DivisionByZero):
                list(copied)
        else:
            next(iter(copied))
    assert line.execute("SELECT now()").fetchone() == (begun,)
