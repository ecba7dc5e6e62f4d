"""Witnesses over real HTTP: who they sign for, what they refuse, and what they remember."""

from __future__ import annotations

import concurrent.futures
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from statediff_lab.witnesses import PATH, Witness, ask, require_next, serve

from statediff.errors import BundleError, UsageError
from statediff.evidence.checkpoints import checkpoint, read_checkpoint
from statediff.evidence.keys import SigningKey
from statediff.evidence.log import Log, read_log
from tests.growing_logs import ADA, EVE, NAME, NOON, TRUST, WES
from tests.growing_logs import log_of as data_of


def log_of(size: int, note: str = "") -> Log:
    return read_log(data_of(size, note))


def signed(log: Log, key: SigningKey = ADA, origin: str = NAME) -> bytes:
    return checkpoint(log, origin, NOON, key)


def witness(folder: Path) -> Witness:
    return Witness(folder, "example.com/wes", WES, TRUST, frozenset({NAME}))


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with serve(witness(tmp_path / "state")) as served:
        yield served


def names(data: bytes) -> list[str]:
    return [each.name for each in read_checkpoint(data, TRUST).witnesses]


def test_a_log_that_grows_is_signed_each_time_and_after_the_witness_began_again(
    tmp_path: Path,
) -> None:
    for size in (0, 1, 3, 3, 8):
        with serve(witness(tmp_path)) as url:
            log = log_of(size)
            assert names(ask(url, log, signed(log))) == ["Wes"]


def test_a_log_that_was_cut_or_rewritten_is_not_signed(url: str) -> None:
    log = log_of(5)
    ask(url, log, signed(log))
    for other in (log_of(4), log_of(5, " B")):
        with pytest.raises(BundleError, match="cut or rewritten"):
            ask(url, other, signed(other))
    longer = log_of(6, " B")
    with pytest.raises(UsageError, match="422"):
        ask(url, longer, signed(longer))
    log = log_of(6)
    assert names(ask(url, log, signed(log))) == ["Wes"]


def test_strangers_and_other_logs_are_refused(url: str) -> None:
    log = log_of(2)
    with pytest.raises(UsageError, match="403"):
        ask(url, log, signed(log, EVE))
    with pytest.raises(UsageError, match="404"):
        ask(url, log, signed(log, origin="example.com/other"))
    with pytest.raises(UsageError, match="403"):
        ask(url, log, signed(log, WES))


def test_two_at_once_never_take_a_log_back(tmp_path: Path) -> None:
    """The witness signs one of two histories of one size."""
    for attempt in range(5):
        kept = witness(tmp_path / str(attempt))
        sides = [log_of(3), log_of(3, " B")]

        def one(log: Log, kept: Witness = kept) -> int:
            return kept.add(b"old 0\n\n" + signed(log)).status

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(one, sides)) == [200, 409]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400), (b"old 0\n\n", 400), (b"old 00\n\n" + signed(log_of(1)), 400),
        (b"old -1\n\n" + signed(log_of(1)), 400), (b"new 0\n\n" + signed(log_of(1)), 400),
        (b"old 0\nx\n\n" + signed(log_of(1)), 400), (b"old 9\n\n" + signed(log_of(1)), 400),
        (b"old 0\n" + b"A" * 43 + b"=\n\n" + signed(log_of(1)), 422),
        (b"old 1\n\n" + signed(log_of(1)), 409), (b"\xff\n\n" + signed(log_of(1)), 400),
        (b"old 0\n" + (b"A" * 43 + b"=\n") * 64 + b"\n" + signed(log_of(1)), 400),
        (b"x" * 200_000, 413),
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused(url: str, body: bytes, status: int) -> None:
    answer = httpx.post(url + PATH, content=body)
    assert answer.status_code == status
    if status == 409:
        assert (answer.text, answer.headers["content-type"]) == ("0\n", "text/x.tlog.size")
    assert httpx.get(url).status_code == 501


def test_silent_connections_do_not_keep_others_from_a_witness(url: str) -> None:
    host, port = url.removeprefix("http://").split(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(20)]
    try:
        log = log_of(1)
        assert names(ask(url, log, signed(log))) == ["Wes"]
    finally:
        for each in silent:
            each.close()


def test_a_witness_that_is_none_is_said_so() -> None:
    log = log_of(1)
    for place in ("http://127.0.0.1:9", "nonsense", "http://[x"):
        with pytest.raises(UsageError, match="does not answer"):
            ask(place, log, signed(log))


def test_a_checkpoint_in_place_is_followed_or_nothing_is_signed(tmp_path: Path) -> None:
    place = tmp_path / "point"
    require_next(place, log_of(1), NAME, ADA)
    place.write_bytes(signed(log_of(3)))
    require_next(place, log_of(3), NAME, ADA)
    with pytest.raises(BundleError, match="taken out"):
        require_next(place, log_of(2), NAME, ADA)
    with pytest.raises(BundleError, match="rewritten"):
        require_next(place, log_of(4, " B"), NAME, ADA)
    require_next(place, log_of(2), "example.com/other", ADA)
    require_next(place, log_of(2), NAME, EVE)
