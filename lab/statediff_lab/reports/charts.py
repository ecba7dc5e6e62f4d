"""Small plots as inline SVG: readable without colour, with the numbers beside them as a table.

A chart is a figure that a page puts where it likes: it takes its colours from the page's style
sheet, in light and dark, and holds no `style` attribute, no script and no link, so that the page
stays closed. `standalone` gives the same picture as a file of its own, with its style inside.

Every mark has its number as text beside it; an interval is drawn as whiskers. What has no value
keeps its line and says so. The same chart gives the same bytes.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from markupsafe import Markup

from statediff.reports.html.page import draw

WIDTH: Final = 720
LEFT: Final = 232
RIGHT: Final = 120
_BESIDE: Final = 184
"""Right of the plot of lines, for the names at their ends."""
ROW: Final = 30
PLOT_HEIGHT: Final = 260
LABEL: Final = 29
"""Characters of a label that fit; the table and the mark's own title have all of it."""
MAX_MARKS: Final = 200
_TEMPLATE: Final = "chart.html"
_EDGE: Final = 64
"""Left of the plot of lines, for its numbers."""

_STYLE: Final = """
.chart{--ink:#1a1f27;--soft:#535d6b;--line:#dfe3e8;--card:#fff;--blue:#0b57a4;--match:#0b6b4f;--diverge:#a8281d;--open:#7a4a00}
@media (prefers-color-scheme:dark){.chart{--ink:#e7eaef;--soft:#a7b0bd;--line:#313842;--card:#1a1e25;--blue:#8bc1ff;--match:#6fd6ae;--diverge:#ff9d91;--open:#f3c26b}}
.chart{background:var(--card);font-family:system-ui,sans-serif}
"""  # noqa: E501 - the colours of report.css, for a picture outside a page


class Tone(Enum):
    """The kinds of marks; each has a colour of the page and a dash of its own."""

    PLAIN = "plain"
    OURS = "ours"
    GOOD = "good"
    BAD = "bad"
    OPEN = "open"


@dataclass(frozen=True)
class Mark:
    """One number, with its interval where there is one: a bar, or a point. None is "no value"."""

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    tone: Tone = Tone.PLAIN
    note: str = ""
    """Why there is no value, or what to know about it."""

    def __post_init__(self) -> None:
        for number in (self.value, self.low, self.high):
            if number is not None and not math.isfinite(number):
                raise ValueError(f"{self.label}: {number} cannot be drawn; None means no value")


@dataclass(frozen=True)
class Line:
    """One line of a plot of lines: its points by their x, in any order."""

    label: str
    points: tuple[tuple[float, Mark], ...]
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True)
class Chart:
    """A picture and the table that says the same."""

    title: str
    summary: str
    picture: Markup
    height: int
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def figure(self) -> Markup:
        """The chart as a part of a page."""
        return draw(_TEMPLATE, "figure", self, self._svg())

    def standalone(self) -> str:
        """The picture as an SVG file."""
        return str(self._svg("chart", Markup(_STYLE) + Markup(CSS))) + "\n"  # noqa: S704 - ours

    def _svg(self, name: str = "", style: str = "") -> Markup:
        # Several charts stand on one page: what names a chart is named after its content.
        said = f"{self.title}\0{self.summary}\0{self.picture}"
        key = "chart-" + hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        return draw(_TEMPLATE, "svg", self, key, WIDTH, name, style)


CSS: Final = (
    ".plot text{fill:var(--ink);font-size:13px}.plot .soft{fill:var(--soft);font-size:12px}"
    ".plot .end{text-anchor:end}.plot .mid{text-anchor:middle}"
    ".plot .grid{stroke:var(--line)}.plot .limit{stroke:var(--diverge);stroke-dasharray:6 4}"
    ".plot .plain{color:var(--soft)}.plot .ours{color:var(--blue)}.plot .good{color:var(--match)}"
    ".plot .bad{color:var(--diverge)}.plot .open{color:var(--open)}"
    ".plot .fill{fill:currentColor}.plot .open .fill{fill-opacity:.35;stroke:currentColor}"
    ".plot .whisker{stroke:var(--ink);stroke-width:1.5}.plot .course{fill:none;stroke:currentColor;"
    "stroke-width:2}.plot .good .course{stroke-dasharray:10 4}"
    ".plot .bad .course{stroke-dasharray:3 4}.plot .open .course{stroke-dasharray:10 4 2 4}"
)
"""The rules for charts in a page's style sheet; `report.css` has them."""


def bars(title: str, marks: Sequence[Mark], *, unit: str = "") -> Chart:
    """Bars from zero, one a line, with their intervals."""
    _require_readable(len(marks))
    axis = _Axis(_numbers(marks), LEFT, WIDTH - RIGHT - LEFT)
    bottom = ROW * len(marks) + 8
    drawn = [_row(mark, ROW * at + 4 + ROW / 2, axis, unit) for at, mark in enumerate(marks)]
    picture = draw(_TEMPLATE, "ranked", axis.ticks(), bottom, drawn)
    rows = tuple((m.label, _value(m, unit), m.note) for m in marks)
    summary = "; ".join(f"{label}: {value}" for label, value, _ in rows[:12])
    return Chart(title, summary, picture, bottom + 24, ("", "Value", "Note"), rows)


