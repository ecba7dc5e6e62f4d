"""Binding what a contract says of the run: its steps, actions and turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from statediff.contract.binding.assertions import (
    ActionRule,
    AfterCalls,
    Always,
    AtCalls,
    Attempts,
    Gate,
    Happens,
    Occurrence,
    Order,
    Permission,
    Step,
)
from statediff.contract.binding.patterns import OPERATIONS, Path, PatternBinder
from statediff.contract.document.conduct import Actions, OnCall, Permits
from statediff.contract.document.conduct import Step as StepDocument
from statediff.contract.document.conduct import Turn as TurnDocument
from statediff.contract.document.parts import Count
from statediff.contract.language.calls import CALLS, reads_now
from statediff.contract.language.english import VERBS, phrase, quantity, words
from statediff.contract.language.kinds import suggest
from statediff.contract.language.parser import ExpressionError, parse
from statediff.contract.language.syntax import (
    ANY,
    CALL_TYPE,
    Compare,
    Const,
    FieldOf,
    Items,
    Node,
    Read,
    Type,
    footprint,
    walk,
)
from statediff.model.trace import ActionClass

_LOG = Read("trace", CALL_TYPE, "")
_CLASSES = {entry.value for entry in ActionClass if entry is not ActionClass.UNKNOWN}


@dataclass(frozen=True)
class RunBinder:
    """Binds assertions about the run with the scope, and into the problems, of `binder`."""

    binder: PatternBinder
    name: Callable[[Path, str | None], str]

    def steps(self, documents: tuple[StepDocument, ...]) -> tuple[Step, ...]:
        """Every step that could be bound."""
        bound = (self._step(index, step) for index, step in enumerate(documents))
        return tuple(step for step in bound if step is not None)

    def _step(self, index: int, step: StepDocument) -> Step | None:
        name = self.name(("steps", index), step.id)
        path: Path = ("steps", index)
        if step.effect is not None and step.before is not None:
            return self._order(name, path, step.effect, step.before)
        if step.always is not None:
            node = self._expression((*path, "always"), step.always, {}, True)
            if node is None:
                return None
            if not reads_now(node):
                self.binder.problem(
                    (*path, "always"),
                    "the condition does not read `now`, so it says nothing about the run",
                    "write now.TYPE, or a require clause",
                )
            sentence = f"At every moment of the run, {phrase(node)}."
            return Always(name, sentence, footprint(node), node, step.always)
        if step.after_every_call is not None:
            node = self._expression((*path, "after_every_call"), step.after_every_call, CALLS, True)
            if node is None:
                return None
            sentence = f"After every call, {phrase(node)}."
            reads = footprint(node) | {_LOG}
            return AfterCalls(name, sentence, reads, node, step.after_every_call)
        if step.calls is not None:
            return self._occurrence(name, path, step.calls, step.count)
        return self._at_calls(name, path, step)

    def _at_calls(self, name: str, path: Path, step: StepDocument) -> AtCalls | None:
        on = step.on if isinstance(step.on, OnCall) else OnCall(tool=step.on)
        node = self._expression((*path, "that"), step.that or "", CALLS)
        if node is None:
            return None
        which = [f"of class {on.class_}"] if on.class_ else []
        which = [f"of {words(on.tool)}", *which] if on.tool else which
        sentence = f"At every call {' and '.join(which)}, {phrase(node)}."
        action_class = None if on.class_ is None else ActionClass(on.class_)
        reads = footprint(node) | {_LOG}
        return AtCalls(name, sentence, reads, on.tool, action_class, node, step.that or "")

    def _occurrence(
        self, name: str, path: Path, text: str, count: int | Count | None
    ) -> Occurrence | None:
        node = self._expression((*path, "calls"), text, CALLS)
        if node is None:
            return None
        low, high = (count.min, count.max) if isinstance(count, Count) else (count or 0, count or 0)
        if low == 0 and high is None:
            self.binder.problem((*path, "count"), "any number of calls is no assertion")
        noun = "call is" if high == 1 else "calls are"
        sentence = f"{quantity(low, high)} {noun} such that {phrase(node)}."
        return Occurrence(name, sentence, footprint(node) | {_LOG}, node, low, high)

    def _order(self, name: str, path: Path, first: str, then: str) -> Order | None:
        kinds = [self._happens((*path, key), text) for key, text in _pair(first, then)]
        one, two = kinds
        if one is None or two is None:
            return None
        if one == two:
            self.binder.problem((*path, "before"), "an effect cannot come before itself")
        reads = {
            Read(side, kind.type, name)
            for kind in (one, two)
            for side in ("before", "after")
            for name in ("", *(f.name for f in self.binder.schema.by_name[kind.type].fields))
        }
        sentence = f"{_happening(first)} before {_happening(then, 'a')}."
        return Order(name, sentence, frozenset(reads), one, two)

    def _happens(self, path: Path, text: str) -> Happens | None:
        key, _, name = text.partition(" ")
        if name in self.binder.schema.by_name:
            return Happens(OPERATIONS[key], name)
        known = self.binder.schema.by_name
        self.binder.problem(path, f"unknown entity type `{name}`", suggest(name, known))
        return None

    # ------------------------------------------------------------ actions

    def actions(self, document: Actions | None) -> tuple[ActionRule, ...]:
        """What may be called, what may not, and how often a call may be tried."""
        if document is None:
            return ()
        rules: list[ActionRule] = []
        named = frozenset(document.allow.tools) if document.allow else frozenset[str]()
        for key, permits in (("forbid", document.forbid), ("allow", document.allow)):
            if permits is None:
                continue
            listed = _listed(permits)
            if key == "forbid":
                self._no_overlap(document)
            sentence = f"No call is {listed}." if key == "forbid" else f"Every call is {listed}."
            rules.append(
                Permission(
                    self.name(("actions", 0), f"actions-{key}"),
                    sentence,
                    frozenset({_LOG}),
                    key == "forbid",
                    frozenset(ActionClass(name) for name in permits.classes),
                    frozenset(permits.tools),
                    named if key == "forbid" else frozenset(),
                )
            )
        if document.attempts is not None:
            most = document.attempts
            repaired = f"followed by one of its tool that succeeds, within {most} attempts"
            sentence = (
                "Every call succeeds at the first attempt."
                if most == 1
                else f"Every call that fails is {repaired}."
            )
            name = self.name(("actions", 0), "actions-attempts")
            rules.append(Attempts(name, sentence, frozenset({_LOG}), most))
        return tuple(rules)

    def _no_overlap(self, document: Actions) -> None:
        if document.allow is None or document.forbid is None:
            return
        for key in ("classes", "tools"):
            both = set(getattr(document.allow, key)) & set(getattr(document.forbid, key))
            for name in sorted(both):
                self.binder.problem(
                    ("actions", "forbid", key),
                    f"`{name}` is both allowed and forbidden",
                    "forbidden wins; remove one of them",
                )

    # ------------------------------------------------------------ turns

    def turns(self, documents: tuple[TurnDocument, ...]) -> tuple[Gate, ...]:
        """The gate of every turn, in order."""
        return tuple(
            self._gate(index, turn, len(documents)) for index, turn in enumerate(documents)
        )

    def _gate(self, index: int, turn: TurnDocument, of: int) -> Gate:
        name = self.name(("turns", index), turn.id)
        conditions: list[tuple[Node, str]] = []
        variables = {"calls": CALLS["calls"], "reply": ANY}
        for at, text in enumerate(turn.then):
            node = self._expression(("turns", index, "then", at), text, variables, True)
            if node is not None:
                conditions.append((node, text))
        said = " and ".join(phrase(node) for node, _ in conditions)
        reads = frozenset({Read("trace", "turn", "")}).union(*(footprint(n) for n, _ in conditions))
        return Gate(
            name,
            f"After turn {index + 1}, {said}.",
            reads,
            index + 1,
            of,
            turn.user,
            tuple(conditions),
        )

    # ------------------------------------------------------------ expressions

    def _expression(
        self, path: Path, text: str, variables: Mapping[str, Type], has_now: bool = False
    ) -> Node | None:
        scope = replace(self.binder.scope, variables=variables, has_now=has_now)
        try:
            node = parse(text, scope)
        except ExpressionError as error:
            self.binder.problem(path, str(error), error.hint, error.offset, "expression")
            return None
        for part in walk(node):
            if isinstance(part, Compare):
                self._check_class(path, part)
        return node

    def _check_class(self, path: Path, node: Compare) -> None:
        """A class that no call can have would make the condition true or false of everything."""
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if not (isinstance(one, FieldOf) and (one.entity_type, one.field) == _CLASS_FIELD):
                continue
            values = other.items if isinstance(other, Items) else (other,)
            for value in values:
                if isinstance(value, Const) and value.value not in _CLASSES:
                    self.binder.problem(
                        path,
                        f"no call has the class {value.value!r}",
                        suggest(str(value.value), _CLASSES) or ", ".join(sorted(_CLASSES)),
                        value.offset,
                        "expression",
                    )


_CLASS_FIELD = (CALL_TYPE, "class")


def _pair(first: str, then: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("effect", first), ("before", then)


def _happening(text: str, article: str = "A") -> str:
    key, _, name = text.partition(" ")
    noun = words(name)
    return f"{article}{'n' if noun[:1] in 'aeio' else ''} {noun} is {VERBS[key]}"


def _listed(permits: Permits) -> str:
    parts = []
    if permits.classes:
        parts.append("of class " + " or ".join(permits.classes))
    if permits.tools:
        parts.append("of " + " or ".join(words(tool) for tool in permits.tools))
    return " or ".join(parts)
