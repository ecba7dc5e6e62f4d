"""`fmt`: laws over every contract there is, and over scrambled ones with comments in them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff.contract.formatting import formatted
from statediff.contract.load import parse_document
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
    assert formatted(UNTIDY.encode(), "c.yaml").decode() == TIDY
    assert formatted(TIDY.encode(), "c.yaml").decode() == TIDY


@pytest.mark.parametrize("path", CONTRACTS, ids=lambda p: p.parent.name)
def test_the_contracts_that_come_with_statediff_keep_their_meaning(path: Path) -> None:
    data = path.read_bytes()
    once = formatted(data, str(path))
    assert content(once) == content(data)
    assert formatted(once, str(path)) == once
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


@given(st.integers(0, 10**9), st.sampled_from(CONTRACTS))
def test_formatting_keeps_meaning_and_comments_and_is_idempotent(seed: int, path: Path) -> None:
    text = scrambled(path.read_text(encoding="utf-8"), seed)
    once = formatted(text.encode(), "c.yaml")
    assert content(once) == content(text.encode())
    assert formatted(once, "c.yaml") == once
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
    once = formatted(text.encode(), "c.yaml")
    assert content(once) == before
    assert formatted(once, "c.yaml") == once


def test_what_does_not_parse_is_refused() -> None:
    with pytest.raises(ContractError):
        formatted(b"contract: [", "c.yaml")
