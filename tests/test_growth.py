"""The work of reading and judging grows with what an agent or an author wrote, and no faster."""

from __future__ import annotations

import email
import itertools
import math
import random
from email.message import Message

import pytest
from statediff_office.mail.parsing import MAX_NESTING, _Parser, parse_message

from lab.benchmarks.growth import CASES, CHANGED, CLAUSES, REPEATS, SIZES, Case, exponent, points

BYTES = (20_000, 60_000, 180_000, 540_000)
OF_YAML = (10_000, 30_000, 90_000, 250_000)
SHORTER = {CLAUSES: (100, 300, 1_000), CHANGED: (1_000, 3_000, 10_000)}
TRIES = 6
BESIDE_OTHERS = 0.15
"""What caches that others use, too, may add; a careless reader adds 0.5 or more. The benchmark,
on a machine of its own, allows nothing of it."""


def _words(text: str) -> list[dict[str, int]]:
    """The length of each word, a line an object."""
    lines = (line.replace(";", ",").split(",") for line in text.split("\n"))
    return [{word: len(word) for word in words} for words in lines]


FLOOR = Case("words of lines", lambda size: "a,bc;d\n" * (size // 7), _words)
"""Linear work, measured beside each case: where others work on the machine, that grows faster too.
"""


def sizes_of(case: Case) -> tuple[int, ...]:
    if case.sizes != SIZES:
        return SHORTER[tuple(case.sizes)]
    return OF_YAML if case.name.startswith("YAML") else BYTES


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_work_is_linear_in_the_size(case: Case) -> None:
    rounds = zip(points(case, sizes_of(case)), points(FLOOR, BYTES), strict=False)
    found, floor = math.inf, 1.0
    for _ in range(TRIES):
        *_, (least, beside) = itertools.islice(rounds, REPEATS)
        found, floor = exponent(least), exponent(beside)
        if found <= case.most:
            break
    assert found <= case.most + BESIDE_OTHERS + max(0, floor - 1)


def _shape(message: Message) -> object:
    content = message.get_payload()
    inner = [_shape(each) for each in content] if isinstance(content, list) else content
    return message.items(), message.preamble, message.epilogue, inner


def test_boundaries_are_found_as_the_library_finds_them() -> None:
    drawn = random.Random(20261128)
    names = ("a", "a-", "a--", "b", "--", "a b", "")
    heads = [f'Content-Type: multipart/mixed; boundary="{n}"\n\n' for n in names]
    ends = ("", " ", "\t ", "--", "-- ", "- -", "x")
    lines = [f"--{n}{end}{line}" for n in names for end in ends for line in ("\n", "\r\n", "\r")]
    for _ in range(2_000):
        pieces = [drawn.choice(heads if drawn.random() < 0.3 else lines) for _ in range(12)]
        text = drawn.choice(heads) + "".join(pieces) + drawn.choice(("", "--a", "text"))
        raw = text.encode()
        assert _shape(_Parser().message(raw)) == _shape(email.message_from_bytes(raw))


def test_a_letter_of_more_levels_is_refused_before_it_is_read() -> None:
    levels = b"".join(
        b'Content-Type: multipart/mixed; boundary="b%d"\n\n--b%d\n' % (each, each)
        for each in range(MAX_NESTING + 1)
    )
    found = parse_message(levels + b"\n" + b"x\n" * 100)
    assert "more than 32 levels" in str(found.body)
