"""Every code of lint: one edit that triggers it in a contract without remarks, and the undoing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from statediff.contract.file import parse_contract
from statediff.contract.language.syntax import ANY, AnswerOf, PartOf
from statediff.contract.language.written import text_of
from statediff.contract.lint import CATALOGUE, SEVERITIES, pair_by_pair, wording
from statediff.contract.yaml.reader import read_document
from statediff.errors import ContractError, Problem
from statediff.kernel import compile_contract, lint, schema_of
from statediff.model.delta import Label, Op, default_label
from statediff.model.readings import Capture
from statediff.workspace.trials import base_state, open_sandbox

ROOT = Path(__file__).resolve().parents[2]
CLEAN = """\
contract: shop/refund
version: 1.0.0
owner: billing-operations
intent: Refund the returned lines of one order to the card that paid for it.
prompt: Refund order {order}.
sandbox: shop
inputs: {order: 1009, cents: 3900}

exclude:
  - {what: message.message_id, because: random per delivery}

canonicalize:
  - {use: timestamp@1, on: [order.updated_at], resolution: 1s, because: the shop truncates}

identify: []

forbid:
  - {id: no-customer-deleted, delete: customer}
  - {id: plain-letters, create: [message_header, message_part]}
  - id: no-large-refund
    create: refund
    where: it.cents > 100000

require:
  - id: refunded
    create: refund
    where: >-
      it.order == input.order and it.to == before.order[input.order].paid_with
      and it.reason == "returned"
    count: {min: 1}
    that: sum(r.cents for r in them) == input.cents
  - id: told-once
    create: message
    where: >-
      it.to == before.order[input.order].customer.email
      and it.body != null and search(it.body, "[\\\\pL\\\\pN]")

allow:
  - id: status
    update: order
    where: it.id == input.order
    fields: [status, updated_at]

effects:
  - on: create refund
    reversibility: irreversible
    authorized_by: any(a.order == input.order and a.by.role == "billing" for a in before.approval)
  - {on: create message, reversibility: irreversible, retry_safe: false}

evidence:
  shop-db: {max_age: 5s}
  outbox: {max_age: 30s}


answer:
  schema: {refunded_cents: int, note: text}
  claims:
    - answer.refunded_cents == sum(r.cents for r in created.refund)
"""
FORBID, REQUIRE, ALLOW, CLAIMS = "forbid:\n", "require:\n", "allow:\n", "  claims:\n"
WORDED = '\n      and it.body != null and search(it.body, "[\\\\pL\\\\pN]")'
LOOSE = "that: sum(r.cents for r in them) == input.cents"
STATUS = "    where: it.id == input.order\n"
BY_STATUS = "{type: order, match_on: {status: }, version: 1, because: status}"
OPAQUE = "{use: opaque@1, on: [refund.reason], because: prose}"
ACCESS = """access:
  actor: ann
  allow: [orders]
  subsystems:
    orders: {type: order, at: [], because: they are all from before}
    notes: {type: note, at: [], because: they are all from before}
  evidence:
    - id: the-order
      in: orders
      where: it.id == input.order
