"""`access`: what the agent may read, for whom and as of when, and what must have been read.

Everything fails closed [GE §3.1]: what no role grants is not seen, what has no time did not exist
yet, and a call that nobody can tie to artifacts leaves open what was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from pydantic import Field, model_validator

from statediff.contract.clauses.conduct import Tool
from statediff.contract.clauses.kind import Binder, ClauseKind, JudgedAs, Path
from statediff.contract.clauses.visibility import (
    ACCESS,
    CITATIONS,
    KEY_KINDS,
    BoundAccess,
    Citing,
    Holding,
    Needed,
    ReadBy,
    Search,
    Shelf,
)
from statediff.contract.language.english import condition, words
from statediff.contract.language.kinds import describe, suggest
from statediff.contract.language.syntax import (
    CALL_TYPE,
    EntityT,
    Node,
    Read,
    ScalarT,
    Type,
    footprint,
)
from statediff.contract.parts import Expression, Identifier, Part, Reason, TypeName
from statediff.model.schema import EntityType, Kind

# ---------------------------------------------------------------- as written

Person = Annotated[
    str, Field(min_length=1, max_length=200, description="a name of at most 200 characters")
]
CallPath = Annotated[
    str,
    Field(
        pattern=r"^(arguments|result)(\[\])?(\.[A-Za-z_][A-Za-z0-9_]*(\[\])?)*$",
        max_length=200,
        description="a path in a call, e.g. arguments.issue or result.issues[].issue",
    ),
]


class Subsystem(Part):
    """The entities that lie in one subsystem, and when each came to be."""

    type: TypeName
    where: Annotated[
        Expression | None, Field(description="a condition over `it`: which of them lie there")
    ] = None
    at: Annotated[
        Expression | tuple[Expression, ...] | None,
        Field(
            description="the instant at which `it` came to be, e.g. it.sent_at, or a list of those "
            "that must have come, empty (with `because`) where it was always there"
        ),
    ] = None
    because: Reason | None = None
    authorized_by: Annotated[
        Expression | None,
        Field(description="a condition over `it` that grants reading it beside `allow`"),
    ] = None

    @model_validator(mode="after")
    def _says_why_always(self) -> Subsystem:
        if (self.at == ()) != (self.because is not None):
            raise ValueError("`at: []` needs `because`, the reason why all was always there")
        return self


class Place(Part):
    """Artifacts of a subsystem: all, or those that satisfy a condition."""

    in_: Annotated[Identifier, Field(alias="in", description="the name of a subsystem")]
    where: Annotated[Expression | None, Field(description="a condition over `it`")] = None


class ToRead(Part):
    """Evidence that an answer must rest on: fetched and, where asked for, cited.

    With several places under `in` it is what must have been looked at before something is denied.
    """

    id: Identifier | None = None
    on: Annotated[
        Expression | None, Field(description="a condition over `answer`; else it is always needed")
    ] = None
    in_: Annotated[
        Identifier | Annotated[tuple[Place, ...], Field(min_length=1)],
        Field(alias="in", description="a subsystem, or a list of places to look through"),
    ]
    where: Annotated[Expression | None, Field(description="a condition over `it`")] = None
    count: Annotated[
        int | None,
        Field(ge=1, description="how many suffice, from 1; all of them where it is left out"),
    ] = None
    cite: Annotated[bool, Field(description="true if each must be cited too")] = False
    because: Reason | None = None

    @model_validator(mode="after")
    def _of_one_place(self) -> ToRead:
        if isinstance(self.in_, tuple) and (self.where or self.count or self.cite):
            raise ValueError("`where`, `count` and `cite` are for evidence `in` one subsystem")
        return self


class Reader(Part):
    """Another tool: which artifacts a call of it reads, or why it shows nothing of any.

    A call delivers what its arguments name; what its result lists was found, and not read.
    """

    tool: Tool
    in_: Annotated[Identifier | None, Field(alias="in", description="the name of a subsystem")] = (
        None
    )
    at: CallPath | None = None
    because: Reason | None = None

    @property
    def finds(self) -> bool:
        """True if a call names artifacts and delivers none."""
        return self.at is not None and self.at.startswith("result")

    @model_validator(mode="after")
    def _one_kind(self) -> Reader:
        if (self.in_ is None) != (self.at is None) or (self.in_ is None) == (self.because is None):
            raise ValueError("needs `in` and `at` or, where it shows nothing, `because`")
        return self


class Access(Part):
    """For whom the agent acts, what may be read then, and what must have been."""

    actor: Person
    at: Annotated[
        str | None,
        Field(
            max_length=40,
            description="an instant with its zone, or a day; where left out, the run's begin",
        ),
    ] = None
    allow: Annotated[
        tuple[Identifier, ...], Field(description="a list of subsystems that the actor may read")
    ]
    subsystems: Annotated[
        dict[Identifier, Subsystem],
        Field(min_length=1, description="a mapping of subsystems to what lies in them"),
    ]
    evidence: Annotated[
        tuple[ToRead, ...],
        Field(description="a list of evidence to retrieve, and of places to search before denying"),
    ] = ()
    cite: Annotated[
        str | None, Field(description="the name in the answer under which it lists its sources")
    ] = None
    actions: Annotated[
        tuple[Reader, ...],
        Field(description="a list of other tools that read, and what, or why they show nothing"),
    ] = ()


# ---------------------------------------------------------------- binding

_LOG: Final = Read("trace", CALL_TYPE, "")
_DAY: Final = len("2026-03-05")


@dataclass(frozen=True)
class _AccessBinder:
    """Binds `access:` with the scope, and into the problems, of `binder`."""

    binder: Binder

    def bound(self, document: Access) -> BoundAccess | None:
        """The section over the schema; None where it has problems."""
        as_of = self._as_of(document)
        holdings = tuple(
            held
            for name, subsystem in document.subsystems.items()
            if (held := self._holding(name, subsystem, document)) is not None
        )
        if len(holdings) < len(document.subsystems):
            return None
        known = {held.name: held for held in holdings}
        clauses = [self._evidence(i, each, known) for i, each in enumerate(document.evidence)]
        self._check_citations(document)
        readers = tuple(self._reader(i, r, known) for i, r in enumerate(document.actions))
        seen = document.allow
        what = " and ".join(words(name) for name in known if name in seen) or "nothing at all"
        until = "" if as_of is None else f", as of {as_of.isoformat().replace('+00:00', 'Z')}"
        return BoundAccess(
            id=ACCESS,
            sentence=f"For {document.actor} the agent reads {what}{until}, and nothing else.",
            reads=frozenset({_LOG}).union(*(held.footprint for held in holdings)),
            actor=document.actor,
            as_of=as_of,
            allowed=document.allow,
            holdings=holdings,
            searches=tuple(each for each in clauses if isinstance(each, Search)),
            needed=tuple(each for each in clauses if isinstance(each, Needed)),
            citing=self._citing(document),
            readers=tuple(each for each in readers if each is not None),
            aside=frozenset(each.tool for each in document.actions if each.in_ is None),
        )

    def _as_of(self, document: Access) -> datetime | None:
        text = document.at
        if text is None:
            return None
        try:
            read = datetime.fromisoformat(text)
        except ValueError:
            read = None
        if read is not None and len(text) == _DAY:
            # `as of March 5` includes that day.
            return read.replace(tzinfo=UTC) + timedelta(days=1, microseconds=-1)
        if read is None or read.tzinfo is None:
            self.binder.problem(
                (ACCESS, "at"),
                f"expected an instant with its zone, or a day, found {text!r}",
                "write e.g. 2026-03-05T09:00:00Z, or 2026-03-05 for the end of that day in UTC",
            )
            return None
        return read.astimezone(UTC)

    def _holding(self, name: str, document: Subsystem, whole: Access) -> Holding | None:
        path: Path = (ACCESS, "subsystems", name)
        before = len(self.binder.problems)
        entities, _ = self.binder.types(path, "type", (document.type,))
        if not entities:
            return None
        entity = entities[0]
        kinds = tuple(entity.by_name[field].kind for field in entity.key)
        if not kinds or any(kind not in KEY_KINDS for kind in kinds):
            self.binder.problem(
                (*path, "type"),
                f"{entity.name} has no key of texts or whole numbers, so nothing could cite it",
                "declare its key in the state schema",
            )
        if whole.at is not None and document.at is None:
            self.binder.problem(
                path,
                f"when does what lies in `{name}` come to be? `access: at:` needs to know",
                "write `at: it.FIELD`, or `at: []` and `because` if it was always there",
            )
        variables: dict[str, Type] = {"it": EntityT(entity.name)}
        nodes = {
            key: self.binder.expression((*path, key), getattr(document, key), variables)
            for key in ("where", "authorized_by")
        }
        texts = (document.at,) if isinstance(document.at, str) else document.at or ()
        listed = tuple(self._instant((*path, "at"), text, variables) for text in texts)
        times = tuple(node for node in listed if node is not None)
        if len(self.binder.problems) > before:
            return None
        return Holding(
            name=name,
            type=entity.name,
            key_kinds=kinds,
            where=nodes["where"],
            times=times,
            authorized_by=nodes["authorized_by"],
            footprint=_reads(entity, *nodes.values(), *times),
        )

    def _instant(self, path: Path, text: str, variables: Mapping[str, Type]) -> Node | None:
        node = self.binder.expression(path, text, variables, boolean=False)
        if node is None or node.type == ScalarT(Kind.TIMESTAMP):
            return node
        zoneless = node.type == ScalarT(Kind.LOCAL_TIMESTAMP)
        self.binder.problem(
            path,
            f"expected an instant, found {describe(node.type)}",
            "declare the field's zone in the state schema"
            if zoneless
            else "declare the field as `timestamp` in the state schema",
        )
        return None

    def _shelf(
        self, path: Path, name: str, where: str | None, known: Mapping[str, Holding]
    ) -> Shelf | None:
        held = known.get(name)
        if held is None:
            self._no_subsystem((*path, "in"), name, known)
            return None
        entity = self.binder.scope.schema.by_name[held.type]
        node = self.binder.expression((*path, "where"), where, {"it": EntityT(held.type)})
        if where is not None and node is None:
            return None
        return Shelf(name, node, held.footprint | _reads(entity, node))

    def _no_subsystem(self, path: Path, name: str, known: Mapping[str, Holding]) -> None:
        hint = suggest(name, known)
        self.binder.problem(path, f"there is no subsystem `{name}`", hint, code="unknown-name")

    def _evidence(
        self, index: int, document: ToRead, known: Mapping[str, Holding]
    ) -> Search | Needed | None:
        path: Path = (ACCESS, "evidence", index)
        name = self.binder.name(path, document.id)
        when = self.binder.expression((*path, "on"), document.on, {})
        if isinstance(document.in_, str):
            found = [self._shelf(path, document.in_, document.where, known)]
        else:
            places = enumerate(document.in_)
            found = [self._shelf((*path, "in", i), p.in_, p.where, known) for i, p in places]
        shelves = tuple(shelf for shelf in found if shelf is not None)
        if len(shelves) < len(found) or (document.on is not None and when is None):
            return None
        asked = frozenset[Read]() if when is None else footprint(when)
        reads = asked.union({_LOG}, *(shelf.footprint for shelf in shelves))
        if not isinstance(document.in_, str):
            said = " and ".join(self._artifacts(shelf, "every") for shelf in shelves)
            said = _with_condition(when, f"{said} has been looked at.")
            return Search(name, said, reads, when, shelves)
        few = "every" if document.count is None else f"at least {document.count}"
        done = "fetched and cited" if document.cite else "fetched"
        said = _with_condition(when, f"{self._artifacts(shelves[0], few)} is {done}.")
        return Needed(name, said, reads, when, shelves[0], document.count, document.cite)

    def _artifacts(self, shelf: Shelf, quantity: str) -> str:
        such = "" if shelf.where is None else f" such that {condition(shelf.where)}"
        return f"{quantity} artifact of {words(shelf.subsystem)}{such}"

    def _citing(self, document: Access) -> Citing | None:
        if document.cite is None:
            return None
        self.binder.name((ACCESS, CITATIONS), CITATIONS)
        reads = frozenset({_LOG, Read("answer", "", document.cite)})
        said = f"Whatever the answer lists as its {words(document.cite)} was fetched, validly."
        return Citing(CITATIONS, said, reads, document.cite)

    def _check_citations(self, document: Access) -> None:
        name = document.cite
        if name is None:
            cited = [i for i, e in enumerate(document.evidence) if e.cite]
            for index in cited[:1]:
                self.binder.problem(
                    (ACCESS, "evidence", index, "cite"),
                    "nobody says where the answer lists its sources",
                    "write `cite: NAME` with the name of a list in `answer: schema:`",
                )
        elif self.binder.scope.answer.get(name) not in ("list", "any"):
            self.binder.problem(
                (ACCESS, "cite"),
                f"the answer's schema has no list `{name}`",
                suggest(name, self.binder.scope.answer) or f"add `{name}: list` to it",
                code="unknown-name",
            )

    def _reader(self, index: int, document: Reader, known: Mapping[str, Holding]) -> ReadBy | None:
        path: Path = (ACCESS, "actions", index)
        if document.in_ is None or document.at is None:
            return None
        held = known.get(document.in_)
        if held is None:
            self._no_subsystem((*path, "in"), document.in_, known)
            return None
        if len(held.key_kinds) != 1:
            self.binder.problem(
                (*path, "at"), f"{held.type} has a key of {len(held.key_kinds)} parts, not of one"
            )
        steps = tuple(document.at.replace("[]", ".[]").split("."))
        return ReadBy(document.tool, held.name, document.finds, steps)


def _reads(entity: EntityType, *nodes: Node | None) -> frozenset[Read]:
    """The reads of expressions over an entity, and of its key."""
    own = {Read("before", entity.name, field) for field in ("", *entity.key)}
    return frozenset(own).union(*(footprint(node) for node in nodes if node is not None))


def _with_condition(when: Node | None, said: str) -> str:
    """The sentence, with its condition before it."""
    return said[:1].upper() + said[1:] if when is None else f"If {condition(when)}, {said}"


# ---------------------------------------------------------------- the kind


def _bind(binder: Binder, written: Access | None) -> Iterator[BoundAccess]:
    if written is None:
        return
    bound = _AccessBinder(binder).bound(written)
    if bound is not None:
        yield bound


READS: Final = ClauseKind(
    name="access",
    sections=(ACCESS,),
    judged=JudgedAs.ACCESS,
    bind=_bind,
    keys=(
        *("id", "actor", "allow", "on", "tool", "in", "type", "where", "count", "at"),
        *("authorized_by", "subsystems", "evidence", "cite"),
    ),
    named_by_author=((ACCESS, "subsystems"),),
    heading="Reads",
    reserved=(ACCESS,),
    places={ACCESS: (ACCESS,), CITATIONS: (ACCESS, "cite")},
)
