"""Packs: sandboxes and contracts that come with statediff, as folders of data.

In a checkout they lie beside the package (`sandboxes/`, `contracts/`); in an installed wheel,
inside it (`statediff/_packs/`). Nothing in a pack is ever imported.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from statediff.errors import UsageError

PACK_FILE: Final = "pack.yaml"
CONTRACT_FILE: Final = "contract.yaml"
MAX_PACK_BYTES: Final = 256 * 1024
_VARIANT_KEYS: Final = frozenset({"real", "simulated", "sources"})
_KEYS: Final = _VARIANT_KEYS | {"sandbox", "version", "about"}
EMBEDDED: Final = "embedded"
"""The variant that every pack has: what its own `sources` say, without Docker."""


@dataclass(frozen=True)
class PackSource:
    """One source of a sandbox: its identity, its kind, and the pack's files about it."""

    name: str
    kind: str
    """What serves it, e.g. `sqlite`; see `statediff.systems.base.protocol`."""
    of: str | None = None
    """The source whose system this one looks at too; None for a system of its own."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """What the pack gives it: files and folders, each of which exists."""

    def file(self, key: str) -> Path | None:
        """The file or folder under `key`, if the pack gives one."""
        return self.files.get(key)

    @property
    def schema(self) -> Path | None:
        """The file that refines the schema read from the catalogue."""
        return self.files.get("schema")


@dataclass(frozen=True)
class SandboxPack:
    """A sandbox as its pack describes it; every path exists, `sources` is sorted by name.

    It is one variant of the pack; all variants deliver the same sources of the same schema, so
    that a contract runs on each of them unchanged.
    """

    name: str
    version: str
    about: str
    real: tuple[str, ...]
    simulated: tuple[str, ...]
    sources: tuple[PackSource, ...]
    folder: Path
    variant: str = EMBEDDED
    variants: tuple[str, ...] = (EMBEDDED,)
    """All there are, the embedded one first."""

    @property
    def title(self) -> str:
        """How people call it: `shop`, or `shop/postgres` for a variant."""
        return self.name if self.variant == EMBEDDED else f"{self.name}/{self.variant}"


@dataclass(frozen=True)
class ContractFolder:
    """One task's folder: its contract and the reference and faulty agents that go with it."""

    name: str
    """`pack/task`, e.g. `shop/refund-returned-order`."""
    folder: Path

    @property
    def contract(self) -> Path:
        return self.folder / CONTRACT_FILE

    @property
    def cases(self) -> Path:
        return self.folder / "cases.yaml"

    def agent(self, name: str) -> Path:
        """The program of the agent called `name`; `UsageError` names those there are."""
        known = {path.stem: path for path in sorted((self.folder / "agents").glob("*.py"))}
        if name not in known:
            raise UsageError(f"{self.name} has no agent {name!r}; it has: {', '.join(known)}")
        return known[name]


def packs_folder(kind: str) -> Path:
    """The folder that holds all `sandboxes` or all `contracts`; `UsageError` if there is none."""
    package = Path(str(importlib.resources.files("statediff")))
    for candidate in (package / "_packs" / kind, package.parent / kind):
        if candidate.is_dir():
            return candidate
    raise UsageError(f"no {kind}/ beside the package {package} nor inside it; reinstall statediff")


def sandbox_names() -> tuple[str, ...]:
    """The names of the sandboxes at hand, sorted."""
    found = packs_folder("sandboxes").glob(f"*/{PACK_FILE}")
    return tuple(sorted(path.parent.name for path in found))


def sandbox_pack(name: str, variant: str = EMBEDDED) -> SandboxPack:
    """A variant of the sandbox called `name`; `UsageError` names those there are."""
    known = sandbox_names()
    if name not in known:
        raise UsageError(f"no sandbox {name!r}; there are: {', '.join(known)}")
    return read_pack(packs_folder("sandboxes") / name, variant)


def contract_folders() -> tuple[ContractFolder, ...]:
    """Every task that comes with statediff, sorted by name."""
    root = packs_folder("contracts")
    folders = (path.parent for path in root.glob(f"**/{CONTRACT_FILE}"))
    found = (ContractFolder(folder.relative_to(root).as_posix(), folder) for folder in folders)
    return tuple(sorted(found, key=lambda entry: entry.name))


def contract_folder(name: str) -> ContractFolder:
    """The task called `name`; `UsageError` names those there are."""
    known = {entry.name: entry for entry in contract_folders()}
    if name not in known:
        raise UsageError(f"no contract {name!r}; there are: {', '.join(known)}")
    return known[name]


