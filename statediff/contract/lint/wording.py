"""Checks of what is written, before any schema: reasons, inputs, the prompt, exits.

They read plain values, so they also say something of keys this version does not know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from statediff.contract.language.kinds import ExpressionError
from statediff.contract.language.parser import well_formed
from statediff.contract.lint.subject import remark
from statediff.contract.parts import placeholders
from statediff.contract.yaml.composer import holds_an_expression, is_computed
from statediff.contract.yaml.reader import Document, NodePath
from statediff.errors import Problem

_INPUT: Final = re.compile(r"\binput\.([a-z_][a-z0-9_]*)")
_EXPRESSION: Final = re.compile(r"(?:input|it|new|answer|before|after)(?:\.[A-Za-z_]\w*)+")
"""A text that names a value as an expression does, and is nothing else."""
_HOLLOW: Final = re.compile(
    r"(?:todo|fixme|tbd|xxx|tba|n/?a|none|reason|because|see above|ditto|same|why not|\W*)[.!?…]*",
    re.IGNORECASE,
)
PLACEHOLDERS: Final = {
    "owner": "somebody",
    "intent": "Say in a sentence what the run must bring about, and that nothing else may change.",
}
"""Texts of a draft that stand where only its owner can say it."""
ONE_EXAMPLE: Final = "one of the right runs did it, and no other"
"""The reason that a draft gives for what it saw once."""
_SPOKEN: Final = ("prompt", "intent", "turns")
"""Keys whose texts name inputs between braces."""
_CALLS: Final = re.compile(r"\bin\s+calls\b")
_TURN: Final = r"\w+\.(?:at|index|number|position|sequence|started_at|finished_at)"
_ORDERED: Final = re.compile(rf"{_TURN}\s*(?:<|>)=?\s*{_TURN}")
_TOOL: Final = re.compile(r"\.tool\s*(?:==|in)")
_ANY_CALL: Final = re.compile(r"(?<!not )\bany\(.*\.tool\s*(?:==|in).*\bin\s+calls\b")


def wording(source: Document) -> Iterator[Problem]:
    """Everything about the document that needs no schema."""
    for check in (
        _reasons,
        _placeholders_left,
        _examples,
        _inputs,
        _uncomputed,
        _prompt,
        _frame,
        _order,
    ):
        yield from check(source)


def nodes(value: Any, path: NodePath = ()) -> Iterator[tuple[NodePath, Any]]:
    """Every node of the document with its path, parents first."""
    yield path, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from nodes(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from nodes(item, (*path, index))


def texts(source: Document) -> Iterator[tuple[NodePath, str]]:
    """Every expression as it was written."""
    for path, value in nodes(source.value):
        if isinstance(value, str) and path and (is_computed(path) or holds_an_expression(path)):
            yield path, value


def malformed(source: Document) -> Iterator[Problem]:
    """Each expression that is none, whatever its names mean; binding says the same and more."""
    for path, text in texts(source):
        try:
            well_formed(text)
        except ExpressionError as error:
            yield remark(source, error.code, path, str(error), error.hint, error.offset)


def _reasons(source: Document) -> Iterator[Problem]:
    for path, value in nodes(source.value):
        if not isinstance(value, str) or path[-1] not in ("because", "open"):
            continue
        if path[0] != "inputs" and _HOLLOW.fullmatch(value.strip()):
            yield remark(source, "hollow-reason", path, f"`{value.strip()[:40]}` is no reason")


def _placeholders_left(source: Document) -> Iterator[Problem]:
    if source.value.get("reviewed") is False:
        return  # it says of itself that it is a draft
    for key, placeholder in PLACEHOLDERS.items():
        value = source.value.get(key)
        if isinstance(value, str) and " ".join(value.split()) == placeholder:
            yield remark(source, "placeholder", (key,), f"`{key}` is still what the draft said")


def _examples(source: Document) -> Iterator[Problem]:
    for path, value in nodes(source.value):
        if path[-1:] == ("because",) and value == ONE_EXAMPLE:
            said = "only one example supports this clause of the draft"
            yield remark(source, "one-example", path, said)


def _inputs(source: Document) -> Iterator[Problem]:
    inputs = source.value.get("inputs")
    if not isinstance(inputs, dict):
        return
    # Anywhere in the file: a later kind of clause may hold expressions under keys of its own.
    used = {
        name
        for path, value in nodes(source.value)
        if isinstance(value, str) and path[:1] != ("inputs",)
        for name in (*_INPUT.findall(value), *(placeholders(value) if path[0] in _SPOKEN else ()))
    }
    for name in inputs:
        if name not in used:
            yield remark(source, "unused-input", ("inputs", name), f"nothing uses input `{name}`")


def _uncomputed(source: Document) -> Iterator[Problem]:
    for path, value in nodes(source.value):
        if len(path) < 2 or path[-2] not in ("set", "from") or not isinstance(value, str):
            continue
        if _EXPRESSION.fullmatch(value.strip()):
            yield remark(
                source,
                "text-not-expression",
                path,
                f"`{value.strip()}` is a text here, and nothing computes it",
                f"write `{path[-1]}: {{is: {value.strip()}}}`",
            )


def _prompt(source: Document) -> Iterator[Problem]:
    known = source.value.get("inputs")
    names = tuple(known) if isinstance(known, dict) else ()
    told = "prompt" if "prompt" in source.value else "intent"
    spoken = (
        (path, value)
        for path, value in nodes(source.value.get("turns"), ("turns",))
        if path[-1] == "prompt"
    )
    # Where the user speaks by turns, no agent is given the intent.
    whole = (
        ()
        if "turns" in source.value and told == "intent"
        else nodes(source.value.get(told), (told,))
    )
    for path, value in (*whole, *spoken):
        for name in placeholders(value) if isinstance(value, str) else ():
            if name not in names:
                yield remark(
                    source,
                    "prompt-unknown-input",
                    path,
                    f"the agent would be given `{{{name}}}` as it is; no input is called so",
                    f"add `{name}:` under `inputs`, or double the braces: `{{{{{name}}}}}`",
                )


def _frame(source: Document) -> Iterator[Problem]:
    frame = source.value.get("frame")
    if isinstance(frame, dict) and source.value.get("sandbox") is not None:
        yield remark(
            source,
            "open-frame",
            ("frame", "open"),
            f"the sandbox {source.value['sandbox']} is reset for every trial and used by nobody "
            "else, yet changes that no clause names are not judged",
        )


def _order(source: Document) -> Iterator[Problem]:
    for path, text in texts(source):
        # Read before write is an invariant; this tool before that one is a path.
        names_tools = len(_CALLS.findall(text)) > 1 and len(_TOOL.findall(text)) > 1
        if names_tools and (found := _ORDERED.search(text)):
            yield remark(
                source,
                "prescribed-order",
                path,
                f"`{found[0]}` prescribes the order of two calls; another order may be as right",
                offset=found.start(),
            )
    steps = source.value.get("steps")
    for index, step in enumerate(steps if isinstance(steps, list) else ()):
        that = step.get("that") if isinstance(step, dict) else None
        on = step.get("on") if isinstance(step, dict) else None
        tool = on.get("tool") if isinstance(on, dict) else on
        if isinstance(tool, str) and isinstance(that, str) and (found := _ANY_CALL.search(that)):
            yield remark(
                source,
                "prescribed-order",
                ("steps", index, "that"),
                f"`{tool}` is right only after a call of another tool, whatever the state says",
                offset=found.start(),
            )
