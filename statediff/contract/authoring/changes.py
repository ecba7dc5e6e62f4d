"""The changes between two versions of a contract, a state schema file or a pack.

Every change is of one class: it touches the *task semantics* (which runs match), the *evidence
collection* (what must be observed, how fresh, where it is read), or the *presentation* only. The
class demands the part of the version that must be raised: major, minor, patch. What is not known to
be harmless counts as semantics.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeGuard


class Touches(Enum):
    """The subjects that a change touches, gravest first."""

    SEMANTICS = "task semantics"
    EVIDENCE = "evidence collection"
    PRESENTATION = "presentation only"


BUMP: Final = {
    Touches.SEMANTICS: "major",
    Touches.EVIDENCE: "minor",
    Touches.PRESENTATION: "patch",
}
"""The part of the version that must rise, at least."""

Path = tuple[str, ...]
_ABSENT: Final = object()


@dataclass(frozen=True)
class Change:
    """One thing that is different; `before` or `after` None where it was not there."""

    area: str
    where: str
    kind: str
    touches: Touches
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Comparison:
    """Two versions of one document: their names, every change, and what the version should say."""

    kind: str
    old: str
    new: str
    old_version: str
    new_version: str
    same_bytes: bool
    changes: tuple[Change, ...]

    @property
    def touches(self) -> Touches | None:
        """The gravest class of change; None where nothing changed but the version."""
        present = {change.touches for change in self.changes}
        if not present and not self.same_bytes:
            return Touches.PRESENTATION  # comments, order, quotes
        return next((t for t in Touches if t in present), None)

    @property
    def bump(self) -> str | None:
        """The part of the version that has to be raised, at least: major, minor or patch."""
        return None if self.touches is None else BUMP[self.touches]

    @property
    def is_raised_enough(self) -> bool:
        """True if the new version is one that the changes allow."""
        if self.old != self.new:
            return True  # another contract has versions of its own
        before, after = _numbers(self.old_version), _numbers(self.new_version)
        if self.bump is None:
            return after >= before
        rises = slice(("major", "minor", "patch").index(self.bump) + 1)
        return after[rises] > before[rises]

    @property
    def least_version(self) -> str:
        """The least version that the changes allow."""
        major, minor, patch = _numbers(self.old_version)
        return {
            "major": f"{major + 1}.0.0",
            "minor": f"{major}.{minor + 1}.0",
            "patch": f"{major}.{minor}.{patch + 1}",
            None: self.old_version,
        }[self.bump]


def _numbers(version: str) -> tuple[int, int, int]:
    found = re.fullmatch(r"([0-9]+)\.([0-9]+)\.([0-9]+)", version)
    return (int(found[1]), int(found[2]), int(found[3])) if found else (0, 0, 0)


_NAMES_OF_THE_AUTHOR: Final = ("inputs", "set", "from", "schema", "match_on")


def compare_contracts(
    old: Mapping[str, Any], new: Mapping[str, Any], same_bytes: bool
) -> Comparison:
    """Every change between two contracts, as plain values."""
    told_by_intent = "prompt" not in old or "prompt" not in new

    def touches(path: Path) -> Touches:
        is_named = any(step in _NAMES_OF_THE_AUTHOR for step in path[:-1])
        is_said = path[-1] in ("because", "id") and not is_named
        if is_said or path in (("owner",), ("frame", "open")):
            return Touches.PRESENTATION
        if path == ("intent",) and not told_by_intent:
            return Touches.PRESENTATION
        is_evidence = path[0] == "evidence"
        return Touches.EVIDENCE if is_evidence else Touches.SEMANTICS

    areas = {"identify": "resolver", "exclude": "boundary", "sandbox": "pack"}
    changes = _changes(old, new, touches, lambda path: areas.get(path[0], path[0]))
    return _compared("contract", "contract", old, new, same_bytes, changes)


_MAPPING: Final = ("table", "column", "source", "digest_above_bytes")
"""Keys that say where and how much is read; another value there changes no meaning."""


def compare_schemas(old: Mapping[str, Any], new: Mapping[str, Any], same_bytes: bool) -> Comparison:
    """Every change between two state schema files, as plain values."""

    def touches(path: Path) -> Touches:
        return Touches.EVIDENCE if path[-1] in _MAPPING else Touches.SEMANTICS

    changes = _changes(old, new, touches, lambda _path: "schema")
    return _compared("state schema", "schema", old, new, same_bytes, changes)


def compare_packs(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    files: tuple[Mapping[str, str], Mapping[str, str]],
    schemas: tuple[Comparison, ...] = (),
) -> Comparison:
    """Every change between two packs; `files` are the digests of what each holds, by path.

    A schema file that both hold is compared as one (`schemas`), not by its digest.
    """

    def touches(path: Path) -> Touches:
        if path[0] in ("about", "real", "simulated"):
            return Touches.PRESENTATION
        return Touches.EVIDENCE if path[0] == "sources" else Touches.SEMANTICS

    changes = list(_changes(old, new, touches, lambda _path: "pack"))
    changes += _changes(
        {"files": dict(files[0])},
        {"files": dict(files[1])},
        lambda _path: Touches.SEMANTICS,
        lambda _path: "base state",
    )
    changes += [change for schema in schemas for change in schema.changes]
    is_same = old == new and files[0] == files[1]
    return _compared("pack", "sandbox", old, new, is_same, changes)


def _compared(
    kind: str,
    key: str,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    same_bytes: bool,
    changes: Iterable[Change],
) -> Comparison:
    """The comparison of two documents whose names are under the key."""
    return Comparison(
        kind,
        str(old.get(key)),
        str(new.get(key)),
        str(old.get("version")),
        str(new.get("version")),
        same_bytes,
        tuple(changes),
    )


def _changes(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    touches: Callable[[Path], Touches],
    area: Callable[[Path], str],
) -> Iterator[Change]:
    for path, before, after in differences(old, new):
        if path == ("version",):
            continue
        kind = "added" if before is _ABSENT else "removed" if after is _ABSENT else "changed"
        where = ".".join(path)
        yield Change(area(path), where, kind, touches(path), _show(before), _show(after))


def differences(old: Any, new: Any, path: Path = ()) -> Iterator[tuple[Path, Any, Any]]:
    """Every difference as (path, before, after); lists of named things are compared by name."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys((*old, *new)):
            yield from differences(old.get(key, _ABSENT), new.get(key, _ABSENT), (*path, str(key)))
    elif _has_names(old) and _has_names(new):
        left, right = {_name(item): item for item in old}, {_name(item): item for item in new}
        for name in dict.fromkeys((*left, *right)):
            yield from differences(
                left.get(name, _ABSENT), right.get(name, _ABSENT), (*path, str(name))
            )
    elif repr(old) != repr(new):  # 1 is not true, and 1.0 is written otherwise than 1.00
        yield path, old, new


def _has_names(value: Any) -> TypeGuard[list[Any]]:
    """True if it is a list whose every item has a name of its own."""
    if not isinstance(value, list):
        return False
    names = [_name(item) for item in value]
    return None not in names and len(set(names)) == len(names)


def _name(item: Any) -> str | None:
    if not isinstance(item, dict):
        return None
    for key in ("id", "what", "on", "type"):
        if isinstance(item.get(key), str):
            return str(item[key])
    if "use" in item:
        return f"{item['use']} on {json.dumps(item.get('on'))}"
    return None


def _show(value: Any) -> str | None:
    if value is _ABSENT:
        return None
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
