"""Third-party requirements of our distributions: `python requirements/gather.py statediff[dev]`.

Ours stand for what they require themselves, with the extras named, and are installed from their
folders. Only the standard library is used.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OURS = re.compile(r"(statediff(?:-[a-z]+)?)(?:\[([^\]]*)\])?(?:==.*)?")


def projects() -> dict[str, dict[str, Any]]:
    """Name → the table `project` of each of our distributions."""
    files = [ROOT / "pyproject.toml", *ROOT.glob("*/pyproject.toml")]
    files += ROOT.glob("sandboxes/*/pyproject.toml")
    tables = [tomllib.loads(file.read_text(encoding="utf-8"))["project"] for file in files]
    return {table["name"]: table for table in tables}


def third_party(wanted: str, known: dict[str, dict[str, Any]]) -> Iterator[str]:
    """What a distribution of ours, with its extras, requires of others; another requires itself."""
    found = OURS.fullmatch(wanted.partition(";")[0].strip())
    if found is None:
        yield wanted
        return
    table = known[found[1]]
    extras: dict[str, list[str]] = table.get("optional-dependencies", {})
    lists = [table.get("dependencies", []), *(extras[e] for e in (found[2] or "").split(",") if e)]
    for each in (each for listed in lists for each in listed if each != wanted):
        if OURS.fullmatch(each.partition(";")[0]) and each.partition("==")[0] == "statediff":
            continue  # the core, which is among what is gathered anyway
        yield from third_party(each, known)


if __name__ == "__main__":
    everything = projects()
    lines = {line for name in sys.argv[1:] for line in third_party(name, everything)}
    sys.stdout.write("".join(f"{line}\n" for line in sorted(lines)))
