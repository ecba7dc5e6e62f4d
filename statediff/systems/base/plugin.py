"""The plug-in object: all that statediff asks of one system, behind one entry point.

An entry point of the group `statediff.systems` names one `SystemPlugin`. Each part is optional:
kinds of sandbox systems, tools for agents by URL, and a reader of states by path. Functions import
what they need when they are called, so that a plug-in loads fast, and without the libraries of a
system that nobody uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from statediff.model.schema import EntityType, Schema

if TYPE_CHECKING:
    from statediff.capture.source import Clock, Source
    from statediff.model.readings import Capture
    from statediff.systems.base.faults import Below
    from statediff.systems.base.protocol import System
    from statediff.systems.base.tool import Tool
    from statediff.systems.base.wire import Wire

INTERFACE: Final = 1
"""The version of what this module, `protocol` and `tool` ask of plug-ins and give them. It rises
when a plug-in that was made for the one before would be misunderstood."""
Refinement = Callable[[Schema], Schema]
"""The schema that a source finds → the one that contracts name."""


@dataclass(frozen=True, kw_only=True)
class SystemKind:
    """One kind of system that a pack's source may name."""

    name: str
    load: Callable[[], type[System]]
    """Imports and returns the class that makes systems of this kind."""
    requirement: str | None = None
    """The requirement of `pip install` for the libraries of `load`; None where it needs no more."""
    programs: tuple[str, ...] = ()
    """Modules that `requirement` brings and that only a process of the system's own imports."""
    by_url: Callable[[], type[System]] | None = None
    """The same for a source with a `url`: the class that makes systems in one that runs."""


@dataclass(frozen=True, kw_only=True)
class UrlTools:
    """The tools an agent gets for a system that it reaches by an URL."""

    schemes: frozenset[str]
    """In lower case, e.g. `postgresql`; a system of your own over HTTP takes `notes+http`."""
    make: Callable[[str, str], tuple[Tool[Any], ...]]
    """The tools, by the source's name and the URL."""
    answers: Callable[[str], bool] = lambda _url: True
    """True for the URL of such a system, of one of these schemes."""
    is_general: bool = False
    """They are for URLs that the tools of no other system answer for."""
    requirement: str | None = None
    """The requirement of `pip install` for the libraries of `make`; None where it needs no more."""


@dataclass(frozen=True)
class StateInput:
    """One state that a command line names: a path, a URL, or bytes from standard input."""

    path: Path
    label: str
    """How messages name it; of a URL without its password."""
    content: bytes | None = None
    """The bytes from standard input; None of a path."""
    url: str | None = None
    """The URL of a running system, its password included; None of a path."""


def _no_path(_path: Path) -> bool:
    return False


KeptPairs = Callable[[StateInput], "tuple[Capture, Capture] | None"]
"""A state after → the captures before and after; None where `series` has to read it."""


