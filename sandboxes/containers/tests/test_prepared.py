"""Work that can wait while servers are being started."""

import threading
import time

import pytest

pytest.importorskip("docker")

from statediff_containers import prepared
from statediff_containers.prepared import Starts


def test_what_can_wait_does_while_a_server_is_started_unless_somebody_wants_it():
    starts, wanted = Starts(), threading.Event()
    worker = threading.Thread(target=starts.rest, args=(wanted,), daemon=True)
    with starts.one():
        worker.start()
        worker.join(0.1)
        assert worker.is_alive()
        wanted.set()
        worker.join(10)
        assert not worker.is_alive()


def test_it_begins_when_for_a_while_no_server_was_started(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(prepared, "QUIET_SECONDS", 0.05)
    starts = Starts()
    with starts.one(), starts.one():
        pass
    ended = time.monotonic()
    starts.rest(threading.Event())
    assert time.monotonic() - ended >= 0.04
