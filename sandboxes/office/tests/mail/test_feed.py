import importlib
import smtplib
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statediff_office.mail import sandbox as mail_sandbox
from statediff_office.mail.sandbox import MailFeed
from statediff_office.mail.source import OutboxProcess

from statediff.capture.source import SourceUnavailable
from statediff.model.explanation import by_run
from statediff.model.state import MemoryChunks


def clock() -> datetime:
    return datetime(2024, 5, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def outbox():
    with OutboxProcess() as process:
        yield process


class Run:
    def __init__(self, outbox: OutboxProcess) -> None:
        self.outbox = outbox
        self.store = MemoryChunks()
        self.feed = MailFeed("outbox", lambda: outbox.control)
        self.feed.attach()
        self.before = self.scan(None)

    def scan(self, like):
        return self.outbox.source("outbox").read(self.store, clock, like).state

    def send(self, *to: str, head: bytes = b"") -> None:
        with smtplib.SMTP("127.0.0.1", self.outbox.smtp_port, timeout=10) as client:
            client.sendmail("a@x", list(to), head + b"Subject: x\r\n\r\nhi\r\n")

    def seen(self):
        return self.feed.finish(self.store, clock, self.before)


@pytest.fixture
def run(outbox):
    outbox.control.reset()
    made = Run(outbox)
    yield made
    made.feed.detach()


def test_each_message_is_a_transaction_at_the_time_the_sink_accepted_it(run):
    began = datetime.now(UTC)
    run.send("b@y", "c@y")
    run.send("d@y")
    seen = run.seen()
    assert seen.gap is None
    assert [(t.id, t.position) for t in seen.transactions] == [("outbox/1", "2"), ("outbox/2", "3")]
    assert [t.state.tables["message"].row_count for t in seen.transactions] == [2, 3]
    times = [t.committed_at for t in seen.transactions]
    assert began <= times[0] <= times[1] <= datetime.now(UTC)
    assert seen.transactions[-1].state == run.scan(run.before)


def test_a_message_is_known_by_its_id_unless_that_looks_like_another_name(run):
    run.send("b@y", "c@y", head=b"Message-ID: <one@agent.example>\r\n")
    for head in (b"", b"Message-ID: outbox/1\r\n", b"Message-ID: <a b@c>\r\n"):
        run.send("b@y", head=head)
    run.send("b@y", head=b"Message-ID: <" + b"x" * 400 + b"@y>\r\n")
    names = [t.names for t in run.seen().transactions]
    assert names == [("<one@agent.example>",), (), (), (), ()]


@settings(max_examples=settings.default.max_examples // 6)
@given(st.lists(st.integers(1, 3), max_size=4), st.lists(st.integers(1, 3), max_size=4))
def test_the_states_of_the_feed_are_those_of_scans_after_every_message(outbox, earlier, later):
    outbox.control.reset()
    run = Run(outbox)
    for count in earlier:
        run.send(*["b@y"] * count)
    run = Run(outbox)  # what is there when it is attached is the state before
    scans = []
    for count in later:
        run.send(*["b@y"] * count)
        scans.append(run.scan(run.before))
    seen = run.seen()
    assert seen.gap is None
    assert [t.state for t in seen.transactions] == scans


def test_mail_that_was_begun_and_given_up_is_no_transaction(run):
    with smtplib.SMTP("127.0.0.1", run.outbox.smtp_port, timeout=10) as client:
        client.mail("a@x")
        client.rcpt("b@y")
        client.rset()
    assert run.seen().transactions == ()
    assert run.seen().gap is None


def test_an_outbox_that_was_emptied_meanwhile_is_a_gap(run):
    run.send("b@y")
    run.outbox.control.reset()
    run.send("b@y")
    assert run.seen().gap == "the outbox was emptied since"


def test_an_outbox_that_is_gone_or_another_cannot_be_read():
    with OutboxProcess() as process:
        run = Run(process)
        process.kill()
        with pytest.raises(SourceUnavailable, match="connection refused"):
            run.seen()
        process.start()
        with pytest.raises(SourceUnavailable):
            run.seen()
        run.feed.attach()
        assert run.seen().transactions == ()


def test_a_feed_that_is_not_attached_says_so(outbox):
    run = Run(outbox)
    run.feed.detach()
    run.feed.detach()
    with pytest.raises(SourceUnavailable, match="no feed of outbox is attached"):
        run.seen()


def test_beyond_the_limit_there_is_a_gap_and_what_was_told_stands(run, monkeypatch):
    monkeypatch.setattr(mail_sandbox, "MAX_ROWS_TOLD", 3)
    for _ in range(3):
        run.send("b@y")
    seen = run.seen()
    assert [t.state.tables["message"].row_count for t in seen.transactions] == [1, 2]
    assert seen.gap == by_run("it would take more than 3 rows to tell")


def test_what_a_letter_adds_is_encoded_once_whatever_came_before(run, monkeypatch):
    encoded = []
    for place in ("state", "patch"):
        plain = importlib.import_module(f"statediff.model.{place}").encode_rows

        def counted(of, rows, *more, plain=plain):
            kept = list(rows)
            encoded.append(len(kept))
            return plain(of, kept, *more)

        monkeypatch.setattr(f"statediff.model.{place}.encode_rows", counted)
    for _ in range(20):
        run.send("b@y")
    seen = run.seen()
    rows = sum(table.row_count for table in seen.transactions[-1].state.tables.values())
    assert len(seen.transactions) == 20
    assert sum(encoded) < 3 * rows
