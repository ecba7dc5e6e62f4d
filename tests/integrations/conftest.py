"""Sessions of pytest within pytest, with our plugin as an installed statediff has it."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest

# Inner sessions forget what they import, and numpy cannot be imported twice.
import statediff.integrations.pytest_trials
import statediff.reports.text  # noqa: F401 - as above
from tests.tickets import CLOSE

PLUGIN = "statediff.integrations.pytest_plugin"
UNDECIDED = CLOSE + "evidence: {tables: {history: required}}\n"
"""What two states alone do not show is required."""
BEFORE = '{"ticket": [{"id": 7, "status": "open"}]}'
AFTER = {
    "match": '{"ticket": [{"id": 7, "status": "closed"}]}',
    "diverge": BEFORE,
    "inconclusive": '{"ticket": [{"id": 7, "status": "closed"}]}',
}


@pytest.fixture
def options() -> tuple[str, ...]:
    """The options that load the plugin where the installed metadata does not name it yet."""
    is_known = any(point.value == PLUGIN for point in entry_points(group="pytest11"))
    return ("-p", "no:cacheprovider", *(() if is_known else ("-p", PLUGIN)))


def put_states(folder: Path, *verdicts: str) -> None:
    """A contract with states beside it for each verdict."""
    for verdict in verdicts:
        (folder / f"{verdict}.contract.yaml").write_text(
            UNDECIDED if verdict == "inconclusive" else CLOSE
        )
        (folder / f"{verdict}.before.json").write_text(BEFORE)
        (folder / f"{verdict}.after.json").write_text(AFTER[verdict])