def read_pack(folder: Path, variant: str = EMBEDDED) -> SandboxPack:
    """A variant of the pack in `folder`, checked; `UsageError` says what is wrong with it.

    A variant's `sources` stand in place of the pack's sources of the same name; its lists `real`
    and `simulated` in place of the pack's.
    """
    path = folder / PACK_FILE
    document = _read_yaml(path)
    _no_other_keys(path, document, _KEYS | {"variants"}, "")
    variants = _mapping(path, document.get("variants", {}), "`variants`")
    known = (EMBEDDED, *sorted(variants))
    if variant not in known:
        name = document.get("sandbox", folder.name)
        raise UsageError(f"{name} has no variant {variant!r}; there are: {', '.join(known)}")
    chosen = _mapping(path, variants.get(variant, {}), f"the variant {variant!r}")
    _no_other_keys(path, chosen, _VARIANT_KEYS, f" in the variant {variant!r}")
    sources = dict(_mapping(path, document.get("sources", {}), "`sources`"))
    sources |= _mapping(path, chosen.get("sources", {}), f"`sources` of the variant {variant!r}")
    if not sources:
        raise UsageError(f"{path}: expected `sources` to name at least one source")
    listed = tuple(_source(path, str(name), sources[name]) for name in sorted(sources))
    systems = {source.name for source in listed if source.of is None}
    for source in listed:
        if source.of is not None and source.of not in systems:
            raise UsageError(f"{path}: {source.name!r} is `of: {source.of}`, which is no system")
    return SandboxPack(
        name=_text(path, document, "sandbox"),
        version=_text(path, document, "version"),
        about=_text(path, document, "about").strip(),
        real=_texts(path, chosen if "real" in chosen else document, "real"),
        simulated=_texts(path, chosen if "simulated" in chosen else document, "simulated"),
        sources=listed,
        folder=folder,
        variant=variant,
        variants=known,
    )


def _no_other_keys(path: Path, entry: Mapping[str, Any], keys: frozenset[str], where: str) -> None:
    unknown = {str(key) for key in entry} - keys
    if unknown:
        raise UsageError(f"{path}: unknown key {min(unknown)!r}{where}")


def _mapping(path: Path, value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise UsageError(f"{path}: expected keys and values under {what}, found {value!r}")
    return value


def _source(path: Path, name: str, entry: object) -> PackSource:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("kind"), str):
        raise UsageError(f"{path}: source {name!r} needs a `kind`, e.g. sqlite")
    of = entry.get("of")
    if of is not None and not isinstance(of, str):
        raise UsageError(f"{path}: `of` of {name!r} names another source, found {of!r}")
    files: dict[str, Path] = {}
    for key, value in entry.items():
        if key in ("kind", "of"):
            continue
        relative = PurePosixPath(str(value))
        if relative.is_absolute() or ".." in relative.parts:
            raise UsageError(f"{path}: {key} of {name!r} must lie inside the pack, found {value!r}")
        files[str(key)] = path.parent / relative
        if not files[str(key)].exists():
            raise UsageError(f"{path}: {key} of {name!r} names {value!r}, which is not there")
    return PackSource(name, entry["kind"], of, files)


def _read_yaml(path: Path) -> Mapping[str, Any]:
    try:
        raw = path.read_bytes()
        if len(raw) > MAX_PACK_BYTES:
            raise UsageError(f"{path}: {len(raw)} bytes; a pack file has at most {MAX_PACK_BYTES}")
        with _READING:  # whoever starts many sandboxes at once asks for the same one many times
            document = _loaded(raw)
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise UsageError(f"{path}: cannot be read as a pack: {error}") from error
    if not isinstance(document, Mapping):
        raise UsageError(f"{path}: expected keys and values at the top")
    return document


_READING: Final = Lock()


@lru_cache(maxsize=16)
def _loaded(raw: bytes) -> Any:
    """What nobody may change: whoever reads the same text gets the same."""
    return YAML(typ="safe", pure=True).load(raw.decode("utf-8"))


def _text(path: Path, document: Mapping[str, Any], key: str) -> str:
    value = document.get(key)
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{path}: expected text under `{key}`, found {value!r}")
    return value


def _texts(path: Path, document: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = document.get(key)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UsageError(f"{path}: expected a list of sentences under `{key}`")
    return tuple(value)
