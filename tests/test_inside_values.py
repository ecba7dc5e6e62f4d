"""Paths wherever a contract names a field, and lists whose items a key tells apart."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from statediff import api
from statediff.errors import ContractError
from statediff.kernel import replay
from statediff.model.boundary import locate
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.verdict import Judgement
from tests.judging import contract

LINES = [
    {"sku": "A1", "qty": 2, "when": "mon", "note": "x"},
    {"sku": "B", "qty": 1, "when": "tue", "note": "y"},
    {"sku": "C 1", "qty": 7, "when": "wed", "note": "z"},
]
ORDER = {"id": 7, "lines": LINES, "total": {"qty": 10, "by": "shop"}, "log": {"seen": 1, "on": "x"}}
KEYED = "canonicalize: [{use: keyed@1, key: sku, on: [order.lines], because: a set of lines}]\n"
PINNED = KEYED + (
    "require:\n  - id: more\n    update: order\n    where: it.id == 7\n"
    "    set: {'lines[sku=A1].qty': 5}\n"
)


def order(change: Any = None) -> dict[str, Any]:
    made = copy.deepcopy(ORDER)
    if change is not None:
        change(made)
    return made


def judged(folder: Path, body: str, after: dict[str, Any], before: Any = None) -> api.Judged:
    file = folder / "contract.yaml"
    file.write_text(contract(body))
    return api.judge(file, before={"order": [before or order()]}, after={"order": [after]})


def decided(folder: Path, body: str, after: dict[str, Any], before: Any = None) -> Judgement:
    return replay(judged(folder, body, after, before).bundle)


def verdict(folder: Path, body: str, change: Any, before: Any = None) -> str:
    return judged(folder, body, order(change), before).verdict.value


def right(made: dict[str, Any]) -> None:
    made["lines"][0]["qty"] = 5


def also(change: Any) -> Any:
    def both(made: dict[str, Any]) -> None:
        right(made)
        change(made)

    return both


def line(at: int, **told: Any) -> Any:
    return lambda made: made["lines"][at].update(told)


def into(member: str, **told: Any) -> Any:
    return lambda made: made[member].update(told)


def exclude(path: str, because: str = "why") -> str:
    return f"exclude: [{{what: {path!r}, because: {because}}}]\n"


def rules(*uses: tuple[str, str]) -> str:
    """`canonicalize` with each rule at its path."""
    each = (f"{{use: {use}, on: [{path!r}], because: why}}" for use, path in uses)
    return f"canonicalize: [{', '.join(each)}]\n"


def allow(path: str) -> str:
    return f"allow: [{{update: order, fields: [{path!r}]}}]\n"


def allow_where(where: str) -> str:
    return f"allow: [{{update: order, where: {where!r}}}]\n"


def derive(path: str, value: str) -> str:
    return f"derive: [{{field: {path!r}, is: {value!r}, because: why}}]\n"


SAME: dict[str, Any] = {
    "nothing else": lambda _: None,
    "reordered": lambda o: o["lines"].reverse(),
    "another spelling": line(1, qty=1),
}
OTHER: dict[str, Any] = {
    "another item's number": line(1, qty=2),
    "another member of the item": line(0, note="!"),
    "a member added": line(0, free=True),
    "a member removed": lambda o: o["lines"][0].pop("note"),
    "an item added": lambda o: o["lines"].append({"sku": "D", "qty": 1}),
    "an item removed": lambda o: o["lines"].pop(),
    "an item doubled": lambda o: o["lines"].append(dict(o["lines"][1])),
    "the item doubled": lambda o: o["lines"].append(dict(o["lines"][0])),
    "an item renamed": line(1, sku="E"),
    "the keys of two items traded": lambda o: (
        o["lines"][1].update(sku="C 1"),
        o["lines"][2].update(sku="B"),
    ),
    "an item without its key": lambda o: o["lines"][1].pop("sku"),
    "a key that is null": line(1, sku=None),
    "a key that is a list": line(1, sku=["B"]),
    "an item that is no object": lambda o: o["lines"].append(5),
    "the list made an object": lambda o: o.update(lines={line["sku"]: line for line in o["lines"]}),
    "the list made null": lambda o: o.update(lines=None),
}


@pytest.mark.parametrize("name", [*SAME, *OTHER])
def test_a_clause_that_pins_an_item_of_a_keyed_list_explains_nothing_else(
    name: str, tmp_path: Path
) -> None:
    wanted = "MATCH" if name in SAME else "DIVERGE"
    assert verdict(tmp_path, PINNED, also((SAME | OTHER)[name])) == wanted


def test_the_paths_of_a_keyed_list_name_its_items(tmp_path: Path) -> None:
    def change(o: dict[str, Any]) -> None:
        o["lines"][2]["qty"] = 8
        o["lines"].insert(0, {"sku": "D", "qty": 1})
        del o["lines"][1]

    found = decided(tmp_path, PINNED, order(change))
    assert [delta.place for delta in found.deltas] == [
        "lines[sku=A1]",
        'lines[sku="C 1"].qty',
        "lines[sku=D]",
    ]


@pytest.mark.parametrize("doubled", [True, False])
def test_where_two_items_share_a_key_the_list_is_compared_as_it_is(
    doubled: bool, tmp_path: Path
) -> None:
    """By its indexes where both sides are so; else as one value, which only the field explains."""
    before = order(lambda o: o["lines"].append(dict(o["lines"][0])))
    after = order(lambda o: (o["lines"].append(dict(o["lines"][0])), o["lines"].reverse()))
    after = after if doubled else order()
    paths = {d.place for d in decided(tmp_path, PINNED, after, before).deltas}
    if doubled:
        assert paths
        assert all(path.startswith(("lines[0]", "lines[1]", "lines[2]")) for path in paths)
    else:
        assert paths == {"lines"}


SUMMED = derive("order.total.qty", "it.lines[0].qty + it.lines[1].qty + 7")
SEEN = exclude("order.log.seen")
BY_SKU = ("keyed@1, key: sku", "order.lines")
ALL_BUT = "require:\n  - id: more\n    update: order\n    set: {'lines[0].qty': 5}\n"


@pytest.mark.parametrize(
    ("section", "change", "wanted"),
    [
        (exclude("order.lines[*].when"), line(1, when="!"), "MATCH"),
        (exclude("order.lines[*].when"), line(1, note="!"), "DIVERGE"),
        (exclude("order.lines[1].when"), line(2, when="!"), "DIVERGE"),
        (exclude("order.log"), lambda o: o.update(log=5), "MATCH"),
        (SEEN, into("log", seen=9), "MATCH"),
        (SEEN, lambda o: o["log"].pop("seen"), "MATCH"),
        (SEEN, lambda o: o.update(log=5), "DIVERGE"),
        (SEEN, lambda o: o.pop("log"), "DIVERGE"),
        (exclude("order.log.*"), into("log", seen=9, more=1), "MATCH"),
        (exclude("order.log.*"), lambda o: o.update(log={}), "MATCH"),
        (rules(("ignore@1", "order.lines[*].when")), line(1, when="!"), "MATCH"),
        (rules(("ignore@1", "order.lines[*].when")), line(1, qty=9), "DIVERGE"),
        (rules(("trim@1", "order.lines[*].note")), line(1, note=" y "), "MATCH"),
        (rules(("trim@1", "order.lines[*].note")), line(1, when=" tue "), "DIVERGE"),
        (rules(("trim@1", "order.lines[0].note")), line(1, note=" y "), "DIVERGE"),
        (rules(("decimal@1, scale: 0", "order.total.qty")), into("total", qty=10.4), "MATCH"),
        (rules(("decimal@1, scale: 0", "order.total.qty")), into("total", qty="10"), "DIVERGE"),
        (allow("lines[*].note"), line(1, note="!"), "MATCH"),
        (allow("lines[*].note"), lambda o: o["lines"].append({"note": "n"}), "MATCH"),
        (allow("lines[*].note"), lambda o: o["lines"].append({"note": "n", "qty": 1}), "DIVERGE"),
        (SUMMED, into("total", qty=13), "MATCH"),
        (SUMMED, into("total", qty=12), "DIVERGE"),
        (SUMMED, into("total", qty=13, by="me"), "DIVERGE"),
    ],
)
def test_a_path_selects_what_it_names_wherever_a_field_may_stand(
    section: str, change: Any, wanted: str, tmp_path: Path
) -> None:
    assert verdict(tmp_path, section + ALL_BUT, also(change)) == wanted


def reversed_too(change: Any) -> Any:
    return lambda made: (change(made), made["lines"].reverse())


@pytest.mark.parametrize(
    ("section", "change", "wanted"),
    [
        (exclude("order.lines[sku=B].when"), line(1, when="!"), "MATCH"),
        (exclude("order.lines[sku=B].when"), line(2, when="!"), "DIVERGE"),
        (exclude("order.lines[*].when"), reversed_too(line(1, when="!")), "MATCH"),
        (
            exclude("order.lines[*].when"),
            lambda o: o["lines"].append({"sku": "D", "when": "x"}),
            "DIVERGE",
        ),
        (allow('lines[sku="C 1"].qty'), reversed_too(line(2, qty=0)), "MATCH"),
        (allow("lines[*].qty"), line(2, note="!"), "DIVERGE"),
        (allow("lines[sku=D]"), lambda o: o["lines"].insert(0, {"sku": "D", "qty": 1}), "MATCH"),
        (
            derive("order.total.qty", 'it.lines[sku == "A1"].qty + 8'),
            into("total", qty=13),
            "MATCH",
        ),
        (
            derive("order.lines[sku=B].qty", "it.total.qty - 9"),
            lambda o: (o["total"].update(qty=11), o["lines"][1].update(qty=2)),
            "DIVERGE",
        ),
    ],
)
def test_so_does_one_that_names_an_item_by_its_key(
    section: str, change: Any, wanted: str, tmp_path: Path
) -> None:
    assert verdict(tmp_path, section + PINNED, also(change)) == wanted


@pytest.mark.parametrize(("sku", "wanted"), [("B", "MATCH"), ("D", "DIVERGE")])
def test_an_expression_reads_an_item_by_its_key(sku: str, wanted: str, tmp_path: Path) -> None:
    asked = f"  - {{that: 'after.order[7].lines[sku == \"{sku}\"].qty == 1'}}\n"
    assert verdict(tmp_path, PINNED + asked, also(lambda o: o["lines"].reverse())) == wanted


@pytest.mark.parametrize(
    ("section", "said"),
    [
        (exclude("order.lines[sku=B].when"), "no rule tells the items"),
        (exclude("order.id.x"), "nothing inside"),
        (exclude("order.lin[0]"), "no field 'lin'.*did you mean 'lines'"),
        (exclude("order.lines[0"), "no step of a path"),
        (exclude("ordr.lines[0]"), "no type.*did you mean"),
        (SEEN.replace("]", ", {what: order.log.seen, because: why}]"), "already excluded"),
        (rules(("keyed@1", "order.lines")), "`key` is the member"),
        (rules(BY_SKU, ("trim@1", "order.lines[0].note")), "has no index"),
        (rules(BY_SKU, ("unordered@1", "order.lines")), "two ways"),
        (rules(("raw@1", "order.log"), ("trim@1", "order.log.on")), "raw@1 leaves nothing"),
        (rules(("timestamp@1", "order.lines[*].when")), "timestamp@1 does nothing"),
        (rules(("json@1", "order.log.on")), "for a whole field"),
        (allow("lines[sku=A1].qty"), "say `{use: keyed@1, key: sku"),
        (allow("lines[a=b=c]"), "no step of a path"),
        (allow("lines[sku=null]"), "tells no item apart"),
        (derive("order.lines[*].qty", "1"), "several places"),
        (allow_where("it.lines[sku == it.id].qty == 1"), "tells an item apart"),
        (allow_where("it.lines[sku < 1].qty == 1"), "one value tells"),
        (SEEN + allow_where("it.log.seen == 1"), "outside the boundary"),
        (SEEN + allow_where("it.log == before.order[7].log"), "read what is inside"),
        (SEEN + "allow: [{update: order, set: {log: {}}}]\n", "read what is inside"),
        (SEEN + allow("log.seen"), "outside the boundary"),
    ],
)
def test_a_path_that_can_select_nothing_is_an_error_with_its_place(
    section: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(ContractError, match=said) as caught:
        verdict(tmp_path, section + ALL_BUT, right)
    assert caught.value.problems[0].line > 1


HIDDEN = rules(("trim@1", "order.lines[*].note"))


def test_what_a_rule_inside_hides_is_shown_with_its_raw_sides_and_forbidden_all_the_same(
    tmp_path: Path,
) -> None:
    change = also(line(1, note=" y "))
    [hidden] = decided(tmp_path, HIDDEN + ALL_BUT, order(change)).hidden
    delta = hidden.delta
    assert (delta.place, delta.raw_before, delta.raw_after) == ("lines[1].note", "y", " y ")
    assert "trim@1 (why)" in hidden.rule
    for path, wanted in (("lines[1].note", "DIVERGE"), ("lines[2].note", "MATCH")):
        forbid = f"forbid: [{{update: order, fields: ['{path}']}}]\n"
        assert verdict(tmp_path, HIDDEN + forbid + ALL_BUT, change) == wanted


def test_what_is_excluded_inside_is_shown_with_its_reason(tmp_path: Path) -> None:
    section = exclude("order.lines[*].when", "the clock")
    change = also(line(1, when="!"))
    [hidden] = decided(tmp_path, section + ALL_BUT, order(change)).hidden
    assert hidden.by_boundary
    assert hidden.delta.place == "lines[1].when"
    assert hidden.rule == "exclude: order.lines[*].when (the clock)"


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (into("log", on="y"), "MATCH"),
        (into("log", seen=2), "DIVERGE"),
        (lambda o: o["log"].pop("seen"), "DIVERGE"),
        (lambda o: o.update(log=5), "DIVERGE"),
        (lambda o: o.pop("log"), "DIVERGE"),
        (lambda o: o.update(log={"seen": 1}), "MATCH"),
    ],
)
def test_what_is_forbidden_inside_is_so_however_it_is_changed(
    change: Any, wanted: str, tmp_path: Path
) -> None:
    body = "frame: {open: nobody minds}\nforbid: [{update: order, fields: [log.seen]}]\n"
    assert verdict(tmp_path, body, change) == wanted


@pytest.mark.parametrize(
    ("what", "wanted"), [("a.b.c", "a.b"), ("a.b.c.d", "a.b"), ("a.d", "a"), ('a."b".c', "a")]
)
def test_of_several_readings_the_longest_type_wins(what: str, wanted: str) -> None:
    inside = (Field("b", Kind.JSON), Field("d", Kind.INT))
    one = EntityType("a", ("id",), (Field("id", Kind.INT), *inside))
    two = EntityType("a.b", ("id",), (Field("id", Kind.INT), Field("c", Kind.JSON)))
    assert locate(Schema("s", "1", (one, two)), what, 0)[0].name == wanted


def test_an_explanation_names_the_items_and_what_is_left_out_inside(tmp_path: Path) -> None:
    file = tmp_path / "contract.yaml"
    where = '    where: it.lines[sku == "C 1"].qty == 7\n'
    excluded = exclude("order.lines[*].when", "the clock")
    file.write_text(contract(excluded + PINNED.replace("    where: it.id == 7\n", where)))
    state = tmp_path / "state.json"
    state.write_text(json.dumps({"order": [ORDER]}))
    asked = ("check", "--explain", str(file), "--before", str(state))
    program = [sys.executable, "-m", "statediff", *asked]
    done = subprocess.run(program, capture_output=True, text=True, check=True, cwd=tmp_path)
    words = " ".join(done.stdout.split())
    assert 'its lines (the item with sku "C 1") qty is 7' in words
    assert "order.lines: compared by keyed@1, key sku, because a set of lines." in words
    assert "order.lines[*].when is not judged: the clock" in words


def test_rows_without_a_key_are_the_same_whatever_is_excluded_inside(tmp_path: Path) -> None:
    file = tmp_path / "contract.yaml"
    excluded = "exclude: [{what: log.doc.at, because: a clock}]\n"
    file.write_text(contract(excluded + "forbid: [{delete: log}]\n"))

    def side(at: int, what: str) -> dict[str, Any]:
        return {"log": [{"doc": {"at": at, "what": what}}]}

    for after, wanted in ((side(2, "a"), "MATCH"), (side(2, "b"), "DIVERGE")):
        assert api.judge(file, before=side(1, "a"), after=after).verdict.value == wanted