def lines(title: str, series: Sequence[Line], *, x: str, unit: str = "") -> Chart:
    """Values over a number (named `x`), one line a series."""
    shown = [(line, _points(line)) for line in series]
    places = [p for _, points in shown for p in points]
    _require_readable(len(places))
    right = WIDTH - _BESIDE
    across = _Axis([at for at, _ in places], _EDGE, right - _EDGE, is_from_zero=False)
    up = _Axis(_numbers([mark for _, mark in places]), PLOT_HEIGHT + 12, -PLOT_HEIGHT)
    courses = []
    lowest_label = -math.inf
    for line, points in sorted(shown, key=lambda s: _height_at_end(s[1]), reverse=True):
        course = _course(line, points, across, up, unit)
        if points:  # labels at the ends of the lines, moved apart where they would meet
            lowest_label = max(course["points"][-1]["y"] + 4, lowest_label + 14)
        courses.append({**course, "label_at": lowest_label})
    picture = draw(
        _TEMPLATE, "lined", up.ticks(), across.ticks(), x, _EDGE, right, PLOT_HEIGHT, courses
    )
    rows = [
        (line.label, _number(at), _value(mark, unit), mark.note)
        for line in series
        for at, mark in sorted(line.points, key=lambda p: p[0])
    ]
    summary = "; ".join(f"{r[0]}, {x} {r[1]}: {r[2]}" for r in rows[:12])
    columns = ("Series", x, "Value", "Note")
    return Chart(title, summary, picture, PLOT_HEIGHT + 60, columns, tuple(rows))


def _points(line: Line) -> list[tuple[float, Mark]]:
    """The points of the line that have a value, in the order of x."""
    points = (point for point in line.points if point[1].value is not None)
    return sorted(points, key=lambda point: point[0])


def _height_at_end(points: Sequence[tuple[float, Mark]]) -> float:
    return (points[-1][1].value or 0.0) if points else 0.0


def _course(
    line: Line, points: Sequence[tuple[float, Mark]], across: _Axis, up: _Axis, unit: str
) -> dict[str, Any]:
    """A line as the template draws it: its places and its interval at each."""
    return {
        "tone": line.tone.value,
        "label": _cut(line.label, 26),
        "points": [
            {
                "x": across.at(x),
                "y": up.at(mark.value or 0),
                "whisker": _whisker(mark, up),
                "title": f"{line.label}: {_value(mark, unit)}",
            }
            for x, mark in points
        ],
    }


def _row(mark: Mark, middle: float, axis: _Axis, unit: str) -> dict[str, Any]:
    """A bar as the template draws it, around the height `middle`."""
    said = _value(mark, unit)
    title = f"{mark.label}: {said}"
    end, bar, whisker = float(LEFT), None, tuple[float, ...]()
    if mark.value is not None:
        start, end = sorted((axis.start, axis.at(mark.value)))
        bar = (start, max(end - start, 1))
        whisker = _whisker(mark, axis)
        end = max((end, *whisker))
        said = f"{_number(mark.value)} {unit}".strip()
    drawn = {"bar": bar, "whisker": whisker, "end": end, "y": middle}
    texts = {"title": title, "label": _cut(mark.label, LABEL), "said": _cut(said, 22)}
    return {"tone": mark.tone.value, "left": LEFT - 10, **drawn, **texts}


def _whisker(mark: Mark, axis: _Axis) -> tuple[float, ...]:
    """The places of the ends of the interval; none where there is none."""
    if mark.low is None or mark.high is None:
        return ()
    return axis.at(mark.low), axis.at(mark.high)


class _Axis:
    """Values as places between `start` and `start + length`; all of `numbers` have theirs."""

    def __init__(
        self, numbers: Sequence[float], start: float, length: float, *, is_from_zero: bool = True
    ) -> None:
        self._from, self._length = start, length
        self._low, self._high = min(numbers, default=0.0), max(numbers, default=1.0)
        if is_from_zero:
            self._low, self._high = min(self._low, 0.0), max(self._high, 0.0)
        if self._high == self._low:
            self._high = self._low + 1.0

    @property
    def start(self) -> float:
        """The place of zero, or of the least value above it."""
        return self.at(max(self._low, 0.0))

    def at(self, value: float) -> float:
        """The place of a value."""
        return self._from + self._length * ((value - self._low) / (self._high - self._low))

    def ticks(self) -> list[tuple[float, str]]:
        """A few round numbers in order, each behind its place."""
        return [(self.at(tick), _number(tick)) for tick in self._ticks()]

    def _ticks(self) -> Iterator[float]:
        rough = (self._high - self._low) / 5
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough * 0.999)
        first = math.ceil(self._low / step)
        for count in range(first, math.floor(self._high / step) + 1):
            yield count * step


def _require_readable(marks: int) -> None:
    if marks > MAX_MARKS:
        raise ValueError(f"a chart of {marks} marks cannot be read; the limit is {MAX_MARKS}")


def _numbers(marks: Sequence[Mark]) -> list[float]:
    return [n for m in marks for n in (m.value, m.low, m.high) if n is not None]


def _value(mark: Mark, unit: str) -> str:
    if mark.value is None:
        return "no value"
    said = f"{_number(mark.value)} {unit}".strip()
    if mark.low is not None and mark.high is not None:
        said += f" ({_number(mark.low)} – {_number(mark.high)})"
    return said


def _number(value: float) -> str:
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e15 or size < 1e-4:
        return f"{value:.3g}"
    digits = max(0, 2 - math.floor(math.log10(size)))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
