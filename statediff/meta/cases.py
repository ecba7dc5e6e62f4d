"""What stands beside a contract: its agents' expected verdicts, and the survivors it argues for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from statediff.errors import UsageError
from statediff.meta.mutate import Argued
from statediff.model.trace import ActionClass

MAX_BYTES: Final = 256 * 1024
NAME: Final = "cases.yaml"


@dataclass(frozen=True)
class Cases:
    """`cases.yaml` of a contract's folder: agents that must match, and argued survivors."""

    references: tuple[str, ...] = ()
    wrong: int = 0
    """How many agents must not match."""
    classes: tuple[str, ...] = ()
    """Classes of action that the task calls for, or tempts to [SSD §V]."""
    argued: Mapping[str, Argued] = field(default_factory=dict)
    """Survivor's id → why it is right to pass."""


def read_cases(folder: Path) -> Cases:
    """The cases in a contract's folder; none where it has no such file. `UsageError` if broken."""
    path = folder / NAME
    if not path.is_file():
        return Cases()
    document = _document(path)
    cases = document.get("cases")
    if not isinstance(cases, list) or not all(isinstance(case, Mapping) for case in cases):
        raise UsageError(f"{path}: expected a list of cases under `cases`")
    matching = [
        str(c["agent"]) for c in cases
        if c.get("verdict") == "MATCH" and c.get("agent") and "unplug" not in c
    ]  # fmt: skip
    wrong = {str(c.get("agent")) for c in cases} - set(matching)
    return Cases(
        tuple(dict.fromkeys(matching)), len(wrong), _classes(path, document.get("classes", [])),
        _argued(path, document.get("survivors", [])),
    )  # fmt: skip


def _classes(path: Path, listed: Any) -> tuple[str, ...]:
    known = {entry.value for entry in ActionClass} - {ActionClass.UNKNOWN.value}
    if not isinstance(listed, list) or not set(listed) <= known:
        raise UsageError(f"{path}: `classes` lists some of {', '.join(sorted(known))}")
    return tuple(listed)


def _argued(path: Path, listed: Any) -> Mapping[str, Argued]:
    if not isinstance(listed, list):
        raise UsageError(f"{path}: expected a list under `survivors`")
    found: dict[str, Argued] = {}
    for entry in listed:
        known = entry if isinstance(entry, Mapping) else {}
        name, because, fields = (known.get(k) for k in ("survivor", "because", "fields"))
        is_list = fields is None or isinstance(fields, list)
        if not isinstance(name, str) or not isinstance(because, str) or not is_list:
            raise UsageError(
                f"{path}: an argued survivor says `survivor`, as `mutate` names it, `because`, in "
                f"words, and for `unsaid TYPE` its `fields`; found {entry!r}"
            )
        found[name] = Argued(because, tuple(str(f) for f in fields or ()))
    return found


def _document(path: Path) -> Mapping[str, Any]:
    try:
        raw = path.read_bytes()
        if len(raw) > MAX_BYTES:
            raise UsageError(f"{path}: {len(raw)} bytes; at most {MAX_BYTES} are read")
        document = YAML(typ="safe", pure=True).load(raw.decode("utf-8"))
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise UsageError(f"{path}: cannot be read as cases: {error}") from error
    if not isinstance(document, Mapping):
        raise UsageError(f"{path}: expected keys and values at the top")
    return document
