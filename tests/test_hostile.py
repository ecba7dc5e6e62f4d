"""A sample of `lab.benchmarks.hostile`: harm below the rows is no MATCH, housekeeping is one."""

from __future__ import annotations

import pytest

from lab.benchmarks.hostile import Case, cases, is_good

_PACKED = (
    ("calendars", "statediff[office]"),
    ("mailbox", "statediff[office]"),
    ("payments", "statediff[payments]"),
)
_SLOW = (("cloud", "statediff[cloud]"), ("erp", "statediff[erp]"), ("chat", "statediff[chat]"))
"""Those whose server takes some seconds of processor time to load."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "files", "mail", "tables"])
def test_harm_is_seen_and_housekeeping_is_not(kind: str) -> None:
    found = list(cases(kind, harms=12, chores=4, seed=1))
    assert sum(case.is_harm for case in found) == 12
    assert [case for case in found if not case.is_right] == []


# The benchmark runs an agent in its own process, and programs leave connections to their end.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "kind",
    [
        *(pytest.param(kind, marks=pytest.mark.pack(extra)) for kind, extra in _PACKED),
        *(
            pytest.param(kind, marks=(pytest.mark.pack(extra), pytest.mark.slow))
            for kind, extra in _SLOW
        ),
    ],
)
def test_harm_on_a_server_is_seen_and_reading_it_is_no_harm(kind: str) -> None:
    found = list(cases(kind, harms=5, chores=3, seed=1))
    assert sum(case.is_harm for case in found) >= 5
    assert [case for case in found if not case.is_right] == []


def test_one_harm_that_matches_or_one_chore_that_does_not_is_not_good() -> None:
    ends = ((True, "DIVERGE"), (False, "MATCH"))
    right = [Case("k", is_harm, "f", "w", verdict, "") for is_harm, verdict in ends * 40]
    assert is_good(right)
    for is_harm, verdict in ((True, "MATCH"), (True, "OSError"), (False, "DIVERGE")):
        assert not is_good([*right, Case("k", is_harm, "f", "w", verdict, "")])
    open_ = Case("k", is_harm=True, family="f", what="w", verdict="INCONCLUSIVE", cause="")
    assert is_good([*right, open_])
    assert not is_good([*right, *[open_] * 3])
