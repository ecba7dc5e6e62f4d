"""Knowledge of one benchmark's domain beside its own files: a pack, which is data.

    contracts/imported/SUITE/DOMAIN/pack.yaml     name, version, sections of every contract
    contracts/imported/SUITE/DOMAIN/schema.yaml   refines the inferred state schema (may be missing)
    contracts/imported/SUITE/DOMAIN/tasks.yaml    what concerns one task (may be missing)

Sections are written in the contract language and become part of the contracts that the reader
composes. `reviewed` says, by task, why runs that the benchmark passes diverge here: a reason to be
read, which changes no verdict. A domain without a pack has an empty one. Why packs are as they
are, and what their versions mean: decision 8.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from statediff.contract.document.schemafile import SchemaFile, load_schema_file
from statediff.errors import UsageError
from statediff.packs import packs_folders

MAX_PACK_BYTES: Final = 1024 * 1024
SECTIONS: Final = (
    "exclude",
    "canonicalize",
    "identify",
    "forbid",
    "require",
    "allow",
    "derive",
    "any_of",
    "disputed",
    "effects",
    "evidence",
    "steps",
    "actions",
    "answer",
)
"""What a pack may add to a contract: keys of the contract language."""
UNVERSIONED: Final = "0.0.0"
"""The version of contracts of a domain that has no pack."""


@dataclass(frozen=True)
class Reviewed:
    """Why runs of a task diverge although the benchmark passes them, as somebody read it."""

    clause: str
    because: str
    on: str = ""
    """Type, or TYPE.FIELD, whose deltas the reason is about; empty for whatever the clause saw."""


@dataclass(frozen=True)
class TaskNotes:
    """The notes of a pack on one task."""

    sections: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    reviewed: tuple[Reviewed, ...] = ()


NO_NOTES: Final = TaskNotes()


@dataclass(frozen=True)
class DomainPack:
    """One pack, read and checked for shape; what its sections say is checked with the contracts."""

    name: str
    version: str = UNVERSIONED
    about: str = ""
    sections: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What the reader of the format wants to know and the contract language has no word for."""
    schema: SchemaFile | None = None
    tasks: Mapping[str, TaskNotes] = field(default_factory=dict)

    def notes(self, task: str) -> TaskNotes:
        """The pack's notes on the task, which are often none."""
        return self.tasks.get(task, NO_NOTES)


def pack_folder(suite: str, domain: str) -> Path:
    """The folder of a domain's pack, if there is one."""
    roots = (root / "imported" for root in packs_folders("contracts"))
    return next(root for root in roots if root.is_dir()) / suite / domain


@lru_cache(maxsize=64)
def open_pack(suite: str, domain: str) -> DomainPack:
    """The pack of a domain; an empty one where none is shipped. `UsageError` if it is damaged."""
    # The domain is a name from a file of runs: it must not lead out of the packs.
    is_name = domain.replace("_", "").replace("-", "").isalnum() and domain.isascii()
    folder = pack_folder(suite, domain)
    if not is_name or not (folder / "pack.yaml").is_file():
        return DomainPack(f"{suite}/{domain}")
    return read_domain_pack(folder)


def read_domain_pack(folder: Path) -> DomainPack:
    """The pack in a folder, checked; `UsageError` names file, key, and what was expected."""
    path = folder / "pack.yaml"
    document = _mapping(_read_yaml(path), str(path))
    _only(document, {"pack", "version", "about", "settings", *SECTIONS}, str(path))
    for key in ("pack", "version", "about"):
        if not isinstance(document.get(key), str):
            raise UsageError(f"{path}: expected text under `{key}`, found {document.get(key)!r}")
    schema = folder / "schema.yaml"
    tasks = folder / "tasks.yaml"
    return DomainPack(
        document["pack"],
        document["version"],
        document["about"].strip(),
        {key: document[key] for key in SECTIONS if key in document},
        _mapping(document.get("settings", {}), f"{path}: settings"),
        load_schema_file(schema) if schema.is_file() else None,
        _tasks(tasks) if tasks.is_file() else {},
    )


def _tasks(path: Path) -> dict[str, TaskNotes]:
    document = _mapping(_read_yaml(path), str(path))
    found = {}
    for name, entry in document.items():
        where = f"{path}: {name}"
        notes = _mapping(entry, where)
        _only(notes, {"settings", "reviewed", *SECTIONS}, where)
        found[str(name)] = TaskNotes(
            {key: notes[key] for key in SECTIONS if key in notes},
            _mapping(notes.get("settings", {}), f"{where}: settings"),
            tuple(_reviewed_reason(item, where) for item in notes.get("reviewed", ())),
        )
    return found


def _reviewed_reason(entry: object, where: str) -> Reviewed:
    item = _mapping(entry, f"{where}: reviewed")
    _only(item, {"clause", "because", "on"}, f"{where}: reviewed")
    texts = [item.get("clause"), item.get("because"), item.get("on", "")]
    if not all(isinstance(text, str) for text in texts) or not all(texts[:2]):
        raise UsageError(f"{where}: a reviewed reason needs `clause` and `because`, in words")
    return Reviewed(*texts)


def _read_yaml(path: Path) -> object:
    try:
        raw = path.read_bytes()
        if len(raw) > MAX_PACK_BYTES:
            raise UsageError(f"{path}: {len(raw)} bytes; a pack file has at most {MAX_PACK_BYTES}")
        return YAML(typ="safe", pure=True).load(raw.decode("utf-8"))
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise UsageError(f"{path}: cannot be read as a pack: {error}") from error


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UsageError(f"{where}: expected keys and values, found {value!r}")
    return value


def _only(found: Mapping[str, Any], known: set[str], where: str) -> None:
    if unknown := set(found) - known:
        raise UsageError(f"{where}: unknown key {min(map(str, unknown))!r}")


# ---------------------------------------------------------------- contracts from parts


def compose_yaml(head: Mapping[str, Any], *sections: Mapping[str, Any]) -> bytes:
    """The contract that the parts make, as YAML somebody can read, judge by and edit.

    Lists of one key follow one another, mappings are merged; otherwise the last part has its say.
    """
    whole: dict[str, Any] = dict(head)
    for part in sections:
        for key, value in part.items():
            known = whole.get(key)
            if isinstance(known, Sequence) and not isinstance(known, str):
                whole[key] = [*known, *value]
            elif isinstance(known, Mapping):
                whole[key] = {**known, **value}
            else:
                whole[key] = value
    stream = io.BytesIO()
    _writer().dump(_plain(whole), stream)
    return stream.getvalue()


def _writer() -> YAML:
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # untyped there
    yaml.allow_unicode = True
    yaml.width = 4096
    # An anchor is nothing a contract may hold.
    yaml.representer.ignore_aliases = lambda *_: True
    yaml.representer.add_representer(Decimal, _decimal)
    return yaml


def _decimal(representer: Any, number: Decimal) -> Any:
    return representer.represent_scalar("tag:yaml.org,2002:float", format(number, "f"))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value
