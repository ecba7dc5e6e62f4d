"""`steps`, `actions` and `turns`: what must hold of the run itself.

Steps are invariants and transition assertions, never a prescribed path [STA].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, model_validator

from statediff.contract.clauses.kind import OPERATIONS, Binder, ClauseKind, JudgedAs, Path
from statediff.contract.language.calls import CALLS, reads_now
from statediff.contract.language.english import VERBS, a, condition, quantity, words
from statediff.contract.language.kinds import suggest
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
from statediff.contract.parts import Count, Expression, Happening, Identifier, Part, Reason
from statediff.model.delta import Op
from statediff.model.trace import ActionClass

# ---------------------------------------------------------------- as written

Tool = Annotated[
    str, Field(min_length=1, max_length=200, description="the name of a tool, as the trace has it")
]
ActionClassName = Literal[
    "read",
    "reversible-update",
    "conditional-update",
    "irreversible-deletion",
    "permission-change",
    "schema-change",
    "notification",
    "unknown",
]
Classes = Annotated[tuple[ActionClassName, ...], Field(description="a list of classes of action")]
FORMS = ("always", "on", "where")


class OnCall(Part):
    """The calls that a step is about: of a tool, of some classes, or both."""

    tool: Tool | None = None
    classes: Classes = ()

    @model_validator(mode="after")
    def _names_something(self) -> OnCall:
        if not (self.tool or self.classes):
            raise ValueError("needs `tool`, `classes` or both")
        return self


class Step(Part):
    """One assertion along the run, in one form: `always`, `on` or `where`."""

    id: Identifier | None = None
    always: Annotated[
        Expression | None, Field(description="a condition over `now`, in every state of the run")
    ] = None
    during: Annotated[
        Literal["calls"] | None,
        Field(
            description="`calls`: `always` is asked of the state that each call left, and is over "
            "`call` and `calls` too"
        ),
    ] = None
    on: Annotated[
        Tool | OnCall | None, Field(description="a tool, or a mapping; with `before` an effect")
    ] = None
    that: Annotated[
        Expression | None,
        Field(description="what holds at each such call: a condition over `call` and `calls`"),
    ] = None
    before: Happening | None = None
    where: Annotated[
        Expression | None, Field(description="a condition that says which calls are counted")
    ] = None
    count: Annotated[
        Annotated[int, Field(ge=0)] | Count | None,
        Field(description="a whole number of at least 0, or a mapping of min and max"),
    ] = None
    because: Reason | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Step:
        named = [form for form in FORMS if getattr(self, form) is not None]
        if len(named) > 1:
            raise ValueError(f"names both {named[0]} and {named[1]}; a step has one form")
        if not named:
            raise ValueError(f"needs one of {', '.join(FORMS)}")
        for form, partners in (("on", ("that", "before")), ("where", ("count",))):
            given = [name for name in partners if getattr(self, name) is not None]
            if form in named and len(given) != 1:
                raise ValueError(f"`{form}` needs `{'` or `'.join(partners)}`")
            if given and form not in named:
                raise ValueError(f"`{given[0]}` belongs to `{form}`")
        if self.before is not None and str(self.on).partition(" ")[0] not in OPERATIONS:
            raise ValueError("`on` beside `before` is an operation and a type: `create refund`")
        if self.during is not None and self.always is None:
            raise ValueError("`during` belongs to `always`")
        return self


class Permits(Part):
    """Calls by the class of their effect, by the name of their tool."""

    classes: Classes = ()
    tool: Annotated[tuple[Tool, ...], Field(description="a list of tools")] = ()

    @model_validator(mode="after")
    def _names_something(self) -> Permits:
        if not (self.classes or self.tool):
            raise ValueError("needs `classes`, `tool` or both")
        return self


class Actions(Part):
    """Which calls the agent may make, and how often it may try one until it is right."""

    allow: Annotated[
        Permits | None, Field(description="a mapping of classes and tool; no call may be outside")
    ] = None
    forbid: Annotated[
        Permits | None, Field(description="a mapping of classes and tool; no call may be inside")
    ] = None
    over: Annotated[
        Literal["recorded"] | None,
        Field(
            description="`recorded`: `allow` and `forbid` judge what the log says, and no more; "
            "default: every call, so that an incomplete log leaves them undecided"
        ),
    ] = None
    count: Annotated[
        int | None,
        Field(ge=1, description="within how many attempts a call must succeed, a number from 1"),
    ] = None

    @model_validator(mode="after")
    def _says_something(self) -> Actions:
        if self.allow is None and self.forbid is None and self.count is None:
            raise ValueError("needs `allow`, `forbid` or `count`")
        return self


Message = Annotated[str, Field(min_length=1, max_length=20000, description="what the user says")]


class ReplyRule(Part):
    """The user's words to a reply of the agent, in the turn at hand, where a condition holds.

    Without a condition it is a repair: it is said where what the turn requires fails.
    """

    on: Annotated[
        Expression | None,
        Field(description="a condition over `now`, `calls` and the agent's `reply`"),
    ] = None
    prompt: Message
    count: Annotated[
        int, Field(ge=1, le=20, description="how often in the turn at most, a number from 1 to 20")
    ] = 1


class Turn(Part):
    """One message of the user, and the predicates that hold once the agent is done with it."""

    id: Identifier | None = None
    prompt: Message
    replies: Annotated[
        tuple[ReplyRule, ...],
        Field(max_length=50, description="a list of what the user says to replies, and when"),
    ] = ()
    require: Annotated[
        tuple[Expression, ...],
        Field(min_length=1, description="a list of conditions over `now`, `calls` and `reply`"),
    ]

    @model_validator(mode="after")
    def _repairs_last(self) -> Turn:
        if any(rule.on is None for rule in self.replies[:-1]):
            raise ValueError("a reply without `on` is said where all others are not: it is last")
        return self

    @property
    def repair(self) -> ReplyRule | None:
        """The user's words where the gate fails."""
        return next((rule for rule in self.replies if rule.on is None), None)


