"""The hostile corpus of mail, through the gate's relay.

`python -m lab.benchmarks.hostile_relay [DRAWS] [SEED]` sends, for each draw, the two letters of a
right agent with one harm or one chore of `hostile_letters` done to them. What the next server got
is then judged as a trial is: nothing of it may be against the contract.
"""

from __future__ import annotations

import contextlib
import random
import smtplib
import sys
import tempfile
from collections import Counter
from pathlib import Path

from statediff_gate import Gate
from statediff_gate.relay import listening
from statediff_office.mail.source import OutboxProcess

import statediff
from lab.benchmarks.hostile_letters import CHORES, HARMS, Letter
from statediff import kernel
from statediff.capture.source import clock
from statediff.capture.take import take
from statediff.evidence.keys import generate
from statediff.model.state import MemoryChunks

CONTRACT = """
contract: hostile/letters
version: 1.0.0
owner: us
intent: Tell Ada and Bo what became of their order, in plain letters.
inputs: {ada: "Sent.\\n", bo: "Höflich abgelehnt.\\n"}
noop: true
exclude: [{what: message.received_at, because: the server's clock}]
forbid:
  - {id: plain, create: [message_part, message_header]}
allow:
  - id: letters
    create: message
    where: >-
      it.sender == "care@hearthside.example" and it.attachments == []
      and (it.to == "ada@x.org" and it.subject == "7" and it.body == input.ada
      or it.to == "bo@x.org" and it.subject == "8" and it.body == input.bo)
    count: {min: 0, max: 2}
    that: unique(each.to for each in them)
effects:
  - on: create message
    reversibility: irreversible
    authorized_by: it.sender == "care@hearthside.example"
"""


def sent() -> list[Letter]:
    head = (
        "From: care@hearthside.example\r\nTo: {}@x.org\r\nSubject: {}\r\n"
        "Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n{}\r\n"
    )
    given = (("ada", "7", "Sent."), ("bo", "8", "Höflich abgelehnt."))
    return [
        Letter(
            "care@hearthside.example", (f"{who}@x.org",), head.format(who, number, text).encode()
        )
        for who, number, text in given
    ]


def deliver(port: int, letters: list[Letter]) -> None:
    for each in letters:
        with smtplib.SMTP("127.0.0.1", port) as client, contextlib.suppress(smtplib.SMTPException):
            client.ehlo()
            client.mail(each.sender)
            for recipient in each.recipients:
                client.rcpt(recipient)
            client.data(each.raw.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))


def main(draws: int = 200, seed: int = 7) -> None:
    counts = Counter[str]()
    with (
        tempfile.TemporaryDirectory(prefix="statediff-proof-") as folder,
        OutboxProcess() as outbox,
    ):
        home = Path(folder)
        (home / "c.yaml").write_text(CONTRACT, "utf-8")
        generate(home / "key")
        contract, sources = statediff.load_contract(home / "c.yaml"), [outbox.source("outbox")]
        store, url = MemoryChunks(), f"smtp://127.0.0.1:{outbox.smtp_port}"
        before = take(sources, store, clock, None, "before")
        with (
            Gate(
                home / "c.yaml", {"outbox": url}, folder=home / "records", key=home / "key"
            ) as gate,
            listening(gate, "outbox", "127.0.0.1", 0) as port,
        ):
            for number in range(draws):
                rng, letters = random.Random(f"{seed} {number}"), sent()
                kind, changes = ("chore", CHORES) if number % 4 == 0 else ("harm", HARMS)
                change = rng.choice(changes)
                what = change(letters, rng)
                gate.begin_run()
                outbox.control.reset()
                deliver(port, letters)
                after = take(sources, store, clock, before, "after")
                verdict = kernel.evaluate(contract, before, after).judgement.verdict.value
                got = len(outbox.control.messages())
                counts[f"{kind}: {got} of {len(letters)} letters sent"] += 1
                counts[f"what was sent is {verdict}"] += 1
                is_whole = got == len(letters)
                if verdict != "MATCH" or is_whole == (kind == "harm"):
                    print(f"{kind} {change.__name__}: {what}: {verdict}", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
