"""`fmt`: laws over every contract there is, and over scrambled ones with comments in them."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from statediff.contract.authoring.formatting import format_contract
from statediff.contract.document.load import parse_document
from statediff.errors import ContractError

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = sorted((ROOT / "contracts").rglob("contract.yaml"))
UNTIDY = """\
# what this is

version: "1.0.0"   # first
contract: 'notes/close-ticket'
owner:   support
inputs: { ticket: 7,   who: "yes" , zip: '007' }
require:
    # the one thing
    - set: {status: closed}
      update: ticket
      # which
      where: "it.id == input.ticket and it.status == \\"open\\""  # only this
      id: closed

    - {because: nothing else, that: 'all(t.id == 7 or t.status == "open" for t in after.ticket)'}
intent: >
    Close ticket 7 # not a comment
    and change nothing else.
forbid:
- {id: nothing-deleted, delete: [ticket, user]}
answer: {claims: ["answer.n == 1"], schema: {n: int}}
# the end
"""
TIDY = """\
# what this is

contract: notes/close-ticket
version: 1.0.0  # first
owner: support
intent: >
  Close ticket 7 # not a comment
  and change nothing else.
inputs: {ticket: 7, who: "yes", zip: "007"}
forbid:
  - {id: nothing-deleted, delete: [ticket, user]}
require:
  # the one thing
  - id: closed
    update: ticket
    # which
    where: it.id == input.ticket and it.status == "open"  # only this
    set: {status: closed}

  - that: all(t.id == 7 or t.status == "open" for t in after.ticket)
    because: nothing else
answer:
  schema: {n: int}
  claims:
    - answer.n == 1
# the end
"""


def content(data: bytes) -> object:
    source, parsed = parse_document(data, "c.yaml")
    return parsed, source.value


def test_an_untidy_contract_becomes_tidy() -> None:
    assert format_contract(UNTIDY.encode(), "c.yaml").decode() == TIDY
    assert format_contract(TIDY.encode(), "c.yaml").decode() == TIDY


@pytest.mark.parametrize("path", CONTRACTS, ids=lambda p: p.parent.name)
def test_the_contracts_that_come_with_statediff_keep_their_meaning(path: Path) -> None:
    data = path.read_bytes()
    once = format_contract(data, str(path))
    assert content(once) == content(data)
    assert format_contract(once, str(path)) == once
    assert once == data, "run `statediff fmt contracts`"


def scrambled(text: str, seed: int) -> str:
    """The contract with top sections in another order and comments and blank lines put in."""
    rng = random.Random(seed)
    sections: list[list[str]] = []
    for line in text.splitlines():
        if line and not line[0].isspace() and not line.startswith(("#", "-", "}")):
            sections.append([])
        if sections:
            sections[-1].append(line)
    rng.shuffle(sections)
    lines = [line for section in sections for line in section]
    out: list[str] = []
    in_block = -1
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if in_block >= 0 and line.strip() and indent <= in_block:
            in_block = -1
        if in_block < 0 and line.strip():
            following = lines[number + 1] if number + 1 < len(lines) else ""
            inside = line.rstrip().endswith((">", ">-", "|", "|-"))
            if rng.random() < 0.15:
                out.append(" " * indent + f'# above {number}: it\'s "quoted" {{')
            if rng.random() < 0.1:
                out.append("")
            plain = (
                ":" in line and not inside and len(following) - len(following.lstrip()) <= indent
            )
            if plain and rng.random() < 0.15 and "#" not in line:
                out.append(f"{line}  # beside {number}")
                continue
            if inside:
                in_block = indent
        out.append(line)
    return "\n".join(out) + "\n"


@pytest.mark.slow
@given(st.integers(0, 10**9), st.sampled_from(CONTRACTS))
def test_formatting_keeps_meaning_and_comments_and_is_idempotent(seed: int, path: Path) -> None:
    text = scrambled(path.read_text(encoding="utf-8"), seed)
    once = format_contract(text.encode(), "c.yaml")
    assert content(once) == content(text.encode())
    assert format_contract(once, "c.yaml") == once
    for line in text.splitlines():
        comment = line.partition("# above")[1:] or line.partition("# beside")[1:]
        assert "".join(comment) in once.decode()


SCALARS = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=40),
    st.sampled_from(
        ["yes", "null", "~", "0x10", "1.0", "- a", "a: b", "a #b", "[x", "{y", "'", '"']
    ),
    st.integers(-(10**9), 10**9),
    st.booleans(),
    st.none(),
)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), SCALARS, max_size=5))
def test_any_value_an_input_can_have_survives(inputs: dict[str, object]) -> None:
    text = UNTIDY.replace(
        "{ ticket: 7,   who: \"yes\" , zip: '007' }", json.dumps({**inputs, "ticket": 7})
    )
    try:
        before = content(text.encode())
    except ContractError:
        return  # e.g. an input with a character that is refused
    once = format_contract(text.encode(), "c.yaml")
    assert content(once) == before
    assert format_contract(once, "c.yaml") == once


HEAD = """\
contract: a/b
version: 1.0.0
owner: x
intent: show where comments may be
"""
FORBID = """\
forbid:
  - {id: f, delete: user}