"""
KEPT = "  - {id: kept, update: order, where: it.id == input.order, set: {status: returned}}\n"
# code → edits (old, new) of CLEAN that bring it about; undoing them is the fix
CASES: dict[str, tuple[tuple[str, str], ...]] = {
    "syntax": (("version: 1.0.0", "version: 1.0.0: 2"),),
    "too-deep": (("cents: 3900", "cents: " + "[" * 40 + "]" * 40),),
    "too-large": (("owner: billing-operations", "owner: " + "x" * 300_000),),
    "too-many-nodes": (("cents: 3900", "cents: [" + "1," * 21_000 + "1]"),),
    "control-character": (("billing-operations", "billing\x07operations"),),
    "hidden-character": (("it.cents >", "it.cen\u200bts >"),),
    "directive": (("contract: shop/refund\n", "%YAML 1.1\n---\ncontract: shop/refund\n"),),
    "several-documents": (("answer:\n", "---\nanswer:\n"),),
    "anchor": (("cents: 3900", "cents: &a 3900"),),
    "tag": (("cents: 3900", "cents: !!int 3900"),),
    "merge-key": (("identify: []", "<<: {a: 1}"),),
    "duplicate-key": (("identify: []", "owner: me"),),
    "key-not-text": (("cents: 3900", "1: 3900"),),
    "number": (("cents: 3900", "cents: .nan"),),
    "flow-expression": (("delete: customer}", "delete: customer, where: f(it, 3) == 3}"),),
    "invalid": (("retry_safe: false", "retry_safe: maybe"),),
    "unknown-key": (("owner: billing", "ownr: billing"),),
    "missing-key": (("owner: billing-operations\n", ""),),
    "unknown-profile": (("identify: []", "use: djago@1"),),
    "missing-input": (("identify: []", "use: django@1"),),
    "wrong-input": (("cents: 3900}", "cents: 3900, django_user: '\"'}\nuse: django@1"),),
    "duplicate-id": (("id: told-once", "id: refunded"),),
    "unknown-name": (("delete: customer", "delete: customr"),),
    "path": (("fields: [status, updated_at]", "fields: [status.inner]"),),
    "contract": (("count: {min: 1}\n    that", "count: every\n    that"),),
    "expression": (("it.cents > 100000", "it.cents >"),),
    "boundary": (("fields: [status, updated_at]", "fields: [total_cents]"),
                 ("message.message_id", "order.total_cents")),
    "exclude": (("message.message_id", "message.nonsense"),),
    "canonicalize": (("timestamp@1", "timestamp@9"),),
    "identify": (("identify: []", f"identify:\n  - {BY_STATUS}"),),
    "null-run": (
        (CLEAN[CLEAN.index(REQUIRE) : CLEAN.index(ALLOW)], ""),
        (CLEAN[CLEAN.index("answer:") :], ""),
    ),
    "constant-clause": ((REQUIRE, REQUIRE + "  - that: input.cents > 0\n"),),
    "never-fails": (("count: {min: 1}\n    that: sum(r.cents for r in them) == input.cents",
                     "count: {min: 0}"),),
    "never-matches": ((STATUS, '    where: it.id == input.order and it.id == 7\n'),),
    "fixed-before-run": (
        (REQUIRE, REQUIRE + "  - that: any(o.total_cents == 1 for o in before.order)\n"),),
    "already-forbidden": (
        (FORBID, FORBID + "  - that: any(o.id == input.order for o in after.order)\n"),),
    "absent-before": (("order: 1009", "order: 999999"),),
    "contradiction": ((FORBID, FORBID + "  - {id: no-order, any: order}\n"),),
    "already-holds": (
        (REQUIRE, REQUIRE + "  - that: all(p.stock >= 0 for p in after.product)\n"),),
    "matches-nothing": (
        (REQUIRE, REQUIRE + "  - update: customer\n    where: it.email == \"nobody\"\n"
         "    set: {city: Cork}\n"),),
    "already-there": ((REQUIRE, REQUIRE + KEPT),),
    "claim-without-answer": ((CLAIMS, CLAIMS + "    - count(created.refund) == 1\n"),),
    "text-not-expression": (
        ("    count: {min: 1}\n", "    count: {min: 1}\n    set: {reason: it.reason}\n"),),
    "unused-input": (("cents: 3900", "cents: 3900, spare: 1"),),
    "explains-too-much": ((STATUS, ""),),
    "allow-forbid-overlap": (
        (FORBID, FORBID + "  - id: not-cancelled\n    update: order\n"
         '    that: new.status == "cancelled"\n'),),
    "unsaid-parts": (("[message_header, message_part]", "message_header"),),
    "unread-text": ((WORDED, ""),),
    "unauthorized": ((ALLOW, ALLOW + "  - id: untag\n    delete: note\n"
                      "    where: it.order == input.order\n"),),
    "open-frame": (("identify: []", "frame: {open: nobody knows what else changes}"),),
    "prescribed-order": (
        (
            LOOSE,
            ('that: all(a.position < b.position for a in calls if a.tool == "look" '
            'for b in calls if b.tool == "refund")'),
        ),),
    "unauthorized-privilege": ((ALLOW, ALLOW + "  - id: promoted\n    update: staff\n"
                                "    where: it.id == 1\n    fields: [role]\n"),),
    "label-below-default": (
        ("- {on: create message, reversibility: irreversible,",
         "- {on: create message, reversibility: conditional,"),),
    "unstated-effect": (
        ("  - {on: create message, reversibility: irreversible, retry_safe: false}\n", ""),),
    "unguarded-null": (
        (FORBID, FORBID + "  - id: not-late\n    update: order\n"
         "    where: it.delivered_at > it.placed_at and it.id != input.order\n"),),
    "unguarded": (
        (ALLOW, ALLOW + "  - id: late\n    update: order\n"
         "    where: it.delivered_at > it.placed_at and it.id == 3\n    fields: [status]\n"),),
    "undefined-fails": (
        (REQUIRE, REQUIRE + "  - that: any(o.delivered_at > o.placed_at and o.status == "
         '"refunded" and o.id == 1 for o in after.order)\n'),),
    "unknown-source": (("outbox: {max_age", "outbx: {max_age"),),
    "opaque-comparison": (
        ("canonicalize:\n", f"canonicalize:\n  - {OPAQUE}\n"),
        (LOOSE, LOOSE + ' and all(r.reason == "x" for r in them)')),
    "unlisted-source": (("  outbox: {max_age: 30s}\n", ""),),
    "no-history": (("    fields: [status, updated_at]\n",
                    "    fields: [status, updated_at]\n    by: agent\n"),),
    "prompt-unknown-input": (("order {order}.", "order {ordr} of {order}."),),
    "prose-test": ((CLAIMS, CLAIMS + '    - contains(answer.note, "refund")\n'),),
    "sees-nothing": (("answer:\n", ACCESS.replace("[orders]", "[]") + "answer:\n"),),
    "unknown-subsystem": (
        ("answer:\n", ACCESS.replace("[orders]", "[orders, post]") + "answer:\n"),),
    "unreachable-evidence": (("answer:\n", ACCESS.replace("[orders]", "[notes]") + "answer:\n"),),
    "empty-shelf": (
        ("answer:\n", ACCESS.replace("it.id == input.order", "it.id == 0") + "answer:\n"),),
    "hollow-reason": (("random per delivery", "TODO"),),
    "one-example": (("random per delivery", "'one of the right runs did it, and no other'"),),
    "placeholder": (("owner: billing-operations\n", "owner: somebody\n"),),
}  # fmt: skip
ELSEWHERE = {
    "unknown-tool": "test_a_compensation_is_a_call_that_the_sandbox_takes",
    "compensation-arguments": "test_a_compensation_is_a_call_that_the_sandbox_takes",
    "not-utf-8": "test_bytes_and_empty_files",
    "empty-document": "test_bytes_and_empty_files",
    "not-a-mapping": "test_bytes_and_empty_files",
    "released-changed": "tests/cli/test_releases.py",
    "unreviewed": "tests/cli/test_releases.py",
    "not-replayable": "tests/cli/test_reviewer.py",
    "later-work": "sandboxes/git/tests/test_copying.py",
    "end-unasked": "tests/contract/test_run_ended.py",
    "self-reviewed": "tests/cli/test_releases.py",
    "stamps-unexplained": "tests/contract/test_stamps.py",
    "pairs": "test_sets_that_are_tied_are_no_pairs",
    "too-many-pairs": "test_a_billion_pairs_are_the_contracts_mistake",
}


@pytest.fixture(scope="module")
def shop() -> Iterator[Capture]:
    with open_sandbox("shop") as sandbox:
        yield base_state(sandbox)


def found(text: str | bytes, base: Capture | None) -> tuple[Problem, ...]:
    data = text if isinstance(text, bytes) else text.encode()
    try:
        return lint(parse_contract(data, "c.yaml"), None, base)
    except ContractError as error:
        return error.problems


def edited(code: str) -> str:
    text = CLEAN
    for old, new in CASES[code]:
        assert old in text, f"{code}: {old!r} is not in the contract"
        text = text.replace(old, new)
    return text


def test_the_clean_contract_has_no_remark(shop: Capture) -> None:
    assert [str(p) for p in found(CLEAN, shop)] == []


@pytest.mark.parametrize("code", CASES)
def test_each_code_has_a_contract_that_triggers_it(code: str, shop: Capture) -> None:
    problems = found(edited(code), shop)
    mine = [p for p in problems if p.code == code]
    assert mine, [(p.code, str(p)) for p in problems]
    assert all(p.severity == CATALOGUE[code].severity for p in mine)
    assert all(p.line >= 1 and p.column >= 1 and p.message for p in mine)
    if CATALOGUE[code].severity != "error":
        assert all(p.hint for p in mine)


def test_of_what_a_message_carries_allowing_says_as_much_as_forbidding(shop: Capture) -> None:
    allowing = ALLOW + "  - {id: answered-elsewhere, create: message_header, count: {max: 1}}\n"
    text = edited("unsaid-parts").replace(ALLOW, allowing)
    assert "unsaid-parts" in [p.code for p in found(text, shop)]
    text = text.replace("create: message_header, count", "create: message_part, count")
    assert "unsaid-parts" not in [p.code for p in found(text, shop)]


PAIRS = REQUIRE + "  - that: 'all(any({0} for s in after.staff) for o in after.order)'\n"


def test_a_billion_pairs_are_the_contracts_mistake(
    shop: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair_by_pair, "SOME_PAIRS", 10)
    monkeypatch.setattr(pair_by_pair, "MAX_PAIRS", 20)
    text = CLEAN.replace(REQUIRE, PAIRS.format("s.name != o.status"))
    [problem] = [p for p in found(text, shop) if "pairs" in p.code]
    assert (problem.code, problem.severity) == ("too-many-pairs", "error")
    assert "each `staff` is compared with each `order`: " in problem.message


@pytest.mark.parametrize(
    ("tie", "codes"),
    [("s.name == o.status", []), ("o.status == s.name and s.id != o.id", []),
     ("s.id <= o.id", []), ('s.role == "a"', []), ("s.name == lower(o.status)", []),
     ("o.id == 1", []), ("s.name != o.status", ["pairs"]), ("s.id + o.id == 3", ["pairs"])],
)  # fmt: skip
def test_sets_that_are_tied_are_no_pairs(
    tie: str, codes: list[str], shop: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = CLEAN.replace(REQUIRE, PAIRS.format(tie))
    assert "pairs" not in [p.code for p in found(text, shop)]  # so few are not worth a word
    monkeypatch.setattr(pair_by_pair, "SOME_PAIRS", 1)
    assert [p.code for p in found(text, shop) if "pairs" in p.code] == codes


LEFT_OUT = "".join(f"  - {{what: message.{n}, because: copied}}\n" for n in ("body", "subject"))
READ_ELSEWHERE = {
    "pinned": ("    create: message\n", "    create: message\n    set: {body: Done.}\n"),
    "forbidden": (FORBID, FORBID + "  - {id: a, create: message, where: it.body == null}\n"),
    "claimed": (
        CLAIMS, CLAIMS + "    - all(m.body == answer.note for m in created.message)\n"),
    "outside": ("exclude:\n", "exclude:\n" + LEFT_OUT),
}  # fmt: skip
ALLOWED = "  - {id: m, create: message, where: it.body != null, count: {max: 1}}\n"
PASSES = "one that says nothing passes"
SUBJECT = '\n      and it.subject == "Your refund"'


@pytest.mark.parametrize("where", READ_ELSEWHERE)
def test_a_required_text_may_be_read_by_any_clause_that_binds_it(where: str, shop: Capture) -> None:
    old, new = READ_ELSEWHERE[where]
    text = edited("unread-text").replace(old, new)
    assert text != edited("unread-text")
    assert "unread-text" not in [p.code for p in found(text, shop)]


def test_a_text_that_another_letter_has_or_a_heading_says_is_not_the_required_one(
    shop: Capture,
) -> None:
    text = edited("unread-text")
    for other in (text.replace(ALLOW, ALLOW + ALLOWED), CLEAN.replace(WORDED, SUBJECT)):
        said = [p for p in found(other, shop) if p.code == "unread-text"]
        assert [p.message for p in said] == [
            f"`told-once` requires a message, and no clause reads its body: {PASSES}"
        ]
        assert 'add `it.body != null and search(it.body, "[\\\\pL\\\\pN]")`' in str(said[0].hint)


def test_to_ask_for_some_text_is_said_in_words_and_tests_no_prose(shop: Capture) -> None:
    bound = compile_contract(parse_contract(CLEAN.encode(), "c.yaml"), schema_of(shop)).contract
    [told] = [clause.sentence for clause in bound.require if clause.id == "told-once"]
    assert "its body has a letter or a digit" in told
    text = CLEAN.replace("[\\\\pL\\\\pN]", "[Rr]efund")
    assert "prose-test" in [p.code for p in found(text, shop)]
    assert "prose-test" not in [p.code for p in found(CLEAN, shop)]


STAFF = ALLOW + "  - id: promoted\n    update: staff\n    where: it.id == 1\n    fields: [role]\n"
ON_STAFF = "effects:\n  - on: update staff\n    "


@pytest.mark.parametrize(
    ("effect", "lacks"),
    [
        ("reversibility: irreversible", ["`authorized_by:` and `actor:`"]),
        ("authorized_by: it.id == 1", ["`authorized_by:` and `actor:`"]),  # no evidence but itself
        ("authorized_by: any(a.order == 1 for a in before.approval)", ["has `actor:`"]),
        ("actor: it.active", ["has `authorized_by:`"]),
        ("authorized_by: any(a.order == 1 for a in before.approval)\n    actor: it.active", []),
    ],
)
def test_a_change_of_permissions_needs_evidence_and_an_actor(
    shop: Capture, effect: str, lacks: list[str]
) -> None:
    text = CLEAN.replace(ALLOW, STAFF).replace("effects:\n", ON_STAFF + effect + "\n")
    said = [p.message for p in found(text, shop) if p.code == "unauthorized-privilege"]
    assert len(said) == len(lacks)
    assert all(words in one for words, one in zip(lacks, said, strict=True))


TOOLS = {
    "void": {"properties": {"id": {"type": "integer"}, "why": {}}, "required": ["id"]},
    "send": {"properties": {}},
}


@pytest.mark.parametrize(
    ("compensation", "codes"),
    [
        ("{tool: void, arguments: {id: {is: it.id}}}", []),
        ("{tool: void, arguments: {id: 4, why: [a]}}", []),
        ("void", ["compensation-arguments"]),
        ("{tool: void}", ["compensation-arguments"]),
        ("{tool: void, arguments: {id: four}}", ["compensation-arguments"]),
        ("{tool: void, arguments: {id: true}}", ["compensation-arguments"]),
        ("{tool: void, arguments: {id: 4, ids: 4}}", ["compensation-arguments"]),
        ("{tool: voids, arguments: {id: 4}}", ["unknown-tool"]),
        ("void_refund", ["unknown-tool"]),
    ],
)
def test_a_compensation_is_a_call_that_the_sandbox_takes(
    shop: Capture, compensation: str, codes: list[str]
) -> None:
    before = "in before.approval)\n"
    text = CLEAN.replace(before, f"{before}    compensation: {compensation}\n")
    file = parse_contract(text.encode(), "c.yaml")
    assert [p.code for p in lint(file, None, shop, tools=TOOLS)] == codes
    assert lint(file, None, shop) == (), "no sandbox, no tools to compare with"


def test_a_compensation_leaves_types_that_there_are(shop: Capture) -> None:
    before = "in before.approval)\n"
    more = "    compensation: {tool: void, leaves: [audit]}\n"
    problems = found(CLEAN.replace(before, before + more), shop)
    assert [p.code for p in problems] == ["unknown-name"]


def test_what_happened_between_can_be_asked_of_a_source_with_a_feed(shop: Capture) -> None:
    clause = "  - {id: not-for-a-moment, update: staff, during: run}\n"
    file = parse_contract(CLEAN.replace(FORBID, FORBID + clause).encode(), "c.yaml")
    blind = [p.code for p in lint(file, None, shop)]
    assert "no-history" in blind
    told = lint(file, None, shop, frozenset({"shop-db"}))
    assert "no-history" not in [p.code for p in told]
    # A history tells what was committed, not by whom.
    by = parse_contract(edited("no-history").encode(), "c.yaml")
    assert "no-history" in [p.code for p in lint(by, None, shop, frozenset({"shop-db"}))]


def test_every_code_of_the_catalogue_is_triggered_somewhere() -> None:
    assert set(CATALOGUE) == set(CASES) | set(ELSEWHERE)
    assert {entry.severity for entry in CATALOGUE.values()} == set(SEVERITIES)


def test_every_code_in_the_source_stands_in_the_catalogue() -> None:
    used: set[str] = set()
    for folder in ("contract", "kernel", "cli", "workspace"):
        for path in (ROOT / "statediff" / folder).rglob("*.py"):
            if path.name in ("schemafile.py", "catalogue.py"):
                continue
            text = path.read_text(encoding="utf-8")
            used |= set(re.findall(r'\bcode\s*(?::\s*str\s*)?=\s*"([a-z-]+)"', text))
            used |= set(re.findall(r'remark\(\s*(?:source,\s*)?"([a-z-]+)"', text))
    assert used - set(CATALOGUE) == set()


def test_bytes_and_empty_files(shop: Capture) -> None:
    assert [p.code for p in found(b"contract: \xff", shop)] == ["not-utf-8"]
    assert [p.code for p in found("", shop)] == ["empty-document"]
    assert [p.code for p in found("- a\n", shop)] == ["not-a-mapping"]


@pytest.mark.parametrize(
    ("step", "is_prescribed"),
    [
        ('on: refund\n    that: any(c.tool == "look" for c in calls)', True),
        ('on: {tool: refund}\n    that: call.n == 1 and any(c.tool in ["a"] for c in calls)', True),
        ('on: refund\n    that: not any(c.tool == "refund" for c in calls)', False),
        (
            'on: {classes: [permission-change]}\n    that: any(c.tool == "look" for c in calls)',
            False,
        ),
        ("on: refund\n    that: all(w.position < r.position for w in calls for r in calls)", False),
    ],
)
def test_a_path_of_tools_is_told_from_an_invariant(step: str, is_prescribed: bool) -> None:
    text = f"steps:\n  - id: s\n    {step}\n"
    codes = [p.code for p in wording(read_document(text.encode(), "c.yaml"))]
    assert codes == ["prescribed-order"] * is_prescribed


def remarks(shop: Capture, old: str, new: str) -> list[str]:
    assert old in CLEAN
    return [p.code for p in found(CLEAN.replace(old, new), shop)]


def of_orders(where: str) -> str:
    """A clause about updates of orders."""
    return f"  - id: x\n    update: order\n    where: {where}\n"


LATE = "it.delivered_at > it.placed_at"
RESTOCKED = """  - id: restocked
    update: product
    where: any(l.order == input.order and l.product == it.id for l in before.order_line)
    fields: [stock]
    count: {min: 1}
