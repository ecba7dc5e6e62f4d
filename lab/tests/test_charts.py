"""Plots: every number is there as text, nothing acts, and whatever a label says stays text."""

import math
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup
from statediff_lab.reports import charts
from statediff_lab.reports.charts import Line, Mark, Tone, bars, lines

from statediff.reports.html import page

HOSTILE = "<script>alert(1)</script>\u202e\"'&"
SVG = "{http://www.w3.org/2000/svg}"
NUMBERS = st.one_of(st.none(), st.floats(-1e12, 1e12), st.integers(-5, 5).map(float))


def parsed(chart: charts.Chart) -> ET.Element:
    return ET.fromstring(chart.standalone())


def test_a_bar_is_as_long_as_its_value_and_says_it() -> None:
    chart = bars("Times", [Mark("a", 10.0, 8.0, 12.0, Tone.OURS), Mark("b", 5.0)], unit="ms")
    widths = [float(r.get("width", "")) for r in parsed(chart).iter(f"{SVG}rect")]
    assert widths[0] == pytest.approx(2 * widths[1], abs=0.05)
    assert chart.rows == (("a", "10 ms (8 – 12)", ""), ("b", "5 ms", ""))
    assert "10 ms" in "".join(parsed(chart).itertext())


def test_a_line_goes_through_its_points_in_the_order_of_x() -> None:
    points = ((3.0, Mark("", 30.0)), (1.0, Mark("", 10.0)), (2.0, Mark("", 20.0)))
    chart = lines("Growth", [Line("ours", points, Tone.OURS)], x="rows")
    (course,) = parsed(chart).iter(f"{SVG}polyline")
    places = [tuple(map(float, p.split(","))) for p in course.get("points", "").split()]
    assert [x for x, _ in places] == sorted(x for x, _ in places)
    assert [y for _, y in places] == sorted((y for _, y in places), reverse=True)
    assert chart.rows[0] == ("ours", "1", "10", "")


def test_what_has_no_value_keeps_its_line_and_its_reason() -> None:
    chart = bars("t", [Mark("peer", None, note="not installed")])
    assert chart.rows[0] == ("peer", "no value", "not installed")
    assert "no value" in "".join(parsed(chart).itertext())


def test_a_reader_hears_the_title_and_the_numbers() -> None:
    svg = parsed(bars("Times", [Mark("a", 10.0)], unit="ms"))
    ids = {e.get("id"): e.text for e in svg if e.get("id")}
    named = [ids[name] for name in svg.get("aria-labelledby", "").split()]
    assert svg.get("role") == "img"
    assert named == ["Times", "a: 10 ms"]


def test_nothing_a_label_says_acts() -> None:
    mark = Mark(HOSTILE, 1.0, tone=Tone.BAD, note=HOSTILE)
    for chart in (
        bars(HOSTILE, [mark], unit=HOSTILE),
        lines(HOSTILE, [Line(HOSTILE, ((1.0, mark),))], x=HOSTILE),
    ):
        figure = str(chart.figure())
        assert "<script" not in figure
        assert "\u202e" not in figure
        for acts in (" style=", " href=", " on", "url("):
            assert acts not in figure.replace(HOSTILE, "")
        assert chart.figure() == chart.figure()
        assert isinstance(chart.figure(), Markup)
        parsed(chart)


def test_two_charts_on_one_page_share_no_name() -> None:
    one, two = bars("t", [Mark("a", 1.0)]).figure(), bars("t", [Mark("a", 2.0)]).figure()

    def name(figure: str) -> str:
        return figure.split('id="')[1].split('"', maxsplit=1)[0]

    assert name(one) != name(two)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused(number: float) -> None:
    with pytest.raises(ValueError, match="None means no value"):
        Mark("a", number)


def test_more_marks_than_anyone_can_read_are_refused() -> None:
    with pytest.raises(ValueError, match="201 marks"):
        bars("t", [Mark("a", 1.0)] * 201)


def test_the_style_sheet_of_pages_styles_charts() -> None:
    assert charts.CSS in (page.TEMPLATES / "report.css").read_text(encoding="utf-8")


@given(st.lists(st.tuples(st.text(max_size=50), NUMBERS, NUMBERS), max_size=8))
def test_any_numbers_are_drawn_inside_the_picture(rows: list[tuple[str, float, float]]) -> None:
    marks = [Mark(label, value, low, low) for label, value, low in rows]
    figure = str(bars("t", marks).figure()).replace("scope=col", "").replace("scope=row", "")
    for element in ET.fromstring(figure).iter():
        for name in ("x1", "x2", "cx", "x"):
            assert -1 <= float(element.get(name, "0")) <= charts.WIDTH + 1
    series = [Line("s", tuple((n + 1.0, m) for n, m in enumerate(marks)))]
    assert len(lines("t", series, x="n").rows) == len(marks)
