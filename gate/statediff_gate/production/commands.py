"""`guard`: the command that watches a database that agents write to."""

from __future__ import annotations

import contextlib
import re
import shlex
import signal
import threading
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from statediff.cli.options import JsonFlag, flag, opt
from statediff.cli.output import print_result
from statediff.errors import UsageError
from statediff_gate.commands import RECORDS, FolderOption, KeyOption, pairs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from statediff_gate.production.guard import Guard, Watch

_NAME: Final = re.compile(r"[a-z0-9_]{1,60}")


@dataclass(frozen=True, kw_only=True)
class AlertOptions:
    """Who hears of what is not allowed."""

    alert: str | None = opt("COMMAND", "Run it, the record on stdin.")
    webhook: str | None = opt("URL", "Post the record there, as JSON.")
    otlp: str | None = opt("URL", "Send it to this OTLP collector.")


@dataclass(frozen=True, kw_only=True)
class WatchOptions:
    """The watch that is begun, ended or gone on with."""

    begin: bool = flag("Mark the tables, make the slot, and begin from now.")
    end: bool = flag("Drop the slot, remove the marks, and stop for good.")
    once: bool = flag("Judge what is committed until now, then end.")
    slot: str = opt("NAME", "One for each agent.", default="statediff_guard")
    minutes: int = opt("", "Judge transactions of so long together.", default=0, min=0)
    keep_days: int | None = opt("", "Erase older records.", min=1)

    def watch(self, name: str, url: str, agent: str) -> Watch:
        """The watch of a source for an agent. `UsageError`."""
        from statediff_gate.production.guard import Watch

        if sum((self.begin, self.end, self.once)) > 1:
            raise UsageError("give one of --begin, --end and --once")
        if not _NAME.fullmatch(self.slot):
            raise UsageError(f"--slot {self.slot}: expected small letters, digits and _")
        return Watch(
            source=name, url=url, agent=agent, slot=self.slot, run=timedelta(minutes=self.minutes),
            keep=None if self.keep_days is None else timedelta(days=self.keep_days),
        )  # fmt: skip


def guard(
    contract: Annotated[Path, typer.Argument(metavar="CONTRACT", help="What may be done.")],
    *,
    state: Annotated[
        str, typer.Option("--state", metavar="NAME=URL", help="The PostgreSQL database.")
    ],
    agent: Annotated[
        str, typer.Option("--agent", metavar="ROLE", help="The role that the agent logs in as.")
    ],
    key: KeyOption,
    records: FolderOption = RECORDS,
    how: WatchOptions,
    alerts: AlertOptions,
    as_json: JsonFlag = False,
) -> int:
    """Judge what an agent committed to a database in use; sign a record of each transaction.

    Start it once with --begin. It goes on where it was, however it ended: until --end, its slot
    keeps the server's log, which takes room. With --once it ends with 0, 1 after a deny, 3 after
    a hold.
    """
    from statediff.scoring import contract_of
    from statediff_gate.production.alerts import Alerts
    from statediff_gate.production.guard import Guard
    from statediff_gate.records import Records
    from statediff_gate.systems import POSTGRES_URLS

    [(name, url)] = pairs([state]).items()
    if not url.startswith(POSTGRES_URLS):
        raise UsageError(f"{name}: expected postgresql://…; stand a gate before anything else")
    watch = how.watch(name, url, agent)
    try:
        words = shlex.split(alerts.alert or "")
    except ValueError as error:
        raise UsageError(f"--alert {alerts.alert}: {error}") from error
    file = contract_of(contract)
    kept = Records(records, key, file)
    with (
        contextlib.closing(Alerts(kept.folder, words, alerts.webhook, alerts.otlp)) as told,
        contextlib.closing(Guard(file, watch, kept, told)) as opened,
    ):
        if how.begin or how.end:
            _begin_or_end(opened, is_end=how.end, as_json=as_json)
            return 0
        with _stopped() as stop:
            opened.follow(stop, once=how.once)
    counts = _print_sums(opened, as_json=as_json)
    return (1 if counts.get("deny") else 3 if counts.get("hold") else 0) if how.once else 0


def _begin_or_end(opened: Guard, *, is_end: bool, as_json: bool) -> None:
    slot = opened.watch.slot
    if is_end:
        opened.end()
        print_result({"ended": slot}, f"{slot}: dropped, and its marks removed", as_json=as_json)
        return
    at = opened.begin().position
    said = f"{slot}: watched from {at} on; the server keeps its log from there, until --end"
    print_result({"begun": slot, "position": at}, said, as_json=as_json)


@contextlib.contextmanager
def _stopped() -> Iterator[threading.Event]:
    """Set by the first signal to end; a second one ends at once, and loses nothing either."""
    stop = threading.Event()

    def ask(number: int, _frame: object) -> None:
        stop.set()
        signal.signal(number, before[number])

    before: dict[int, Any] = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_sums(opened: Guard, *, as_json: bool) -> dict[str, int]:
    seen, at = opened.decisions, opened.position
    said = ", ".join(f"{n} {name}" for name, n in sorted(seen.items())) or "none"
    kept = f"{opened.watch.slot}: the server keeps its log from {at} on, until --end"
    print_result(
        {"decisions": seen, "others": opened.others, "position": at},
        f"of the agent: {said}; of others: {opened.others}\n{kept}", as_json=as_json,
    )  # fmt: skip
    return seen