"""
OVERLAPS, EVIDENCE = "allow-forbid-overlap contradiction", "unauthorized unauthorized-privilege"


@pytest.mark.parametrize(
    ("section", "clause", "watched", "told"),
    [
        # A guard is seen in every form, and to the left.
        (FORBID, of_orders(f"it.delivered_at != null and {LATE} and it.id == 3"),
         "unguarded-null", ""),
        (FORBID, of_orders(f"it.id == 3 and not (it.delivered_at == null) and {LATE}"),
         "unguarded-null", ""),
        (FORBID, of_orders(f"it.id == 3 and (it.delivered_at == null or {LATE})"),
         "unguarded-null", ""),
        (FORBID, of_orders(f"{LATE} and it.delivered_at != null"),
         "unguarded-null", "unguarded-null"),
        # What is disjoint does not overlap.
        (FORBID, of_orders('it.status != "open" and it.id == 5'), OVERLAPS, ""),
        (FORBID, of_orders("it.id in [5, 6]"), OVERLAPS, ""),
        (FORBID, of_orders("not (it.id == input.order)"), OVERLAPS, ""),
        (FORBID, of_orders("it.id < 1000"), OVERLAPS, ""),
        # A change is not there while an entity that it means is not so.
        (REQUIRE, KEPT.replace("it.id == input.order", 'it.status in ["returned", "delivered"]'),
         "already-there", ""),
        (REQUIRE, KEPT.replace("it.id == input.order", 'it.status == "returned"'),
         "already-there", "already-there"),
        # `where` may look at other types of the base state.
        (REQUIRE, RESTOCKED, " ".join(CATALOGUE), ""),
        (REQUIRE, RESTOCKED.replace("input.order", "999999"), "matches-nothing",
         "matches-nothing"),
        # A right that is taken away asks for no evidence.
        (ALLOW, "  - id: left\n    delete: staff\n    where: it.id == 1\n", EVIDENCE,
         "unauthorized"),
        # A lighter label takes a reason.
        ("effects:\n", "  - {on: delete note, reversibility: conditional}\n",
         "label-below-default", "label-below-default"),
        ("effects:\n",
         "  - {on: delete note, reversibility: conditional, because: it is a test}\n",
         "label-below-default", ""),
        # A column that is mostly empty need not be read; each note of the shop has a body.
        (REQUIRE, "  - {id: n, create: note, where: it.order == input.order}\n",
         "unread-text", "unread-text"),
        (REQUIRE, "  - {id: o, create: order, where: it.customer == 1}\n", "unread-text", ""),
    ],
)  # fmt: skip
def test_a_remark_is_made_where_it_is_meant_and_only_there(
    section: str, clause: str, watched: str, told: str, shop: Capture
) -> None:
    codes = {*remarks(shop, section, section + clause)}
    assert codes & {*watched.split()} == {*told.split()}


def test_an_unguarded_place_is_told_with_the_guard_to_write(shop: Capture) -> None:
    clause = '  - id: x\n    update: order\n    where: it.id == 3 and it.customer.city == "Cork"\n'
    [problem] = [
        p for p in found(CLEAN.replace(FORBID, FORBID + clause), shop) if p.code == "unguarded-null"
    ]
    guard, too = "`it.customer != null and …` before it", "`it.customer == null or …`"
    assert problem.hint == f"write {guard}, or {too} if null is forbidden, too"
    assert (
        CLEAN.replace(FORBID, FORBID + clause)
        .splitlines()[problem.line - 1]
        .strip()
        .startswith("where:")
    )
    assert problem.column > 12


def test_the_ends_of_a_path_are_guarded_too(shop: Capture) -> None:
    path = (
        "reaches(it.customer, after.customer[5], via=[(note.customer, note.order), order.customer])"
    )
    guard = "it.customer != null and exists(after.customer[5]) and "
    for guarded, hints in (("", ["it.customer != null", "exists(after.customer[5])"]), (guard, [])):
        clause = f"  - id: x\n    update: order\n    where: it.id == 3 and {guarded}{path}\n"
        problems = found(CLEAN.replace(FORBID, FORBID + clause), shop)
        told = [p.hint.partition(" and …")[0] for p in problems if "unguarded" in p.code]
        assert sorted(told) == sorted(f"write `{hint}" for hint in hints)


def test_what_lint_says_separates_two_clauses_does(shop: Capture) -> None:
    asked = 'it.id < 9 and (it.status == "open" or it.status == "held")'
    forbid = f"  - {{id: x, update: order, where: '{asked}'}}\n"
    allow = "  - id: y\n    update: order\n    where: it.id < 20"
    text = CLEAN.replace(FORBID, FORBID + forbid)
    apart = found(text.replace(ALLOW, ALLOW + allow + "\n"), shop)
    hint = next(p.hint for p in apart if p.code == "allow-forbid-overlap")
    said = hint.split("`")[1]
    assert said.startswith("not (")
    again = found(text.replace(ALLOW, f"{ALLOW}{allow} and {said}\n"), shop)
    assert "allow-forbid-overlap" not in {p.code for p in again}


ITSELF = {
    "set of an update": ("update: order, where: it.id == 1, set: {status: {is: new.status}}", True),
    "set of a creation": ("create: refund, set: {reason: {is: it.reason}}", True),
    "from": ("update: order, from: {status: {is: it.status}}, set: {status: paid}", True),
    "where": ("update: order, where: it.id == 1 and it.status != it.status", True),
    "both versions": ("update: order, where: it.id == 1, set: {status: {is: it.status}}", False),
    "field": ("update: order, set: {updated_at: {is: it.placed_at}}, where: it.id == 1", False),
}


@pytest.mark.parametrize("clause", ITSELF)
def test_a_value_that_is_compared_with_itself_decides_nothing(clause: str, shop: Capture) -> None:
    written, is_itself = ITSELF[clause]
    problems = found(CLEAN.replace(REQUIRE, f"{REQUIRE}  - {{id: x, {written}}}\n"), shop)
    said = [p.message for p in problems if p.code == "constant-clause"]
    assert bool(said) is is_itself
    assert all("compares a thing with itself" in each for each in said)


def test_two_beginnings_of_a_text_are_told_apart(shop: Capture) -> None:
    allow = "  - {id: y, update: note, where: 'starts_with(it.body, \"src/\")'}\n"
    for beginning, overlaps in (("tests/", False), ("src/a/", True), ("s", True)):
        forbid = f"  - {{id: x, update: note, where: 'starts_with(it.body, \"{beginning}\")'}}\n"
        text = CLEAN.replace(FORBID, FORBID + forbid).replace(ALLOW, ALLOW + allow)
        codes = {p.code for p in found(text, shop)}
        assert bool(codes & {"allow-forbid-overlap", "contradiction"}) is overlaps


def test_without_a_state_or_schema_the_words_are_checked() -> None:
    text = CLEAN.replace("random per delivery", "TODO").replace("cents: 3900", "cents: 3900, x: 1")
    assert sorted(p.code for p in found(text, None)) == ["hollow-reason", "unused-input"]


def test_what_is_no_expression_needs_no_state_to_be_refused() -> None:
    assert "expression" not in {p.code for p in found(CLEAN, None)}
    wrong = CLEAN.replace("it.cents > 100000", "it.cents = 100000").replace(
        "sum(r.cents for r in them) == input.cents", "sum(r.cents for r in them) =="
    )
    problems = [p for p in found(wrong, None) if p.code == "expression"]
    lines = wrong.splitlines()
    places = [lines[p.line - 1][p.column - 1 :] for p in problems]
    assert places[0] == "= 100000"
    assert "sum(r.cents" in lines[problems[1].line - 1]
    assert [p.severity for p in problems] == ["error", "error"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("it.cents >", "it.cent >"), ("it.cents >", "its.cents >"), ("sum(r", "summ(r"),
        ("input.order\n", "input.ordr\n"), ("answer.refunded_cents ==", "answer.cents =="),
        ("before.approval", "before.aproval"), ("fields: [status", "fields: [state"),
        ("create refund\n", "create refnd\n"),
    ],
)  # fmt: skip
def test_whatever_is_not_called_so_is_an_unknown_name(old: str, new: str, shop: Capture) -> None:
    assert "unknown-name" in remarks(shop, old, new)


def test_linting_is_deterministic_and_sorted(shop: Capture) -> None:
    text = CLEAN.replace(STATUS, "").replace("cents: 3900", "cents: 3900, x: 1, y: 2")
    first = found(text, shop)
    assert first == found(text, shop)
    assert [(p.line, p.column) for p in first] == sorted((p.line, p.column) for p in first)


def test_a_part_of_an_answer_is_written_as_the_contract_says_it() -> None:
    part = PartOf(ANY, 0, AnswerOf(ANY, 0, "plan"), "tool")
    assert text_of(part) == "answer.plan.tool"


def test_a_grant_labelled_reversible_without_authorization_is_refused() -> None:
    """And the grant of `accounts/rotate-role`, of which it says no label, is irreversible."""
    path = ROOT / "contracts" / "accounts" / "rotate-role" / "contract.yaml"
    shipped = path.read_text()
    rule = re.search(r"  - on: link grant\n.*?(?=  - on: )", shipped, re.DOTALL)
    assert rule is not None
    assert "reversibility" not in rule[0]
    with open_sandbox("accounts") as sandbox:
        base = base_state(sandbox)
    light = shipped.replace(rule[0], "  - {on: link grant, reversibility: reversible}\n")
    refused = {p.code for p in found(light, base) if p.severity == "error"}
    assert refused == {"unauthorized-privilege", "label-below-default"}
    assert {p.code for p in found(shipped, base) if p.severity == "error"} == set()
    grant = schema_of(base).by_name["grant"]
    assert default_label(Op.LINK, grant.purpose) is Label.IRREVERSIBLE


@pytest.mark.parametrize(
    ("clause", "is_loose"),
    [
        ("update: customer", True),
        ("delete: customer", True),
        ("update: customer\n    fields: [city]", True),
        ("update: customer\n    set: {city: Cork}", False),
        ("update: customer\n    that: count(them) == 1", False),
        ("create: message", False),
    ],
)
def test_a_required_change_of_any_entity_says_too_little(
    shop: Capture, clause: str, is_loose: bool
) -> None:
    text = CLEAN.replace(REQUIRE, f"{REQUIRE}  - id: loose\n    {clause}\n")
    remarks = [p.message for p in found(text, shop) if p.code == "explains-too-much"]
    assert remarks == ["`loose` is met by any customer, and says nothing of it"] * is_loose