# ---------------------------------------------------------------- as bound


@dataclass(frozen=True)
class Asserted:
    """The common part of every assertion about the run."""

    id: str
    sentence: str
    reads: frozenset[Read]

    @property
    def states_read(self) -> frozenset[str]:
        """The types of the world that it reads."""
        return frozenset(r.type for r in self.reads if r.root in ("before", "after") and r.type)


@dataclass(frozen=True)
class Always(Asserted):
    """A condition over `now` in every state of the run, the ends included."""

    node: Node
    text: str


@dataclass(frozen=True)
class AtCalls(Asserted):
    """A condition at every call of a tool, of some classes, or both; no classes are all."""

    tool: str | None
    classes: frozenset[ActionClass]
    node: Node
    text: str


@dataclass(frozen=True)
class AfterCalls(Asserted):
    """A condition over the state that each call left."""

    node: Node
    text: str


@dataclass(frozen=True)
class Happens:
    """A kind of effect on the world."""

    operations: frozenset[Op]
    type: str


@dataclass(frozen=True)
class Order(Asserted):
    """No `then` unless a `first` came before it, or with it in one commit."""

    first: Happens
    then: Happens


@dataclass(frozen=True)
class Occurrence(Asserted):
    """How many calls satisfy a condition; `high` None means unbounded."""

    node: Node
    low: int
    high: int | None


@dataclass(frozen=True)
class Permission(Asserted):
    """The calls that are allowed, or (with `forbids`) the calls that are not.

    `excepted` are tools allowed by name, of which a forbidden class need not be known.
    """

    forbids: bool
    classes: frozenset[ActionClass]
    tools: frozenset[str]
    excepted: frozenset[str] = frozenset()
    recorded_only: bool = False
    """True if it is about what the log says, so that what the log may lack decides nothing."""


@dataclass(frozen=True)
class Attempts(Asserted):
    """Within how many attempts a call that failed must have succeeded."""

    most: int


@dataclass(frozen=True)
class Gate(Asserted):
    """One turn, by its number from 1, with the (condition, text) pairs that hold after it."""

    number: int
    of: int
    """How many turns the contract has."""
    message: str
    conditions: tuple[tuple[Node, str], ...]
    replies: tuple[tuple[Gate, ReplyRule], ...] = ()
    """The user's words to a reply where another gate, that of the rule's condition, holds."""
    repairs: int = 0
    """How often the user asks again where it fails, with `repair`."""
    repair: str = ""


BoundStep: TypeAlias = Always | AtCalls | AfterCalls | Order | Occurrence
ActionRule: TypeAlias = Permission | Attempts

# ---------------------------------------------------------------- binding

_LOG: Final = Read("trace", CALL_TYPE, "")
_CLASS_FIELD: Final = (CALL_TYPE, "class")
_CLASSES: Final = {entry.value for entry in ActionClass if entry is not ActionClass.UNKNOWN}


