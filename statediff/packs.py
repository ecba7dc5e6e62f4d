"""Sandboxes and contracts as folders of data: those that come with statediff, and a project's own.

In a checkout ours are beside the package (`sandboxes/`, `contracts/`). A wheel has them inside it
(`_packs/`): the core its own, and each distribution of the group `statediff.packs` those of its
systems. Nothing in a pack is ever imported.
"""

from __future__ import annotations

import ast
import importlib.resources
import importlib.util
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from statediff.contract.document.refinement import refine
from statediff.contract.document.sandboxfile import (
    Keep,
    OtherEntry,
    SandboxDocument,
    ToolEntry,
    VariantEntry,
    load_sandbox_file,
)
from statediff.contract.document.schemafile import load_schema_file
from statediff.contract.yaml.reader import Document, NodePath
from statediff.contract.yaml.shape import closest
from statediff.entrypoints import plug_ins
from statediff.errors import ContractError, UsageError
from statediff.extras import brought
from statediff.model.schema import Schema
from statediff.model.values import printable

if TYPE_CHECKING:
    from statediff.contract.file import ContractFile

PACKS_GROUP: Final = "statediff.packs"
PACK_FILE: Final = "pack.yaml"
CONTRACT_FILE: Final = "contract.yaml"
AGENTS_FILE: Final = "agents.py"
"""The agents of a contract, beside it: each public function without arguments is one."""
SANDBOX_FILE: Final = "sandbox.yaml"
ONE_FILE: Final = ".sandbox.yaml"
"""How a file in `sandboxes/` ends that is a sandbox without a folder of its own."""
_SUFFIXES: Final = (".yaml", ".yml")
_TEXTS: Final = ("url", "agent_url", "up", "reset", "down", "timeout")
"""Keys of a source whose values are not the paths of files."""
EMBEDDED: Final = "embedded"
"""The variant that every pack has: what its own `sources` say, without Docker."""


@dataclass(frozen=True)
class PackSource:
    """One source of a sandbox: its identity, its kind, and the pack's files about it."""

    name: str
    kind: str
    """The kind of system, e.g. `sqlite`; see `statediff.systems.base.protocol`."""
    of: str | None = None
    """The source whose system this one looks at too; None for a system of its own."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """The files and folders of the pack for it, each of which exists but for `base`."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """The texts of the sandbox file for it beside files: URLs and commands, by key."""
    tools: tuple[str, ...] | None = None
    """The tools that agents are offered, by their verbs; None for all there are."""
    folder: Path = Path()
    """That of the sandbox file: URLs without a scheme and commands start here."""
    types: str | None = None
    """The beginning of the names of its types; None: as its kind says."""
    place: tuple[Document, NodePath] | None = field(default=None, repr=False, compare=False)
    """The place of its description; None where no file has one."""
    keep: Keep | None = None
    """The references of a repository that are copied beside what leads to its base."""

    def problem(
        self, key: str, message: str, hint: str = "", *, at_key: bool = False
    ) -> UsageError:
        """The problem of a key, at its place; to be raised."""
        if self.place is None:
            named = "" if repr(self.name) in message else f"source {self.name!r}: "
            return UsageError(f"{named}{message}{hint and '; '}{hint}")
        document, at = self.place
        return ContractError((document.problem((*at, key), message, hint=hint, at_key=at_key),))

    def file(self, key: str) -> Path | None:
        """The file or folder under `key`, if the pack gives one."""
        return self.files.get(key)

    @property
    def schema(self) -> Path | None:
        """The file that refines the schema read from the catalogue."""
        return self.files.get("schema")

    def refinement(self) -> Callable[[Schema], Schema] | None:
        """Refines the catalogue's schema to the logical one; None: it is the catalogue's."""
        return None if self.schema is None else refine(load_schema_file(self.schema), self.name)


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
    file: Path = Path()
    variant: str = EMBEDDED
    variants: tuple[str, ...] = (EMBEDDED,)
    """All there are, the embedded one first."""
    tools: tuple[ToolEntry, ...] = ()
    """The tools of its own, beside those of its systems."""
    others: Mapping[str, OtherEntry] = field(default_factory=dict)
    """Who works in it while an agent does, by name, and what they do."""
    amounts: frozenset[tuple[str, str]] = frozenset()
    """(type, field) of the fields to which several add."""

    @property
    def is_outside(self) -> bool:
        """True if it starts programs, or is made in a system that others use too."""
        return any(source.texts for source in self.sources)

    @property
    def is_single(self) -> bool:
        """True if there can be one at a time only: its systems are where they are."""
        return any(source.kind == "external" for source in self.sources)

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

    def agent(self, name: str) -> tuple[str, ...]:
        """The command of the agent called `name`; `UsageError` names those there are."""
        return agent_command(self.folder, name)


def agents_in(folder: Path) -> dict[str, str]:
    """Name → docstring of the agents of a contract's folder, in their order.

    Nothing is imported. `UsageError` where the file is no Python.
    """
    file = folder / AGENTS_FILE
    try:
        body = ast.parse(file.read_bytes(), str(file)).body if file.is_file() else []
    except (OSError, SyntaxError, ValueError) as error:
        raise UsageError(f"{file}: cannot be read as Python: {printable(str(error))}") from error
    functions = [each for each in body if isinstance(each, ast.FunctionDef)]
    return {
        each.name: ast.get_docstring(each) or ""
        for each in functions
        if not each.name.startswith("_") and not ast.unparse(each.args)
    }


def agent_command(folder: Path, name: str) -> tuple[str, ...]:
    """Runs the agent of a contract's folder by this Python; `UsageError` names those there are."""
    known = agents_in(folder)
    if name not in known:
        raise UsageError(
            f"{printable(name)}: expected module:function or an agent of the contract's folder; "
            f"there are: {', '.join(known) or 'none'}; --agent-cmd takes a command"
        )
    runner = Path(__file__).parent / "agents" / "acting.py"
    return (sys.executable, "-B", "-P", str(runner), str((folder / AGENTS_FILE).absolute()), name)


