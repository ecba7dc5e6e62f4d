"""Tables of texts and what is said of them, in a file that `pytest --update` writes anew.

A file has a case a line, as JSON: what is given, then what came of it. A new case is a line that
has the first alone. What an update writes is read before it is committed.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest


def held(request: pytest.FixtureRequest, name: str, said: Callable[[str], Any]) -> None:
    """The file beside the test holds what `said` gives for each of its texts."""
    file = request.path.parent / "golden" / f"{name}.jsonl"
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    found = [[text, said(text)] for text, *_ in lines]
    if request.config.getoption("--update"):
        file.write_text("".join(json.dumps(x, ensure_ascii=False) + "\n" for x in found), "utf-8")
    assert found == lines
