"""Conformance of a residue: any two contents have two, and noise counts for nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

EDITS: Final = 2000
"""Random edits of the samples together."""
_TOKENS: Final = (
    b" ",
    b"\n",
    b"\r\n",
    b",",
    b";",
    b":",
    b'"',
    b"\\",
    b"\t",
    b"=",
    b"0",
    b"X-A:1\n",
)


class ResidueSuite:
    """The suite of a reader of texts: `seen` gives all that it shows of one, by type."""

    samples: ClassVar[tuple[bytes, ...]]
    """Contents as programs write them."""
    noise: ClassVar[frozenset[str]]
    """The types outside the boundary: how something is written, or by what."""

    def seen(self, content: bytes) -> Mapping[str, Any]:
        """Type → its rows. Raises `ValueError` or an `OSError` where it is refused."""
        raise NotImplementedError("say how a content is read")

    def meaning(self, content: bytes) -> Any:
        """A value that contents share where noise alone differs; not by means of the reader's."""
        raise NotImplementedError("say what spellings mean the same, e.g. by sorting the lines")

    def test_of_random_edits_none_is_unseen_and_none_that_counts_is_noise(self) -> None:
        draw = random.Random(7)  # noqa: S311 - edits, no secrets
        known = {each: self._seen(each) for each in self.samples}
        for number in range(EDITS):
            before = self.samples[number % len(self.samples)]
            self.check(before, edited(before, draw.randrange), known[before])

    def test_along_random_edits_each_step_is_seen(self) -> None:
        from hypothesis import HealthCheck, settings  # noqa: PLC0415 - not in all environments
        from hypothesis import strategies as st  # noqa: PLC0415
        from hypothesis.stateful import (  # noqa: PLC0415
            RuleBasedStateMachine,
            invariant,
            rule,
            run_state_machine_as_test,
        )

        suite = self

        class Edits(RuleBasedStateMachine):
            def __init__(self) -> None:
                super().__init__()
                self.before = self.content = suite.samples[0]

            @rule(data=st.data())
            def edit(self, data: st.DataObject) -> None:
                last = lambda most: data.draw(st.integers(0, most - 1))  # noqa: E731
                self.before, self.content = self.content, edited(self.content, last)

            @invariant()
            def is_seen(self) -> None:
                suite.check(self.before, self.content, suite._seen(self.before))

        known = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=20)
        run_state_machine_as_test(Edits, settings=known)

    def check(self, before: bytes, after: bytes, one: Mapping[str, Any] | None) -> None:
        """An edit is refused, or seen; what is seen as noise alone means the same."""
        other = self._seen(after)
        if before == after:
            assert one == other
        elif one is not None and other is not None:
            assert one != other, f"nothing is seen of {after!r}"
            if {n: rows for n, rows in one.items() if n not in self.noise} == {
                n: rows for n, rows in other.items() if n not in self.noise
            }:
                assert self.meaning(before) == self.meaning(after), f"taken for noise: {after!r}"

    def _seen(self, content: bytes) -> Mapping[str, Any] | None:
        try:
            return self.seen(content)
        except (ValueError, OSError, KeyError, TypeError, AttributeError, IndexError):
            return None


def edited(content: bytes, draw: Callable[[int], int]) -> bytes:
    """The content after one edit of bytes, of a line, or of a name; `draw` gives a number below."""
    if not content:
        return b"x"
    at, lines = draw(len(content)), content.splitlines(keepends=True)
    line, other = draw(len(lines)), draw(len(lines))
    match draw(7):
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
        case _:
            return b"".join([*lines[:line], lines[line].swapcase(), *lines[line + 1 :]])
