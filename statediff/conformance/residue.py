"""The law of a reader's view and residue: together they are the text that was read."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

EDITS: Final = 2000
"""Random edits of the samples together."""
_TOKENS: Final = (
    *(b" ", b"\n", b"\r\n", b"\t", b",", b";", b":", b'"', b"\\", b"=", b"0", b".0"),
    *(b"X-A:1\n", b"X-A;B=", b"A=B:", b"a."),
)
FAULTS: Final = (ValueError, OSError, KeyError, TypeError, AttributeError, IndexError)
"""Errors of a reader that refuses a text."""


class ResidueSuite:
    """The suite of a reader of texts; the parts of a residue are given before their digest.

    `write(view, residue) == content`, so no two contents have one view and one residue. Written
    without the parts outside the boundary, a content means the same, and shows the same.
    """

    samples: ClassVar[tuple[bytes, ...]]
    """Contents as programs write them."""
    noise: ClassVar[frozenset[str]] = frozenset()
    """The parts outside the boundary: how something is written, or by what."""

    def read(self, content: bytes) -> tuple[Any, Mapping[str, bytes]]:
        """The view, in which no order counts that means nothing, and the residue by named part.

        Raises one of `FAULTS` where the content is refused.
        """
        raise NotImplementedError("a subclass defines how a content is read")

    def write(self, view: Any, residue: Mapping[str, bytes]) -> bytes:
        """The content; of a part that is not there, as programs write it by default."""
        raise NotImplementedError("a subclass defines how a view is written")

    def meaning(self, content: bytes) -> Any:
        """A value that contents share where noise alone differs; not by means of the reader's."""
        return content

    def check(self, content: bytes) -> None:
        """The law, of one content."""
        try:
            view, residue = self.read(content)
        except FAULTS:
            return
        assert self.write(view, residue) == content, f"something is unseen of {content!r}"
        counts = {name: part for name, part in residue.items() if name not in self.noise}
        plain = self.write(view, counts)
        assert self.meaning(plain) == self.meaning(content), f"taken for noise: {content!r}"
        assert self.read(plain)[0] == view, f"{content!r} is shown otherwise as {plain!r}"

    def test_samples_and_random_edits_of_them_are_what_is_shown_and_left(self) -> None:
        draw = random.Random(7)  # noqa: S311 - edits, no secrets
        for sample in self.samples:
            assert self.read(sample)
            self.check(sample)
        for number in range(EDITS):
            sample = self.samples[number % len(self.samples)]
            self.check(edited(sample, draw.randrange))

    def test_along_random_edits_each_step_is_what_is_shown_and_left(self) -> None:
        from hypothesis import HealthCheck, settings, stateful  # noqa: PLC0415 - not in all environments
        from hypothesis import strategies as st  # noqa: PLC0415

        suite = self

        class Edits(stateful.RuleBasedStateMachine):
            @stateful.initialize(sample=st.sampled_from(self.samples))
            def begin(self, sample: bytes) -> None:
                self.content = sample

            @stateful.rule(data=st.data())
            def edit(self, data: st.DataObject) -> None:
                last = lambda most: data.draw(st.integers(0, most - 1))  # noqa: E731
                self.content = edited(self.content, last)

            @stateful.invariant()
            def is_all(self) -> None:
                suite.check(self.content)

        known = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=20)
        stateful.run_state_machine_as_test(Edits, settings=known)


def edited(content: bytes, draw: Callable[[int], int]) -> bytes:
    """The content after one edit of bytes, of a line, or of a name; `draw` gives a number below."""
    if not content:
        return b"x"
    at, lines = draw(len(content)), content.splitlines(keepends=True)
    line, other = draw(len(lines)), draw(len(lines))
    match draw(8):
        case 0:
            return content[:at] + bytes([draw(256)]) + content[at + 1 :]
        case 1:
            return content[:at] + content[at + 1 + draw(3) :]
        case 2:
            return content[:at] + _TOKENS[draw(len(_TOKENS))] + content[at:]
        case 3:
            return b"".join(lines[:line] + lines[line + 1 :])
        case 4:
            return b"".join([*lines[:line], lines[other], *lines[line:]])
        case 5:
            lines[line], lines[other] = lines[other], lines[line]
            return b"".join(lines)
        case 6:
            marks = [n for n, each in enumerate(content) if each in b",;:=." or n == at]
            first, last = sorted(marks[draw(len(marks))] for _ in "ab")
            one, two = content[first : first + 1], content[last : last + 1]
            return content[:first] + two + content[first + 1 : last] + one + content[last + 1 :]
        case _:
            return b"".join([*lines[:line], lines[line].swapcase(), *lines[line + 1 :]])
