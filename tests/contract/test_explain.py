"""`explain`: snapshots of the shop's contracts, and laws about what a hostile contract can do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

import pytest

from statediff.contract.authoring.explain import Explanation, Role, SourceBox, TypeBox, explain
from statediff.contract.file import parse_contract
from statediff.contract.language.english import a, kind, pattern_sentence, plural
from statediff.kernel import compile_contract, schema_of
from statediff.model.readings import Capture
from statediff.reports.contracts import RENDERERS, as_html, as_markdown, as_text
from statediff.workspace.trials import base_state, open_sandbox

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = sorted((ROOT / "contracts" / "shop").glob("*/contract.yaml"))
HOSTILE = """\
contract: shop/hostile
version: 1.0.0
owner: "<img src=x onerror=alert(1)> | `x` \\u202e"
intent: "</title><script>alert(1)</script> close it *now* [x](javascript:alert(1))"
inputs: {who: "<b>'\\"&"}
exclude:
  - {what: message.subject, because: "</svg><script>alert(2)</script>"}
  - {what: tag, because: "not ours | at all"}
forbid:
  - {id: a, delete: customer, because: "<script>alert(3)</script>"}
require:
  - id: b
    create: note
    where: it.body == input.who
"""


@pytest.fixture(scope="module")
def shop() -> Iterator[Capture]:
    with open_sandbox("shop") as sandbox:
        yield base_state(sandbox)


def explained(text: str, base: Capture) -> Explanation:
    file = parse_contract(text.encode(), "c.yaml")
    return explain(file.source, compile_contract(file, schema_of(base)).contract)


@pytest.mark.parametrize("path", CONTRACTS, ids=lambda p: p.parent.name)
def test_the_shops_contracts_read_as_they_were_signed(
    path: Path, shop: Capture, request: pytest.FixtureRequest
) -> None:
    kept = ROOT / "fixtures" / "explain" / f"{path.parent.name}.txt"
    text = as_text(explained(path.read_text(encoding="utf-8"), shop))
    if request.config.getoption("--update"):
        kept.write_text(text, "utf-8")
    assert text == kept.read_text(encoding="utf-8"), "read it again, then run pytest --update"


@pytest.mark.parametrize("form", RENDERERS)
def test_every_clause_stands_in_every_form(form: str, shop: Capture) -> None:
    for path in CONTRACTS:
        of = explained(path.read_text(encoding="utf-8"), shop)
        text = RENDERERS[form](of)
        assert text == RENDERERS[form](of)
        ids = [line.id for section in of.sections for line in section.lines]
        assert len(ids) == len(set(ids))
        assert all(name in text for name in ids)


def test_the_order_is_that_of_judgement(shop: Capture) -> None:
    path = next(p for p in CONTRACTS if p.parent.name == "refund-returned-order")
    of = explained(path.read_text(encoding="utf-8"), shop)
    first = [section.lines[0].id for section in of.sections]
    assert first == [
        "no-customer-deleted", "authorized-create-refund", "frame", "refunded",
        "actions-allow", "answer",
    ]  # fmt: skip


def test_the_boundary_says_of_each_type_what_holds_for_it(shop: Capture) -> None:
    of = explained(HOSTILE, shop)
    roles = {box.name: box.roles for source in of.sources for box in source.types}
    assert roles["customer"] == (Role.FORBIDDEN,)
    assert roles["note"] == (Role.REQUIRED,)
    assert roles["order"] == (Role.STILL,)
    assert roles["tag"] == (Role.EXCLUDED,)
    excluded = [entry for source in of.sources for box in source.types for entry in box.excluded]
    assert ("subject", "</svg><script>alert(2)</script>") in excluded


def test_what_may_follow_from_another_change_is_not_said_to_stay(shop: Capture) -> None:
    text = """
contract: shop/forget-customer
version: 1.0.0
owner: billing
intent: Delete customer 3, and nothing else.
require:
  - delete: customer
derive:
  - field: order.total_cents
    is: sum(l.quantity * l.unit_cents for l in after.order_line if l.order == it.id)
    because: the shop adds up the lines whenever one changes
"""
    of = explained(text, shop)
    roles = {box.name: box.roles for source in of.sources for box in source.types}
    assert roles["customer"] == (Role.REQUIRED,)
    assert roles["order"] == (Role.ALLOWED,)
    assert roles["staff"] == (Role.STILL,)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links |= {value or "" for name, value in attrs if name == "href"}


def test_nothing_of_a_hostile_contract_becomes_markup(shop: Capture) -> None:
    of = explained(HOSTILE, shop)
    page = Tags()
    page.feed(as_html(of))
    assert not page.tags & {"img", "svg", "iframe", "object", "base", "form"}
    assert not any(name.startswith("on") or name in ("src", "style") for name in page.attributes)
    assert all(link.startswith("#") for link in page.links)
    assert "</title><script>" not in as_html(of)
    for text in (as_markdown(of), as_text(of), as_html(of)):
        assert "\u202e" not in text
    assert "<script" not in as_markdown(of).replace("\\<", "")
    assert "](javascript" not in as_markdown(of).replace("\\]", "")


def test_the_page_names_every_source_with_a_legend_of_the_signs_it_uses(shop: Capture) -> None:
    page = as_html(explained(HOSTILE, shop))
    boundary = page[page.index('<section id="boundary">') :]
    legend = boundary[: boundary.index("</ul>")]
    for word in ("forbidden", "required", "must not change", "not judged"):
        assert word in legend
    assert "some change of it is allowed" not in legend  # nothing here is
    for name in ("shop-db", "outbox", "customer", "tag"):
        assert f">{name}<" in boundary or f">{name} <" in boundary
    assert not re.search("[α-ωΑ-Ω]", page)


def test_text_fits_a_terminal(shop: Capture) -> None:
    for path in CONTRACTS:
        lines = as_text(explained(path.read_text(encoding="utf-8"), shop)).splitlines()
        assert max(map(len, lines)) <= 100


def test_an_open_frame_is_explained_with_its_reason(shop: Capture) -> None:
    text = HOSTILE.replace("forbid:", "frame: {open: the tracker is shared}\nforbid:", 1)
    of = explained(text, shop)
    frame = next(line for s in of.sections for line in s.lines if line.id == "frame")
    assert frame.because == "the tracker is shared"
    assert "not judged" in frame.sentence


@pytest.mark.parametrize(
    ("type_name", "one", "two"),
    [
        ("user", "a user", "users"),
        ("users", "a user", "users"),
        ("axes", "an axis", "axes"),
        ("invoice", "an invoice", "invoices"),
        ("order_line", "an order line", "order lines"),
        ("categories", "a category", "categories"),
        ("inbox.emails", "an inbox.email", "inbox.emails"),
        ("status", "a status", "statuses"),
        ("addresses", "an address", "addresses"),
        ("analyses", "an analysis", "analyses"),
        ("indexes", "an index", "indexes"),
        ("people", "a person", "people"),
        ("staff", "a staff", "staff"),
        ("hour", "an hour", "hours"),
        ("unit", "a unit", "units"),
        ("upload", "an upload", "uploads"),
        ("utility", "a utility", "utilities"),
        ("quizzes", "a quiz", "quizzes"),
        ("boxes", "a box", "boxes"),
        ("houses", "a house", "houses"),
        ("movies", "a movie", "movies"),
        ("day", "a day", "days"),
        ("gas", "a gas", "gases"),
    ],
)
def test_one_and_two_of_a_type_are_said_as_english_says_them(
    type_name: str, one: str, two: str
) -> None:
    assert a(kind(type_name)) == one
    assert plural(kind(type_name)) == two
    said = f"{one[:1].upper()}{one[1:]} may be created."
    assert pattern_sentence("allow", "create", (type_name,), (0, None, False)) == said
    required = pattern_sentence("require", "create", (type_name,), (2, 2, False))
    assert required == f"Exactly two {two} must be created."
    whose = f"{kind(type_name)}'" if kind(type_name).endswith("s") else f"{kind(type_name)}'s"
    fields = ("name", "role")
    none = pattern_sentence("forbid", "update", (type_name,), (0, None, False), fields=fields)
    assert none == f"No {whose} name or role may change."


CONDITIONED: Final = """\
contract: shop/conditioned
version: 1.0.0
owner: x
intent: Write one note
inputs: {{n: 3}}
require:
  - id: b
    create: note
    where: {0}
"""


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("it.body == 'x'", 'where its body is "x".'),
        ("it.id == input.n and it.body != null", "where its id is 3 (input n) and its body is not"),
        ("not (it.id == 3)", "where `not it.id == 3`."),
        ("any(not (o.id == it.id) for o in after.order)", "where `any(not o.id == it.id for o in"),
        ("any(o.id == 3 for o in after.order)", "where for at least one order after the run, its"),
        ("it.id in [1, 2]", "where its id is 1 or 2."),
        ("it.body not in ['a', 'b']", 'where its body is neither "a" nor "b".'),
        ("it.id in [1, 2, 3]", "where its id is one of 1, 2, 3."),
        ("it.id == 0 - input.n", "where its id is minus 3 (input n)."),
        ("it.id == 2 * 3 - 1", "where its id is (2 * 3) - 1."),
        ("it.id == max(o.id for o in after.order)", "its id is the greatest id of orders after"),
        ("unique(o.id for o in after.order)", "where no two orders after the run have the same"),
    ],
)
def test_a_condition_that_english_does_not_say_in_one_go_is_shown_as_it_is_written(
    where: str, said: str, shop: Capture
) -> None:
    of = explained(CONDITIONED.format(where), shop)
    line = next(line for s in of.sections for line in s.lines if line.id == "b")
    assert said in line.sentence


def test_types_that_no_clause_speaks_of_share_a_line_where_they_are_many(shop: Capture) -> None:
    silent = tuple(TypeBox(f"table_{n}", (Role.STILL,), (), ()) for n in range(40))
    of = explained(HOSTILE, shop)
    named = TypeBox("named", (Role.FORBIDDEN,), ("no-named",), ())
    large = replace(of, sources=(SourceBox("db", "must report", (*silent, named), 0),))
    for form, renderer in RENDERERS.items():
        text = renderer(large)
        assert all(box.name in text.replace("\\_", "_") for box in silent)
        assert form != "text" or "40 others (must not change): table_0, table_1" in text
        assert form != "html" or "40 other types" in text
