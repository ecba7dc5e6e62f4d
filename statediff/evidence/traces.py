"""The JSON of a trace, and back: every call with its values tagged and exact, and the turns."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from statediff.errors import InputError
from statediff.evidence.canonical import write
from statediff.evidence.documents import answer_document, answer_from, instant_or_none
from statediff.model.trace import Action, ActionClass, Excerpt, Mark, Trace, Turn
from statediff.model.values import Map, Unobserved, decode, encode

Json = Any


def action_document(action: Action) -> Json:
    """The JSON of an action; what nobody recorded of it has no member."""
    known: dict[str, Json] = {}
    if action.effects is not None:
        known["effects"] = list(action.effects)
    if action.parent is not None:
        known["parent"] = action.parent
    if action.transactions is not None:
        known["transactions"] = [[mark.source, mark.name] for mark in action.transactions]
    for name, excerpt in (("context", action.context), ("messages", action.messages)):
        if excerpt is not None:
            known[name] = [excerpt.digest, str(excerpt.characters), excerpt.beginning]
    return {
        **known,
        "id": action.id,
        "tool": action.tool,
        "class": action.action_class.value,
        "arguments": encode(action.arguments),
        "result": encode(action.result),
        "error": action.error,
        "principal": action.principal,
        "attempt": action.attempt,
        "started_at": encode(action.started_at),
        "finished_at": encode(action.finished_at),
    }


def trace_document(trace: Trace) -> Json:
    """The JSON of a trace."""
    return {
        "is_complete": trace.is_complete,
        "cause": trace.cause,
        "is_agent_influenced": trace.is_agent_influenced,
        "actions": [action_document(a) for a in trace.actions],
        "turns": None if trace.turns is None else [_turn_document(t) for t in trace.turns],
        **({"observed": [action_document(a) for a in trace.observed]} if trace.observed else {}),
    }


def trace_lines(trace: Trace) -> bytes:
    """The trace as a trial keeps it: a line on the whole, then one a call."""
    document = trace_document(trace)
    head = {key: value for key, value in document.items() if key != "actions"}
    return b"".join(write(line) + b"\n" for line in (head, *document["actions"]))


def _turn_document(turn: Turn) -> Json:
    return {
        "message": turn.message,
        "calls_before": turn.calls_before,
        "reply": answer_document(turn.reply),
        **(
            {}
            if turn.gate is None
            else {"gate": turn.gate, "attempt": turn.attempt, "left": [list(e) for e in turn.left]}
        ),
    }


def _turn_from(document: Json) -> Turn:
    turn = Turn(document["message"], document["calls_before"], answer_from(document["reply"]))
    if "gate" not in document:
        return turn
    left = tuple((source, number) for source, number in document["left"])
    return replace(turn, gate=document["gate"], attempt=document["attempt"], left=left)


def trace_from(document: Json) -> Trace:
    """What `trace_document` turned into this JSON."""
    actions = tuple(_action_from(entry) for entry in document["actions"])
    turns = document["turns"]
    if any(not 0 <= turn["calls_before"] <= len(actions) for turn in turns or ()):
        raise InputError(f"a turn begins after more than the {len(actions)} calls of the trace")
    return Trace(
        actions,
        document["is_complete"],
        document["cause"],
        document["is_agent_influenced"],
        None if turns is None else tuple(map(_turn_from, turns)),
        tuple(_action_from(entry) for entry in document.get("observed", ())),
    )


def _action_from(document: Json) -> Action:
    arguments = decode(document["arguments"])
    if not isinstance(arguments, (Map, Unobserved)):
        raise InputError(f"not the arguments of a call: {str(document['arguments'])[:80]}")
    return Action(
        document["id"],
        document["tool"],
        action_class=ActionClass(document["class"]),
        arguments=arguments,
        result=decode(document["result"]),  # type: ignore[arg-type]  # a result is a value
        error=document["error"],
        principal=document["principal"],
        attempt=document["attempt"],
        started_at=instant_or_none(document["started_at"]),
        finished_at=instant_or_none(document["finished_at"]),
        effects=tuple(document["effects"]) if "effects" in document else None,
        parent=document.get("parent"),
        transactions=tuple(Mark(source, name) for source, name in document["transactions"])
        if "transactions" in document
        else None,
        context=_excerpt_from(document.get("context")),
        messages=_excerpt_from(document.get("messages")),
    )


def _excerpt_from(document: Json) -> Excerpt | None:
    if document is None:
        return None
    digest, characters, beginning = document
    if not (isinstance(characters, str) and re.fullmatch("[0-9]{1,20}", characters)):
        raise InputError(f"not how long a text is: {str(characters)[:80]}")
    return Excerpt(digest, int(characters), beginning)