def packs_folders(kind: str) -> tuple[Path, ...]:
    """The folders that hold `sandboxes`, `contracts` or other data that come with statediff.

    In a checkout one: the packs of all its distributions, installed or not. `UsageError` if there
    is none.
    """
    package = Path(str(importlib.resources.files("statediff")))
    if (beside := package.parent / kind).is_dir():
        return (beside,)
    packages = (package, *_packages_with_packs(tuple(sys.path)))
    if found := tuple(folder for each in packages if (folder := each / "_packs" / kind).is_dir()):
        return found
    raise UsageError(f"no {kind}/ beside the package {package} nor inside it; reinstall statediff")


def packs_folder(kind: str) -> Path:
    """The first of them, which is the core's own."""
    return packs_folders(kind)[0]


@cache
def _packages_with_packs(_path: tuple[str, ...]) -> tuple[Path, ...]:
    """The packages that installed distributions say have packs; none of them is imported."""
    named = (plug_in.module for plug_in in plug_ins(PACKS_GROUP).values())
    specs = (importlib.util.find_spec(module) for module in named)
    return tuple(Path(spec.origin).parent for spec in specs if spec is not None and spec.origin)


def sandbox_folders() -> Mapping[str, Path]:
    """Name → folder of the sandboxes that come with statediff, sorted by name.

    A pack is `sandboxes/NAME` or, in a checkout, in the folder of its distribution.
    """
    found: dict[str, Path] = {}
    for root in packs_folders("sandboxes"):
        for depth in ("*", "*/*"):
            found |= {path.parent.name: path.parent for path in root.glob(f"{depth}/{PACK_FILE}")}
    return {name: found[name] for name in sorted(found)}


def sandbox_names() -> tuple[str, ...]:
    """The names of the sandboxes that come with statediff, sorted."""
    return tuple(sandbox_folders())


