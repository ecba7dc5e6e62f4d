"""The systems that are installed: their kinds, the tools for an URL, the reader of a path.

Every distribution adds systems by the entry-point group `statediff.systems`, ours too. A specific
answer goes before a general one, such as "any folder"; two that are equally specific are refused by
name, so that no installed package takes the place of another unseen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from urllib.parse import urlsplit

from statediff.contract.yaml.shape import closest, did_you_mean
from statediff.entrypoints import PlugIn, plug_in_files, plug_ins
from statediff.errors import UsageError
from statediff.extras import brought, requirement_of
from statediff.model.schema import EntityType
from statediff.model.values import printable
from statediff.packs import PackSource, SandboxPack
from statediff.systems.base.plugin import (
    INTERFACE,
    Refinement,
    StateInput,
    StateReader,
    SystemKind,
    SystemPlugin,
)
from statediff.systems.base.protocol import System
from statediff.systems.base.tool import Tool

if TYPE_CHECKING:
    from statediff.capture.source import Source

GROUP: Final = "statediff.systems"


class _Part(Protocol):
    @property
    def is_general(self) -> bool: ...


_Found = TypeVar("_Found", bound=_Part)


def plugins() -> Mapping[str, SystemPlugin]:
    """Name → plug-in object of every distribution; `UsageError` if one cannot be loaded."""
    found, files = _plugins_on(tuple(sys.path)), plug_in_files()
    if twice := sorted({*found} & {*files}):
        raise UsageError(f"--plugins: {twice[0]}.py: an installed plug-in has this name")
    return {**found, **{name: _checked(f"{name}.py", each, name) for name, each in files.items()}}


@cache
def _plugins_on(_path: tuple[str, ...]) -> Mapping[str, SystemPlugin]:
    return {name: _load(plug_in) for name, plug_in in plug_ins(GROUP).items()}


def _load(plug_in: PlugIn) -> SystemPlugin:
    where = f" and name {plug_in.module}:PLUGIN"
    return _checked(str(plug_in), plug_in.load(), plug_in.name, where)


def _checked(named: str, plugin: object, kind: str, where: str = "") -> SystemPlugin:
    """The plug-in, which is one and is made for this interface; else `UsageError`."""
    if isinstance(plugin, SystemPlugin):
        if plugin.interface == INTERFACE:
            return plugin
        raise UsageError(
            f"{named}: is made for version {plugin.interface} of statediff's interface for "
            f"plug-ins, and this statediff has version {INTERFACE}; install versions that belong "
            "together"
        )
    if isinstance(plugin, type):
        name = plugin.__name__
        raise UsageError(
            f"{named}: expected a SystemPlugin, found the class {name}; write PLUGIN = "
            f"SystemPlugin(interface={INTERFACE}, kinds=(SystemKind(name={kind!r}, "
            f"load=lambda: {name}),)){where}"
        )
    raise UsageError(f"{named}: expected a SystemPlugin, found {type(plugin).__name__}")


@contextmanager
def _explain_failures(what: str, requirement: str | None) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if requirement is None:
            raise
        raise UsageError(
            f"{what} need {error.name}; get it with `pip install {requirement}`"
        ) from error


def _kinds() -> Mapping[str, SystemKind]:
    found: dict[str, SystemKind] = {}
    owner: dict[str, str] = {}
    for name, plugin in plugins().items():
        for kind in plugin.kinds:
            if kind.name in found:
                raise UsageError(
                    f"the plug-ins {owner[kind.name]} and {name} both make systems of kind "
                    f"{kind.name!r}; uninstall one"
                )
            found[kind.name], owner[kind.name] = kind, name
    return found


def system_of(source: PackSource, looks: tuple[PackSource, ...], folder: Path) -> System:
    """The system that serves `source`; `UsageError` if its kind or what it is given is unknown."""
    kinds = _kinds()
    kind = kinds.get(source.kind)
    if kind is None:
        message = f"source {source.name!r} is of kind {source.kind!r}"
        known = ", ".join(sorted(kinds))
        near = closest(source.kind[:100], tuple(kinds))
        raise source.problem(
            "kind",
            f"{message}; there are: {known}{brought(source.kind)}",
            (near and f"did you mean `{near}`?") or "",
        )
    with _explain_failures(f"systems of kind {kind.name!r}", kind.requirement):
        for program in kind.programs:
            if find_spec(program) is None:
                raise ModuleNotFoundError(name=program)
        made = (kind.by_url or kind.load)() if "url" in source.texts else kind.load()
    for look in looks:
        if look.kind not in made.LOOKS:
            known = ", ".join(sorted(made.LOOKS)) or "none"
            raise UsageError(
                f"source {look.name!r} is of kind {look.kind!r}; kinds that look at a {source.kind}"
                f" system: {known}"
            )
    if source.types is not None and not hasattr(made, "PREFIX"):
        message = f"source {source.name!r} of kind {source.kind} takes no 'types'"
        raise source.problem("types", message, at_key=True)
    if source.keep is not None and "repository" not in source.files:
        message = f"source {source.name!r} copies no repository, of which it could keep references"
        raise source.problem("keep", message, at_key=True)
    takes = {**made.FILES, **getattr(made, "TEXTS", {})}
    for key in (*source.files, *source.texts):
        if key not in takes and key != "schema":
            message = f"source {source.name!r} of kind {source.kind} takes no {key!r}"
            hint = did_you_mean(key, tuple(sorted({*takes, "schema"})))
            raise source.problem(key, message, hint, at_key=True)
    missing = sorted(
        key
        for key, needed in takes.items()
        if needed and not source.file(key) and key not in source.texts
    )
    if missing:
        message = f"source {source.name!r} of kind {source.kind} needs `{missing[0]}`"
        raise source.problem("kind", message)
    return made(source, looks, folder)


def missing_extra(pack: SandboxPack) -> str | None:
    """The requirement of the systems that the sandbox lacks; None where all are there."""
    kinds = _kinds()
    for source in pack.sources:
        kind = kinds.get(source.kind)
        is_system = source.of is None  # another looks at a system of the same plug-in
        if kind is None and is_system and (found := requirement_of(source.kind)) is not None:
            return found
        if kind is not None and any(find_spec(program) is None for program in kind.programs):
            return kind.requirement
    return None


def tools_of(source: str, url: str) -> tuple[Tool[Any], ...]:
    """The tools for the system at this URL; `UsageError` where no installed system has any."""
    scheme = urlsplit(url).scheme
    having = (
        (name, plugin.tools)
        for name, plugin in plugins().items()
        if plugin.tools is not None and scheme in plugin.tools.schemes
    )
    found = _chosen(having, lambda tools: tools.answers(url), f"tools for {source!r}")
    if found is None:
        raise UsageError(
            f"there are no tools for {source!r}, a system reached by {scheme}://{brought(scheme)}"
        )
    with _explain_failures(f"tools for {source!r}", found.requirement):
        return found.make(source, url)


def other_reading(reader: StateReader, path: Path) -> str | None:
    """The scheme of the URL by which another system reads the path, where that may be meant."""
    for plugin in plugins().values():
        other = plugin.states
        if other not in (None, reader) and other.schemes and other.could_read(path):
            return min(other.schemes)
    return None


def state_reader(path: Path) -> StateReader:
    """The reader of the state at the path; `-`, unless it is a folder, is standard input."""
    named = printable(str(path))
    having = [(name, plugin.states) for name, plugin in plugins().items() if plugin.states]
    if named == "-" and not path.is_dir():
        found = _chosen(
            having, lambda reader: reader.standard_input_bytes is not None, "a reader of `-`"
        )
    else:
        having = [each for each in having if each[1].recognizes is not None]
        found = _chosen(having, partial(_recognizes, path), f"a reader of {named}")
    if found is None:
        raise UsageError(f"{named}: no installed system reads it as a state")
    return found


def _recognizes(path: Path, reader: StateReader) -> bool:
    """True if it does; a folder that may not be entered holds no form that is seen inside it."""
    try:
        return reader.recognizes is not None and reader.recognizes(path)
    except OSError:
        return False


def object_types(reader: StateReader | None = None) -> tuple[EntityType, ...]:
    """The types that the installed systems list beside their entities, merged by name.

    A merged type is open and has no key: which system a state is of is not known. Of states by a
    reader, what its own system lists.
    """
    is_known = reader is not None and not reader.is_any_system
    found: dict[str, EntityType] = {}
    for plugin in plugins().values():
        if is_known and plugin.states is not reader:
            continue
        for each in () if plugin.object_types is None else plugin.object_types():
            found[each.name] = EntityType(each.name, (), (), is_open=True)
    return tuple(found[name] for name in sorted(found))


def assumed_types() -> Mapping[str, tuple[EntityType, ...]]:
    """Source → types that have one form everywhere, of all installed systems."""
    found: dict[str, tuple[EntityType, ...]] = {}
    for plugin in plugins().values():
        found |= {} if plugin.assumed is None else plugin.assumed()
    return found


def state_url_reader(url: str) -> StateReader:
    """The reader of the running system at the URL; `UsageError` names the schemes that are read."""
    scheme = urlsplit(url).scheme
    having = [
        (name, plugin.states)
        for name, plugin in plugins().items()
        if plugin.states is not None and plugin.states.schemes
    ]
    found = _chosen(having, lambda reader: scheme in reader.schemes, f"a reader of {scheme}://")
    if found is None:
        schemes = set().union(*(reader.schemes for _, reader in having))
        if (base := scheme.partition("+")[0]) in schemes:
            raise UsageError(
                f"{scheme}://: the driver is no part of a state's URL; write {base}://"
            )
        known = ", ".join(f"{each}://" for each in sorted(schemes))
        by = next((said for each in scheme.split("+") if (said := brought(each))), "")
        raise UsageError(f"{scheme}://: no installed system reads such a state; URLs: {known}{by}")
    return found


def open_state(
    reader: StateReader, name: str, state: StateInput, refinement: Refinement | None
) -> Source:
    """The source that reads the state; `UsageError` says which library it lacks."""
    with _explain_failures(f"states of {reader.description}", reader.requirement):
        return reader.source(name, state, refinement)


def _chosen(
    having: Iterable[tuple[str, _Found]], answers: Callable[[_Found], bool], what: str
) -> _Found | None:
    """The most specific part that answers, if one does; `UsageError` where two are."""
    known = list(having)
    specific = [each for each in known if not each[1].is_general and answers(each[1])]
    found = specific or [each for each in known if each[1].is_general and answers(each[1])]
    if len(found) > 1:
        names = " and ".join(name for name, _ in found)
        raise UsageError(f"the plug-ins {names} each have {what}; uninstall all but one")
    return found[0][1] if found else None
