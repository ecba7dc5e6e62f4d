"""The delta graph, laid out: each changed entity before and after, and the comparison path between.

The picture of [SSD Fig. 1]: allowed, forbidden and insufficient-evidence paths differ in shape,
mark and words as well as in colour. References lead from what changed to its neighborhood, which
is that of the trial's graph (`statediff.reports.graph`). A whole state is never drawn, and
`left_out` says what a picture of bearable size leaves out. This module places things; a template
draws them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

from statediff.evidence.documents import key_from
from statediff.model.delta import delta_id
from statediff.model.graph import Content
from statediff.model.values import Key, show_key
from statediff.reports.html.changes import STANDINGS, Standings, View, rank
from statediff.reports.html.words import Sign
from statediff.reports.record import OPERATIONS

Json = Any
MAX_ENTITIES: Final = 60
MAX_NEIGHBORS: Final = 40
MAX_EDGES: Final = 240
CROWD: Final = 7
"""Entities from which on references show only of the entity that is pointed at or has the focus."""
ROW: Final = 74
"""Height of one row of the picture."""
BOX: Final = 54
"""Height of one box."""
TOP: Final = 34
WIDTH: Final = 960
BEFORE_X, AFTER_X, AROUND_X, BOX_WIDTH = 0, 390, 780, 180
_TITLE_EM: Final = 12.5
"""Width of a box's title, in its font's size."""
_LETTER, _CAPITAL, _ELLIPSIS = 0.69, 0.85, 1.0
_EM: Final = {
    **dict.fromkeys(" .,:;!|'ijlI", 0.37),
    **dict.fromkeys('frst-()[]_/"', 0.54),
    **dict.fromkeys("mwMW@%", 1.05),
}
"""Widths of other letters than most, bold; those of DejaVu Sans, which is wider than others."""
_DETAIL: Final = 25


@dataclass(frozen=True)
class _Changed:
    """One entity with all its deltas, or a place of which nothing is known."""

    id: str
    type: str
    key: Key | None
    standing: Sign
    deltas: tuple[Json, ...]
    by: tuple[str, ...]
    cause: str = ""

    @property
    def operation(self) -> str:
        ops = {d["op"] for d in self.deltas if not d["path"]}
        return next(iter(sorted(ops)), "update") if self.deltas else "unknown"


def picture(
    judgement: Json, standings: Standings, content_of: Callable[[frozenset[str]], Content]
) -> View | None:
    """The picture of a trial's graph; None where nothing changed and nothing is in doubt.

    `content_of` gives the graph of some entities' changes: nobody makes one of all of them. A path
    says it in words too, for readers who do not see it; in a crowded picture it has its references.
    """
    every = [
        *_entities(judgement["deltas"], standings),
        *_doubts(judgement["doubts"], standings.doubt),
    ]
    every.sort(key=lambda entity: rank(entity.standing))
    if not every:
        return None
    drawn = every[:MAX_ENTITIES]
    rows = {entity.id: at for at, entity in enumerate(drawn)}
    links = list(_links(drawn, content_of(frozenset(rows))))
    around = list(dict.fromkeys(link.to for link in links if link.to not in rows))
    kept = around[:MAX_NEIGHBORS]
    undrawn = {entity.id for entity in every[MAX_ENTITIES:]}
    gap = _spread(len(drawn), len(kept))
    boxes = {
        at: _box(
            AROUND_X,
            TOP + round(i * gap),
            fit_title(_name(at, links)),
            "changed too, not drawn" if at in undrawn else "",
            "present",
        )
        for i, at in enumerate(kept)
    }
    curves = [_curve(link, rows, boxes) for link in links if link.to in rows or link.to in boxes]
    shown = curves[:MAX_EDGES]
    is_crowded = len(drawn) >= CROWD
    paths = [_path(entity, at) for at, entity in enumerate(drawn)]
    for path, entity in zip(paths, drawn, strict=True):
        path["references"] = [r for r in shown if is_crowded and entity.id in r["ends"]]
    height = TOP + ROW * max(len(drawn), 1 + round((len(kept) - 1) * gap / ROW) if kept else 1)
    return {
        "width": WIDTH if kept else AROUND_X - 40 if curves else AFTER_X + BOX_WIDTH + 4,
        "height": height,
        "paths": paths,
        "around": list(boxes.values()),
        "references": shown,
        "legend": [s for s in STANDINGS if any(e.standing is s for e in every)],
        "left_out": list(
            _left_out(every[MAX_ENTITIES:], len(around) - len(kept), len(curves) - MAX_EDGES)
        ),
        "is_crowded": is_crowded,
    }


def _box(x: int, y: int, title: str, detail: str, style: str) -> View:
    """An entity on one side; `style` is present, gone, or unseen."""
    return {"x": x, "y": y, "title": title, "detail": detail, "style": style}


def _entities(deltas: Json, standings: Standings) -> Iterable[_Changed]:
    members: dict[str, list[Json]] = {}
    for delta in deltas:
        at = delta_id(str(delta["type"]), key_from(delta["key"]), "")
        members.setdefault(at, []).append(delta)
    for at, found in members.items():
        worst = min((standings.of(d) for d in found), key=rank)
        told = (c for d in found if standings.of(d) is worst for c in standings.clauses(d))
        yield _Changed(
            at,
            str(found[0]["type"]),
            key_from(found[0]["key"]),
            worst,
            tuple(found),
            tuple(dict.fromkeys(told)),
        )


def _doubts(doubts: Json, unknown: Sign) -> Iterable[_Changed]:
    seen: set[str] = set()
    for doubt in doubts:
        key = None if doubt["key"] is None else key_from(doubt["key"])
        at = f"?{doubt['type']}" if key is None else f"?{delta_id(doubt['type'], key, '')}"
        if at not in seen:
            seen.add(at)
            yield _Changed(at, str(doubt["type"]), key, unknown, (), (), str(doubt["cause"]))


# ---------------------------------------------------------------- references


@dataclass(frozen=True)
class _Link:
    start: str
    field: str
    to: str
    to_name: str


def _links(drawn: Sequence[_Changed], graph: Content) -> Iterable[_Link]:
    """Every edge that starts or ends at a drawn entity, each once; those that are gone are not."""
    names = {entity.id for entity in drawn}
    inward: list[_Link] = []
    for (start, to, relation), change in graph.edges.items():
        field = relation.removeprefix(f"{graph.nodes[start]['type']}.")
        if change == "unlink" and graph.nodes[start]["after"] is not None:
            continue
        if start in names:
            yield _Link(start, field, to, _words(graph, to))
        elif to in names:
            inward.append(_Link(to, f"← {field}", start, _words(graph, start)))
    # What refers to a changed entity from outside is drawn as its neighbor, arrow reversed.
    yield from inward


def _words(graph: Content, at: str) -> str:
    return f"{graph.nodes[at]['type']} {show_key(graph.nodes[at]['key'])}"


def _name(at: str, links: Sequence[_Link]) -> str:
    return next(link.to_name for link in links if link.to == at)


def _spread(rows: int, neighbors: int) -> float:
    """The distance between neighbors, so that they fill the height of the rows."""
    return max(ROW * 1.0, rows * ROW / neighbors) if neighbors else ROW


def _curve(link: _Link, rows: Mapping[str, int], boxes: Mapping[str, View]) -> View:
    x0, y0 = AFTER_X + BOX_WIDTH, TOP + rows[link.start] * ROW + BOX // 2
    words = f"{link.start} refers to {link.to} by {link.field}"
    if link.field.startswith("← "):
        words = f"{link.to} refers to {link.start} by {link.field[2:]}"
    if link.to in rows:
        y1 = TOP + rows[link.to] * ROW + BOX // 2
        bend = x0 + 46 + min(60, abs(y1 - y0) // 4)
        curve = f"M{x0} {y0 + 8} C{bend} {y0 + 8} {bend} {y1 - 8} {x0} {y1 - 8}"
        place = (x0 + 44, (y0 + y1) // 2)
    else:
        y1 = boxes[link.to]["y"] + BOX // 2
        middle = (x0 + AROUND_X) // 2
        curve = f"M{x0} {y0} C{middle} {y0} {middle} {y1} {AROUND_X} {y1}"
        place = (middle, (y0 + y1) // 2 - 5)
    return {
        "curve": curve,
        "field": _fit(link.field, 16),
        "x": place[0],
        "y": place[1],
        "words": words,
        "ends": (link.start, link.to) if link.to in rows else (link.start,),
    }


# ---------------------------------------------------------------- boxes and words


def _path(entity: _Changed, row: int) -> View:
    y = TOP + row * ROW
    name = entity.type if entity.key is None else f"{entity.type} {show_key(entity.key)}"
    title = fit_title(name)
    by = ", ".join(entity.by)
    if not entity.deltas:
        before, after = ("may have changed", "unseen"), ("not observed", "unseen")
        what = "not observed"
        words = f"{name}: {entity.standing.word}, {entity.cause}"
    else:
        before, after, what = _sides(entity)
        words = f"{name}: {what}; {entity.standing.word}" + (f" by {by}" if by else "")
    return {
        "standing": entity.standing,
        "y": y,
        "before": _box(BEFORE_X, y, title, _fit(before[0], _DETAIL), before[1]),
        "after": _box(AFTER_X, y, title, _fit(after[0], _DETAIL), after[1]),
        "what": _fit(what, 30),
        "by": _fit(by or entity.cause, 28),
        "words": words,
    }


def _sides(entity: _Changed) -> tuple[tuple[str, str], tuple[str, str], str]:
    operation = OPERATIONS[entity.operation][1]
    if operation in ("created", "linked"):
        return ("not there", "gone"), (operation, "present"), operation
    if operation in ("deleted", "unlinked"):
        return ("there", "present"), (operation, "gone"), operation
    fields = [str(d["path"]) for d in entity.deltas]
    what = f"{fields[0]} changed" if len(fields) == 1 else f"{len(fields)} fields changed"
    return ("there", "present"), (", ".join(fields), "present"), what


def fit_title(text: str) -> str:
    """As much of the name as a box is wide, in the widest of the usual fonts."""
    ends = tuple(accumulate(map(_width, text)))
    if not ends or ends[-1] <= _TITLE_EM:
        return text
    return text[: sum(end <= _TITLE_EM - _ELLIPSIS for end in ends)] + "…"


def _width(letter: str) -> float:
    return _EM.get(letter, _CAPITAL if letter.isupper() or letter > "~" else _LETTER)


def _fit(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _left_out(entities: Sequence[_Changed], neighbors: int, edges: int) -> Iterable[str]:
    if entities:
        counted = {s.word: sum(e.standing is s for e in entities) for s in STANDINGS}
        told = ", ".join(f"{number:,} {word}" for word, number in counted.items() if number)
        yield (
            f"{len(entities):,} more changed entities are not drawn ({told}); "
            "the list of changes has them."
        )
    if neighbors > 0:
        yield f"{neighbors:,} more neighbors are not drawn."
    if edges > 0:
        yield f"{edges:,} more references are not drawn."