def sandbox_pack(name: str, variant: str = EMBEDDED) -> SandboxPack:
    """A variant of the sandbox: one that comes with statediff, or the file at an absolute path.

    `UsageError` names those there are.
    """
    if Path(name).is_absolute():
        return read_pack(Path(name), variant)
    known = sandbox_folders()
    if name not in known:
        raise UsageError(f"no sandbox {name!r}; there are: {', '.join(known)}{brought(name)}")
    return read_pack(known[name], variant)


def sandbox_of(file: ContractFile) -> str | None:
    """The sandbox that the contract names, as `sandbox_pack` takes it; None where it names none.

    `ContractError` at its place where there is no such sandbox.
    """
    named = file.content.sandbox
    if named is None:
        return None
    near = Path(file.source.file).absolute().parent
    if any(near.is_relative_to(root.absolute()) for root in packs_folders("contracts")):
        return named  # a contract of ours never runs in another sandbox of the same name
    try:
        return find_sandbox(named, near)
    except ContractError:
        raise
    except UsageError as error:
        problem = file.source.problem(("sandbox",), str(error), code="unknown-sandbox")
        raise ContractError((problem,)) from error


def known_sandbox(file: ContractFile) -> str | None:
    """The same for a contract that is judged without its sandbox: None where there is no such."""
    try:
        return sandbox_of(file)
    except ContractError:
        return None


def find_sandbox(named: str, near: Path | None = None) -> str:
    """The argument of `sandbox_pack` for a name or a path that is written in the folder `near`.

    A name is looked for in `sandboxes/` of the folder and of those above it, then among those that
    come with statediff: a project's own goes before a shipped one, so that no later release of
    statediff takes its place. A path has a `/`, starts with `.` or ends with `.yaml`. `UsageError`
    where nothing is found.
    """
    folder = Path.cwd() if near is None else near.absolute()
    if is_path(named):
        return str(_sandbox_file(folder / named, named))
    own = own_sandboxes(folder)
    if named in own:
        return str(own[named])
    known = tuple(sorted({*own, *sandbox_names()}))
    if named not in known:
        near_one = closest(named, known)
        hint = f"did you mean {near_one}? " if near_one else ""
        raise UsageError(
            f"no sandbox {named!r}; {hint}there are: {', '.join(known)}{brought(named)}"
        )
    return named


def is_path(named: str) -> bool:
    """True if a sandbox is named by its path."""
    return "/" in named or named.startswith(".") or named.endswith(_SUFFIXES)


def own_sandboxes(near: Path) -> Mapping[str, Path]:
    """Name → file of the sandboxes in `sandboxes/` of the folder and of those above; nearest first.

    A folder that another user could have put there is passed over: a sandbox may start programs.
    """
    found: dict[str, Path] = {}
    for above in (near, *near.parents):
        folder = above / "sandboxes"
        try:
            if folder.stat().st_uid not in (0, os.geteuid()):
                continue
            here = sorted(folder.iterdir())
        except OSError:
            continue
        for path in here:
            if path.name.endswith(ONE_FILE) and path.is_file():
                found.setdefault(path.name.removesuffix(ONE_FILE), path)
            elif (path / SANDBOX_FILE).is_file():
                found.setdefault(path.name, path / SANDBOX_FILE)
    return found


def _sandbox_file(path: Path, named: str) -> Path:
    """The file that describes the sandbox at the path."""
    path = Path(os.path.normpath(path))
    if path.is_file():
        return path
    if not path.is_dir():
        raise UsageError(
            f"{printable(named)}: expected a sandbox, found nothing at {printable(str(path))}; "
            "`statediff sandbox init` writes one"
        )
    for each in (SANDBOX_FILE, PACK_FILE):
        if (path / each).is_file():
            return path / each
    raise UsageError(f"{printable(named)}: expected a {SANDBOX_FILE} in it, found none")


def contract_folders() -> tuple[ContractFolder, ...]:
    """Every task that comes with statediff, sorted by name."""
    found = (
        ContractFolder(path.parent.relative_to(root).as_posix(), path.parent)
        for root in packs_folders("contracts")
        for path in root.glob(f"**/{CONTRACT_FILE}")
    )
    return tuple(sorted(found, key=lambda entry: entry.name))


