"""Plug-ins of installed distributions: the objects that one group of entry points names.

Our own parts register the same way. A name that two distributions claim is refused when it is
loaded, so that no installed package takes the place of another unseen.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final

from statediff.errors import UsageError


@dataclass(frozen=True)
class PlugIn:
    """One name of a group, and the entry points that claim it; nothing is imported yet."""

    group: str
    name: str
    claims: tuple[EntryPoint, ...]

    def load(self) -> object:
        """The object that the entry point names.

        `UsageError` names the distributions, if two claim the name, or the object is not there.
        """
        if len(self.claims) > 1:
            owners = " and ".join(_owner(claim) or claim.value for claim in self.claims)
            raise UsageError(
                f"two distributions name a plug-in {self.name!r} in {self.group}: {owners}; "
                "uninstall one"
            )
        try:
            return self.claims[0].load()
        except (ImportError, AttributeError, SyntaxError) as error:
            raise UsageError(
                f"{self}: cannot be loaded: {error}; install its distribution again, or uninstall "
                "it"
            ) from error

    @property
    def module(self) -> str:
        """The module that the entry point names."""
        return self.claims[0].module

    def __str__(self) -> str:
        text = f"the plug-in {self.name} = {self.claims[0].value} in {self.group}"
        owner = _owner(self.claims[0])
        return f"{text}, of {owner}" if owner else text


def plug_ins(group: str) -> Mapping[str, PlugIn]:
    """Name → plug-in, sorted by name."""
    return _plug_ins_on(group, tuple(sys.path))


@cache
def _plug_ins_on(group: str, _path: tuple[str, ...]) -> Mapping[str, PlugIn]:
    claims: dict[str, list[EntryPoint]] = {}
    for point in sorted(entry_points(group=group), key=lambda point: (point.name, point.value)):
        claims.setdefault(point.name, []).append(point)
    return {name: PlugIn(group, name, tuple(points)) for name, points in claims.items()}


def _owner(point: EntryPoint) -> str:
    return "" if point.dist is None else f"{point.dist.name} {point.dist.version}"


PLUGINS: Final = "STATEDIFF_PLUGINS"
"""The variable that names a folder of plug-ins, each a file: `statediff --plugins DIR` sets it."""


def plug_in_files() -> Mapping[str, object]:
    """Name of the file → its `PLUGIN`, of each file in the folder of plug-ins.

    `UsageError` where the folder, or what a file should have, is not there.
    """
    named = os.environ.get(PLUGINS)
    if not named:
        return {}
    folder = Path(named)
    if not folder.is_dir():
        raise UsageError(f"--plugins {named}: expected a folder, found none")
    return {path.stem: _plug_in_of(path) for path in sorted(folder.glob("*.py"))}


@cache
def _plug_in_of(path: Path) -> object:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None  # noqa: S101 - of a file in Python
    assert spec.loader is not None  # noqa: S101 - as above
    module = module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)  # what it defines is pickled by its name
    try:
        spec.loader.exec_module(module)
        found: object = module.PLUGIN
    except Exception as error:  # whatever code of somebody's own does when it is loaded
        raise UsageError(f"--plugins: {path}: cannot be loaded: {error}") from error
    return found


def named_function(path: str, what: str) -> Callable[..., Any]:
    """The function that `module:function` names; `UsageError` if there is none."""
    module_name, colon, attribute = path.partition(":")
    if not (module_name and colon and attribute):
        raise UsageError(f"{what}: expected module:function, found {path!r}")
    if "" not in sys.path:
        sys.path.insert(0, "")  # as `python -m` would: the module may be in the current folder
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise UsageError(
            f"{what}: the module {module_name!r} cannot be imported: {error}"
        ) from error
    function = getattr(module, attribute, None)
    if not callable(function):
        raise UsageError(f"{what}: {module_name!r} has no function {attribute!r}")
    found: Callable[..., Any] = function
    return found