@dataclass(frozen=True, kw_only=True)
class StateReader:
    """One form of a system's state, e.g. a SQLite file or a server at a URL."""

    name: str
    """The name of the source where a command line gives none."""
    description: str
    """For messages, with its article: `a SQLite database`."""
    recognizes: Callable[[Path], bool] | None = None
    """True for an existing path that holds it (None: none does); `InputError` where nobody can
    look.
    """
    schemes: frozenset[str] = frozenset()
    """Schemes of the URLs that it reads, in lower case, e.g. `postgresql`."""
    path_of: Callable[[str], Path] | None = None
    """The path that such a URL names; None where it names a running system."""
    requirement: str | None = None
    """The requirement of `pip install` for the libraries of `source`; None if it needs no more."""
    source: Callable[[str, StateInput, Refinement | None], Source]
    """Makes the source that reads it, by the source's name and the refinement of its schema."""
    series: Callable[[str, Sequence[StateInput], Refinement | None], Sequence[Source]] | None = None
    """Makes the sources of all states, in their order, where all decide what the schema is."""
    kept: Callable[[str, StateInput, Refinement | None, Clock], KeptPairs | None] | None = None
    """A state before, read once, for many states after: `series` gives the same of each pair. None
    of a state that only `series` can read."""
    could_read: Callable[[Path], bool] = _no_path
    """True for a path that another reader recognizes and that a URL of this one may mean."""
    keep: Callable[[StateInput], StateInput] | None = None
    """The state as it is now, for `series` to read later. None where a copy of the path is that."""
    is_any_system: bool = False
    """True where its states were captured of any system, and may be compared with that system."""
    is_general: bool = False
    """It reads what no other reader recognizes."""
    sandbox: Callable[[Path], tuple[str, str]] | None = None
    """The kind of source that a sandbox has for such a state, and the key that names the state."""
    sandbox_types: str | None = None
    """The beginning of the names of the state's types, which such a sandbox writes as `types`."""
    standard_input_bytes: int | None = None
    """Bytes of standard input that it reads at most; None where `-` is not for it."""
    unreadable: str = "cannot be read"
    """The words of messages for a state of which not even the schema can be read."""

    def url_of(self, path: Path) -> str:
        """The URL of a state at an absolute path for programs, as sandboxes say it too."""
        return f"sqlite:///{path}" if "sqlite" in self.schemes else path.as_uri()


@dataclass(frozen=True)
class Check:
    """One thing of this machine that was looked at: what was found, and the next step if any."""

    name: str
    found: str
    todo: str = ""
    is_optional: bool = False
    """Not everybody needs it: an extra, or real servers in containers."""

    @property
    def ok(self) -> bool:
        return not self.todo


@dataclass(frozen=True, kw_only=True)
class SystemPlugin:
    """The offer of one system: sandboxes, sources, tools, states by path, as far as it has them."""

    interface: int
    """The version of the core's interface that it is made for, as its author wrote it."""
    kinds: tuple[SystemKind, ...] = ()
    sources: Callable[[], tuple[type, ...]] = tuple
    """Imports and returns the classes of its sources. What one does not look at is in its
    attribute `not_observed`, a tuple of phrases for people."""
    tools: UrlTools | None = None
    states: StateReader | None = None
    object_types: Callable[[], tuple[EntityType, ...]] | None = None
    """The types of its schema objects, accounts and settings, which every state of it has."""
    assumed: Callable[[], Mapping[str, tuple[EntityType, ...]]] | None = None
    """Source → types that have one form everywhere, so that a schema file need not list them."""
    faults: Callable[[], Mapping[str, Below]] | None = None
    """Class and operator → what an agent can do to it that changes no row."""
    wire: Callable[[], Wire] | None = None
    """Describes its requests over HTTP, for a recorder between an agent and the system."""
    images: Callable[[str | None], Mapping[str, str]] | None = None
    """The exact images that servers of this process run in, and that of an agent: name → digest."""
    checks: Callable[[], Iterator[Check]] | None = None
    """The checks of this machine on which it depends, for `doctor`."""


def named(place: str) -> Callable[[], Any]:
    """Imports `module:NAME` when it is called, and returns what has the name there."""
    module, _, name = place.partition(":")
    return lambda: getattr(import_module(module), name)


def all_named(*places: str) -> Callable[[], tuple[Any, ...]]:
    """Imports every `module:NAME` when it is called, and returns what has the names, in order."""
    return lambda: tuple(named(place)() for place in places)


def calling(place: str) -> Callable[..., Any]:
    """Imports `module:NAME` when it is called, and calls that with the same arguments."""
    load = named(place)

    def call(*given: Any) -> Any:
        return load()(*given)

    return call


def by_url(place: str) -> Callable[[str, StateInput, Refinement | None], Source]:
    """Makes sources of the class `module:NAME` by their name, URL and refinement."""
    return lambda name, state, refine: calling(place)(name, state.url or "", refine)