def contract_folder(name: str) -> ContractFolder:
    """The task called `name`; `UsageError` names those there are."""
    known = {entry.name: entry for entry in contract_folders()}
    if name not in known:
        hint = brought(name.partition("/")[0])
        raise UsageError(f"no contract {name!r}; there are: {', '.join(known)}{hint}")
    return known[name]


def read_pack(path: Path, variant: str = EMBEDDED) -> SandboxPack:
    """A variant of the sandbox in a folder or a file, checked; `UsageError` says what is wrong.

    A variant's `sources` replace the sources of the same name; its lists `real` and `simulated`
    replace those of the sandbox.
    """
    if path.is_dir():
        path = path / (SANDBOX_FILE if (path / SANDBOX_FILE).is_file() else PACK_FILE)
    document, content = load_sandbox_file(path)
    name = content.sandbox or _name_of(path)
    known = (EMBEDDED, *sorted(content.variants))
    if variant not in known:
        raise UsageError(f"{name} has no variant {variant!r}; there are: {', '.join(known)}")
    chosen = content.variants.get(variant, VariantEntry())
    sources = {
        each: _source(path, document, ("sources", each), content) for each in content.sources
    }
    at = ("variants", variant, "sources")
    sources |= {each: _source(path, document, (*at, each), chosen) for each in chosen.sources}
    listed = tuple(sources[each] for each in sorted(sources))
    systems = {source.name for source in listed if source.of is None}
    for source in listed:
        if source.of is not None and source.of not in systems:
            raise source.problem("of", f"`of: {source.of}` names no system of this sandbox")
    for at_tool, tool in enumerate(content.tools):
        if tool.on is not None and tool.on not in sources:
            message = f"`on: {tool.on}` names no source of this sandbox"
            raise ContractError((document.problem(("tools", at_tool, "on"), message),))
    for other, entry in content.others.items():
        if entry.on not in systems:
            message = f"`on: {entry.on}` names no system of this sandbox"
            raise ContractError((document.problem(("others", other, "on"), message),))
    return SandboxPack(
        name=name,
        version=content.version,
        about=content.about.strip(),
        real=content.real if chosen.real is None else chosen.real,
        simulated=content.simulated if chosen.simulated is None else chosen.simulated,
        sources=listed,
        folder=path.parent,
        file=path,
        variant=variant,
        variants=known,
        tools=content.tools,
        others=content.others,
        amounts=frozenset((t, f) for t, _, f in (a.rpartition(".") for a in content.amounts)),
    )


def _name_of(path: Path) -> str:
    """The name of a sandbox without `sandbox:`: its file or folder, in letters of a name."""
    name = path.name.removesuffix(ONE_FILE)
    if name in (SANDBOX_FILE, PACK_FILE):
        name = path.absolute().parent.name
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", plain).strip("-_.")[:100] or "sandbox"


def _source(
    path: Path, document: Document, at: NodePath, within: SandboxDocument | VariantEntry
) -> PackSource:
    name = str(at[-1])
    entry = within.sources[name]
    given = {
        key: value
        for key, value in entry.model_dump(by_alias=True, exclude_none=True).items()
        if key not in ("kind", "of", "tools", "types", "keep")
    }
    texts: dict[str, str] = {key: given.pop(key) for key in _TEXTS if key in given}
    files: dict[str, Path] = {}
    source = PackSource(
        name,
        entry.kind,
        entry.of,
        files,
        texts,
        entry.tools,
        path.parent,
        entry.types,
        (document, at),
        entry.keep,
    )
    for key, value in given.items():
        if not isinstance(value, str):
            raise source.problem(key, f"expected the path of a file or folder under `{key}`")
        relative = PurePosixPath(value)
        if path.name == PACK_FILE and (relative.is_absolute() or ".." in relative.parts):
            raise source.problem(key, f"`{key}` of {name} must be inside the pack, found {value!r}")
        files[key] = path.parent / relative
        if key != "base" and not files[key].exists():
            raise source.problem(key, f"`{key}` of {name} names {value!r}, which is not there")
    return source