@dataclass(frozen=True)
class _RunBinder:
    """Binds assertions about the run with the scope, and into the problems, of `binder`."""

    binder: Binder

    def steps(self, documents: tuple[Step, ...]) -> tuple[BoundStep, ...]:
        """Every step that could be bound."""
        bound = (self._step(index, step) for index, step in enumerate(documents))
        return tuple(step for step in bound if step is not None)

    def _step(self, index: int, step: Step) -> BoundStep | None:
        name = self.binder.name(("steps", index), step.id)
        path: Path = ("steps", index)
        if isinstance(step.on, str) and step.before is not None:
            return self._order(name, path, step.on, step.before)
        if step.always is not None:
            is_at_calls = step.during is not None
            node = self._expression(
                (*path, "always"), step.always, CALLS if is_at_calls else {}, True
            )
            if node is None:
                return None
            if is_at_calls:
                sentence = f"After every call, {condition(node)}."
                reads = footprint(node) | {_LOG}
                return AfterCalls(name, sentence, reads, node, step.always)
            if not reads_now(node):
                self.binder.problem(
                    (*path, "always"),
                    "the condition does not read `now`, so it says nothing about the run",
                    "write now.TYPE, or a require clause",
                )
            sentence = f"At every moment of the run, {condition(node)}."
            return Always(name, sentence, footprint(node), node, step.always)
        if step.where is not None:
            return self._occurrence(name, path, step.where, step.count)
        return self._at_calls(name, path, step)

    def _at_calls(self, name: str, path: Path, step: Step) -> AtCalls | None:
        on = step.on if isinstance(step.on, OnCall) else OnCall(tool=step.on)
        node = self._expression((*path, "that"), step.that or "", CALLS)
        if node is None:
            return None
        which = [f"of class {' or '.join(on.classes)}"] if on.classes else []
        which = [f"of {words(on.tool)}", *which] if on.tool else which
        sentence = f"At every call {' and '.join(which)}, {condition(node)}."
        classes = frozenset(map(ActionClass, on.classes))
        reads = footprint(node) | {_LOG}
        return AtCalls(name, sentence, reads, on.tool, classes, node, step.that or "")

    def _occurrence(
        self, name: str, path: Path, text: str, count: int | Count | None
    ) -> Occurrence | None:
        node = self._expression((*path, "where"), text, CALLS)
        if node is None:
            return None
        low, high = (count.min, count.max) if isinstance(count, Count) else (count or 0, count or 0)
        if low == 0 and high is None:
            self.binder.problem((*path, "count"), "any number of calls is no assertion")
        noun = "call is" if high == 1 else "calls are"
        sentence = f"{quantity(low, high)} {noun} such that {condition(node)}."
        return Occurrence(name, sentence, footprint(node) | {_LOG}, node, low, high)

    def _order(self, name: str, path: Path, first: str, then: str) -> Order | None:
        one, two = self._happens((*path, "on"), first), self._happens((*path, "before"), then)
        if one is None or two is None:
            return None
        if one == two:
            self.binder.problem((*path, "before"), "an effect cannot come before itself")
        reads = {
            Read(side, kind.type, name)
            for kind in (one, two)
            for side in ("before", "after")
            for name in ("", *(f.name for f in self.binder.scope.schema.by_name[kind.type].fields))
        }
        sentence = f"{_happening(first)} before {_happening(then, 'a')}."
        return Order(name, sentence, frozenset(reads), one, two)

    def _happens(self, path: Path, text: str) -> Happens | None:
        key, _, name = text.partition(" ")
        entity = self.binder.entity(path, name)
        return None if entity is None else Happens(OPERATIONS[key], name)

    # ------------------------------------------------------------ actions

    def actions(self, document: Actions | None) -> tuple[ActionRule, ...]:
        """The calls that may be made, those that may not, and how often a call may be tried."""
        if document is None:
            return ()
        rules: list[ActionRule] = []
        excepted = frozenset(document.allow.tool) if document.allow else frozenset[str]()
        for key, permits in (("forbid", document.forbid), ("allow", document.allow)):
            if permits is None:
                continue
            listed = _calls_of(permits)
            if key == "forbid":
                self._no_overlap(document)
            sentence = f"No call is {listed}." if key == "forbid" else f"Every call is {listed}."
            if document.over is not None:
                named = ", ".join((*permits.classes, *map(words, permits.tool)))
                sentence = f"{'None of' if key == 'forbid' else 'Only'} these calls: {named}."
            rules.append(
                Permission(
                    self.binder.name(("actions", 0), f"actions-{key}"),
                    sentence,
                    frozenset({_LOG}),
                    key == "forbid",
                    frozenset(ActionClass(name) for name in permits.classes),
                    frozenset(permits.tool),
                    excepted if key == "forbid" else frozenset(),
                    document.over is not None,
                )
            )
        if document.count is not None:
            most = document.count
            repaired = f"followed by one of its tool that succeeds, within {most} attempts"
            sentence = (
                "Every call succeeds at the first attempt."
                if most == 1
                else f"Every call that fails is {repaired}."
            )
            name = self.binder.name(("actions", 0), "actions-attempts")
            rules.append(Attempts(name, sentence, frozenset({_LOG}), most))
        return tuple(rules)

    def _no_overlap(self, document: Actions) -> None:
        if document.allow is None or document.forbid is None:
            return
        for key in ("classes", "tool"):
            both = set(getattr(document.allow, key)) & set(getattr(document.forbid, key))
            for name in sorted(both):
                self.binder.problem(
                    ("actions", "forbid", key),
                    f"`{name}` is both allowed and forbidden",
                    "forbidden wins; remove one of them",
                )

    # ------------------------------------------------------------ turns

    def turns(self, documents: tuple[Turn, ...]) -> tuple[Gate, ...]:
        """The gate of every turn, in order."""
        return tuple(
            self._gate(index, turn, len(documents)) for index, turn in enumerate(documents)
        )

    def _gate(self, index: int, turn: Turn, of: int) -> Gate:
        path: Path = ("turns", index)
        name = self.binder.name(path, turn.id)
        places = {(*path, "require", at): text for at, text in enumerate(turn.require)}
        gate = self._conditions(name, index, of, turn.prompt, places)
        rules = []
        for at, rule in enumerate(turn.replies):
            if rule.on is None:
                continue
            place = (*path, "replies", at, "on")
            of_rule = f"{name}/replies-{at + 1}"
            rules.append(
                (self._conditions(of_rule, index, of, turn.prompt, {place: rule.on}), rule)
            )
        gate = replace(gate, replies=tuple(rules))
        if turn.repair is None:
            return gate
        most = turn.repair.count
        window = f" or after {'one repair' if most == 1 else f'at most {most} repairs'}"
        sentence = f"After turn {index + 1}{window}, {gate.sentence.partition(', ')[2]}"
        return replace(gate, sentence=sentence, repairs=most, repair=turn.repair.prompt)

    def _conditions(
        self, name: str, index: int, of: int, message: str, places: Mapping[Path, str]
    ) -> Gate:
        variables = {"calls": CALLS["calls"], "turns": CALLS["turns"], "reply": ANY}
        conditions: list[tuple[Node, str]] = []
        for path, text in places.items():
            node = self._expression(path, text, variables, True)
            if node is not None and any(read.root == "run" for read in footprint(node)):
                self.binder.problem(path, "a turn is judged before the run ends", "use `require`")
            elif node is not None:
                conditions.append((node, text))
        said = " and ".join(condition(node) for node, _ in conditions)
        reads = frozenset({Read("trace", "turn", "")}).union(*(footprint(n) for n, _ in conditions))
        sentence = f"After turn {index + 1}, {said}."
        return Gate(name, sentence, reads, index + 1, of, message, tuple(conditions))

    # ------------------------------------------------------------ expressions

    def _expression(
        self, path: Path, text: str, variables: Mapping[str, Type], has_now: bool = False
    ) -> Node | None:
        node = self.binder.expression(path, text, variables, has_now=has_now)
        for part in walk(node) if node is not None else ():
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


