"""The contents of a trial, with everything left out that differs between two runs of one agent."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from hosts.tests.protocols.two_ways.by_mcp import ByMcp
from hosts.tests.protocols.two_ways.native import native
from hosts.tests.protocols.two_ways.steps import TASKS
from statediff.harness import JudgedTrial
from statediff.model.delta import Delta
from statediff.model.trace import Action, ActionClass, Trace
from statediff.model.values import Map
from statediff.model.verdict import Verdict
from statediff.packs import contract_folder
from statediff.systems.base.sandbox import EmbeddedSandbox
from tests.tasks import live_trial

_OWN = re.compile(
    r"[0-9a-f]{40,64}|datetime\.datetime\([^)]*\)|\d{4}-\d\d-\d\d[ T.][\d:.]+"
    r"|<[^<> ]+@agent\.example>"
)
"""Ids that git and mail mint, digests over them, and the clock's instants: never those of the
business, which stand still."""


Attributed = dict[tuple[str, int] | None, Counter[str]]
"""A system and how many doings there came before → the changes that this doing made."""


def both_ways(sandbox: EmbeddedSandbox, task: str, folder: Path) -> Attributed:
    """The native trial of the task's agent, which shows what its trial through tools shows."""
    act = TASKS[task]
    shown = []
    for way, agent in (("native", native(act)), ("mcp", ByMcp(act))):
        done = live_trial(sandbox, contract_folder(task).contract, agent, folder / way)
        assert done.observed.run.error is None, done.observed.run.error
        judgement = done.evaluated.judgement
        found = [
            (f.clause, f.code, f.missing) for f in judgement.findings if f.truth.name != "HOLDS"
        ]
        assert judgement.verdict is Verdict.MATCH, (way, found)
        shown.append(attributed(done))
        if way == "mcp":
            whole_and_marked(done.observed.run.trace)
    native_shown, mcp_shown = shown
    assert native_shown == mcp_shown
    return mcp_shown


def whole_and_marked(trace: Trace) -> None:
    """The log of the tools lacks nothing, and says of each call whether it wrote."""
    assert trace.gap is None
    for action in trace.actions:
        assert action.transactions is not None
        assert (action.transactions == ()) == (action.action_class is ActionClass.READ)


def attributed(done: JudgedTrial) -> Attributed:
    """Which doing made which changes."""
    told = {action.id: action for action in done.observed.run.trace.told}
    deltas = done.evaluated.judgement.deltas
    makers = {delta.action for delta in deltas if delta.action is not None}
    places: dict[str, tuple[str, int]] = {}
    before: Counter[str] = Counter()
    for action in told.values():
        if action.id in makers:
            source = _target(action)
            places[action.id] = (source, before[source])
            # A comment is a message and its link to the issue: by curl two requests, else one call.
            is_half = action.tool == "tracker POST" and _path(action).endswith("/rest/data/msg")
            before[source] += not is_half
    found: Attributed = {}
    for delta in deltas:
        place = None if delta.action is None else places[delta.action]
        found.setdefault(place, Counter())[_plain(delta)] += 1
    return found


def _target(action: Action) -> str:
    (source,) = {mark.source for mark in action.transactions or ()}
    return source


def _path(action: Action) -> str:
    assert isinstance(action.arguments, Map)
    return str(action.arguments.get("path"))


def _plain(delta: Delta) -> str:
    return _OWN.sub(
        "~", repr((delta.op.value, delta.type, delta.key, delta.path, delta.before, delta.after))
    )