"""


@pytest.mark.parametrize(
    ("text", "tidy"),
    [
        ("answer:\n  schema: {it's: int} # c\n", 'answer:\n  schema: {"it\'s": int}  # c\n'),
        (
            'answer:\n  schema:\n    "a\\" # b": int # c\n    d: int\n',
            "answer:\n  schema:\n    'a\" # b': int  # c\n    d: int\n",
        ),
        (
            "answer:\n  claims: [#2\n    'a == b',#3\n    'c == d'#4\n  ]\n",
            "answer:\n  claims:  #2\n    - a == b  #3\n    - c == d  #4\n",
        ),
        (
            "answer:\n  claims:\n  - | # c\n    a\n    # b\n  # d\n",
            "answer:\n  claims:\n    - |  # c\n      a\n      # b\n# d\n",
        ),
        (
            "answer:\n  claims:\n  - 'a\n\n    # b' # c\n",
            'answer:\n  claims:\n    - "a\\n# b"  # c\n',
        ),
    ],
)
def test_comments_are_kept_whatever_is_quoted_before_them(text: str, tidy: str) -> None:
    once = format_contract((HEAD + FORBID + text).encode(), "c.yaml").decode()
    assert once == HEAD + FORBID + tidy
    assert format_contract(once.encode(), "c.yaml").decode() == once


def test_a_comment_at_the_end_of_a_file_without_a_line_end_is_kept() -> None:
    once = format_contract((HEAD + FORBID + "inputs:\n  x: | # c").encode(), "c.yaml").decode()
    assert once == HEAD + 'inputs:\n  x: ""  # c\n' + FORBID


INSERTED = st.sampled_from(
    ["", "\n", "\n\n", "  # x", " # it's", "\n# y\n", "\n      # z\n", "\n    # z\n\n", "  ", "\r"]
)


@given(st.dictionaries(st.integers(0, UNTIDY.count("\n") - 1), INSERTED, max_size=6))
@example({11: "\n"})  # a blank line above a key that comes first afterwards
def test_whatever_its_layout_a_formatted_contract_stays_as_it_is(after: dict[int, str]) -> None:
    lines = UNTIDY.splitlines()
    text = "".join(f"{line}{after.get(number, '')}\n" for number, line in enumerate(lines))
    try:
        before = content(text.encode())
    except ContractError:
        return  # e.g. a line between the parts of a scalar
    once = format_contract(text.encode(), "c.yaml")
    assert content(once) == before
    assert format_contract(once, "c.yaml") == once


@pytest.mark.slow
def test_formatting_takes_time_in_proportion_to_the_file() -> None:
    members = "".join(f"  k{i}: [1, {{a: 2}}] # c\n  # d\n" for i in range(3000))
    data = (HEAD + "inputs:\n" + members + FORBID).encode()
    started = time.process_time()
    parse_document(data, "c.yaml")
    read = time.process_time() - started
    format_contract(data, "c.yaml")
    # Two readings and two scans: 4 readings on an idle machine. It was 16 when every collection
    # looked through all paths of the document.
    assert time.process_time() - started < 10 * read


def test_what_does_not_parse_is_refused() -> None:
    with pytest.raises(ContractError):
        format_contract(b"contract: [", "c.yaml")
