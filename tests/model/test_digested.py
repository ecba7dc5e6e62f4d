"""Wide values that are known by their digest: told apart, compared, and never guessed."""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statediff.errors import InputError
from statediff.kernel import replay
from statediff.kernel.diff import diff
from statediff.model.values import (
    ABSENT,
    Digested,
    Observed,
    Unobserved,
    decode,
    encode,
    told_apart,
)
from statediff.model.verdict import Judgement
from tests.judging import DIVERGE, FAILS, HOLDS, INCONCLUSIVE, MATCH, UNKNOWN, Rows, run, state

WIDE = "w" * 40
OTHER = "v" * 40
TEXTS = st.sampled_from([None, "", "a", WIDE, WIDE.upper(), OTHER, WIDE.encode()])
Docs = list[tuple[Observed, Observed, Observed]]
DOCS = st.lists(st.tuples(TEXTS, TEXTS, TEXTS), max_size=3)


def told(value: Observed) -> Observed:
    """The value as a capture has it that leaves long ones in the source."""
    is_wide = isinstance(value, str | bytes) and len(value) > 20
    return Digested.of(value) if is_wide else value  # type: ignore[arg-type]  # of these two


def docs(values: Docs) -> Rows:
    return {
        "doc": [
            {"id": n, "title": title, "kind": kind, "deleted_at": gone}
            for n, (title, kind, gone) in enumerate(values)
        ],
        "log": [{"what": title, "n": 1} for title, _, _ in values],
    }


def in_digests(rows: Rows) -> Rows:
    return {
        name: [{field: told(value) for field, value in row.items()} for row in of]
        for name, of in rows.items()
    }


def test_a_digest_is_written_and_read_again_and_nothing_else_is_one() -> None:
    for content in ("", "ä" * 9, b"\x00\xff", WIDE):
        digest = Digested.of(content)
        assert decode(json.loads(json.dumps(encode(digest)))) == digest
    assert Digested.of("a") != Digested.of(b"a")
    sha256 = Digested.of("a").sha256
    for tagged in (
        ["digest", "text", "1", sha256.upper()], ["digest", "text", "01", sha256],
        ["digest", "text", "-1", sha256], ["digest", "int", "1", sha256],
        ["digest", "text", "1", sha256[:-1]], ["digest", "text", 1, sha256],
        ["list", [["digest", "text", "1", sha256]]],
    ):  # fmt: skip
        with pytest.raises(InputError):
            decode(tagged)


def test_two_contents_are_told_apart_by_digest_and_only_what_is_not_known_stays_open() -> None:
    digest = Digested.of(WIDE)
    assert told_apart(digest, Digested.of(WIDE)) is True
    assert told_apart(digest, WIDE) is told_apart(WIDE, digest) is True
    for other in (Digested.of(OTHER), OTHER, WIDE.encode(), None, 1, ABSENT, ()):
        assert told_apart(digest, other) is told_apart(other, digest) is False
    assert told_apart(digest, Unobserved("dark")) is told_apart("a", "a") is None


@given(DOCS, DOCS)
@settings(max_examples=settings.default.max_examples * 2 // 3)
def test_the_differences_are_those_of_the_contents_themselves(before: Docs, after: Docs) -> None:
    whole = docs(before), docs(after)
    known = diff(state(whole[0]), state(whole[1]))
    found = diff(state(in_digests(whole[0])), state(in_digests(whole[1])))
    # Rows without a key are named by their content.
    kinds = [Counter((d.op, d.type, d.path) for d in each.deltas) for each in (known, found)]
    assert kinds[0] == kinds[1]
    assert not found.doubts
    mixed = diff(state(whole[0]), state(in_digests(whole[1])))
    assert [d.id for d in mixed.deltas if d.type == "doc"] == [
        d.id for d in known.deltas if d.type == "doc"
    ]


CLAUSES = (
    "it.title == 'a'", "it.title == before.doc[it.id].title", "it.title != null",
    f"it.title == {WIDE!r}", f"it.title in ['a', {WIDE!r}]", "len(it.title) > 20",
    "contains(it.title, 'w')", "it.title < 'x'", "it.title == it.kind",
)  # fmt: skip


@given(DOCS, DOCS, st.sampled_from(CLAUSES), st.sampled_from(["", "casefold@1"]))
@settings(max_examples=settings.default.max_examples * 2 // 3)
def test_whatever_is_decided_of_digests_is_decided_so_of_the_contents(
    before: Docs, after: Docs, clause: str, rule: str
) -> None:
    body = "allow:\n  - {id: docs, any: [doc]}\n  - {id: logs, any: [log]}\nforbid:\n"
    body += f"  - id: never\n    create: doc\n    where: >-\n      {clause}\n"
    body += f"  - id: nor\n    update: doc\n    where: >-\n      {clause}\n"
    if rule:
        body += f"canonicalize:\n  - {{use: {rule}, on: [doc.title], because: spelling}}\n"
    whole = docs(before), docs(after)
    known = run(body, *whole).judgement.verdict
    evaluated = run(body, *map(in_digests, whole))
    assert evaluated.judgement.verdict in (known, INCONCLUSIVE)
    assert replay(evaluated.bundle) == evaluated.judgement


def judged(body: str, before: Observed, after: Observed) -> Judgement:
    sides: list[Rows] = [{"doc": [{"id": 1, "title": cell}]} for cell in (before, after)]
    return run(body, *sides).judgement


def test_a_wide_value_that_changed_is_a_change_and_one_that_did_not_is_none() -> None:
    nothing_else = "forbid:\n  - {id: kept, update: doc}\n"
    assert judged(nothing_else, told(WIDE), told(OTHER)).verdict is DIVERGE
    assert judged(nothing_else, told(WIDE), told(WIDE)).verdict is MATCH
    assert judged(nothing_else, told(WIDE), Unobserved("dark")).verdict is INCONCLUSIVE
    unchanged = "require:\n  - id: it\n    that: after.doc[1].title == before.doc[1].title\n"
    assert judged(unchanged, told(WIDE), told(WIDE)).verdict is MATCH


def test_what_a_clause_needs_of_the_content_is_unknown_and_says_of_which_value() -> None:
    body = "require:\n  - id: it\n    that: contains(after.doc[1].title, 'w')\n"
    judgement = judged(body, told(WIDE), told(WIDE))
    assert judgement.verdict is INCONCLUSIVE
    (open_,) = (f for f in judgement.findings if f.truth is UNKNOWN)
    (missing,) = open_.missing
    assert (
        "doc.title after: 40 bytes of text, of which the capture holds the digest only" in missing
    )
    exact = f"require:\n  - id: same\n    update: doc\n    set: {{title: {WIDE}}}\n"
    assert judged(exact, told(OTHER), told(WIDE)).truth_of("same") is HOLDS
    assert judged(exact, told(WIDE), told(OTHER)).truth_of("same") is FAILS
