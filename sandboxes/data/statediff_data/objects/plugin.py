"""The plug-in of object stores and remote folders: `s3://`, `gs://`, `sftp://` and their like."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from statediff.systems.base.plugin import (
    Refinement,
    StateInput,
    StateReader,
    SystemPlugin,
    all_named,
)
from statediff_data.objects.schemes import FOLDERS, STORES

if TYPE_CHECKING:
    from statediff.capture.source import Source


def _source(name: str, state: StateInput, refine: Refinement | None) -> Source:
    from statediff_data.objects.source import ObjectsSource

    if find_spec("fsspec") is None:  # it is slow, and only imported to read
        raise ModuleNotFoundError(name="fsspec")
    return ObjectsSource(name, state.url or "", refine)


PLUGIN: Final = SystemPlugin(
    interface=1,
    sources=all_named("statediff_data.objects.source:ObjectsSource"),
    states=StateReader(
        name="objects",
        description="objects at a URL",
        schemes=STORES | FOLDERS,
        requirement="statediff[data]",
        source=_source,
        unreadable="cannot be read as objects",
    ),
)