def _happening(text: str, article: str = "A") -> str:
    key, _, name = text.partition(" ")
    noun = words(name)
    said = a(noun) if article in "Aa" else f"{article} {noun}"
    return f"{article[:1]}{said[1:]} is {VERBS[key]}"


def _calls_of(permits: Permits) -> str:
    parts = []
    if permits.classes:
        parts.append("of class " + " or ".join(permits.classes))
    if permits.tool:
        parts.append("of " + " or ".join(words(tool) for tool in permits.tool))
    return " or ".join(parts)


# ---------------------------------------------------------------- the kinds


STEPS: Final = ClauseKind(
    name="steps",
    sections=("steps",),
    judged=JudgedAs.STEP,
    bind=lambda binder, written: _RunBinder(binder).steps(written),
    keys=(
        *("id", "on", "always", "during", "where", "before"),
        *("count", "min", "max", "that"),
    ),
    heading="Along the run",
    listed=("steps",),
    attributes={"node": "that"},
)
ACTIONS: Final = ClauseKind(
    name="actions",
    sections=("actions",),
    judged=JudgedAs.ACTION,
    bind=lambda binder, written: _RunBinder(binder).actions(written),
    keys=("forbid", "allow"),
    heading="Permitted calls",
    places={
        "actions-forbid": ("actions", "forbid"),
        "actions-allow": ("actions", "allow"),
        "actions-attempts": ("actions", "count"),
    },
    must_hold=False,
)
TURNS: Final = ClauseKind(
    name="turns",
    sections=("turns",),
    judged=JudgedAs.TURN,
    bind=lambda binder, written: _RunBinder(binder).turns(written),
    keys=("id", "on", "prompt", "count", "replies", "require"),
    heading="After each message",
    listed=("turns",),
    attributes={"conditions": "require"},
)
