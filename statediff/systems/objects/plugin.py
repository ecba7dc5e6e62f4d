"""The plug-in of object stores and remote folders: `s3://`, `gs://`, `sftp://` and their like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from statediff.systems.base.plugin import Refinement, StateInput, StateReader, SystemPlugin

if TYPE_CHECKING:
    from statediff.capture.source import Source

STORES: Final = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "oci", "r2"})
"""Stores of objects: a folder there is no more than the beginning of names."""
FOLDERS: Final = frozenset({"sftp", "ssh", "ftp", "smb", "webhdfs", "hdfs", "memory"})
"""Places with folders of their own."""


def _source(name: str, state: StateInput, refine: Refinement | None) -> Source:
    from statediff.systems.objects.source import ObjectsSource

    return ObjectsSource(name, state.url or "", refine)


def _sources() -> tuple[type, ...]:
    from statediff.systems.objects.source import ObjectsSource

    return (ObjectsSource,)


PLUGIN: Final = SystemPlugin(
    sources=_sources,
    states=StateReader(
        name="objects",
        description="objects at a URL",
        schemes=STORES | FOLDERS,
        source=_source,
        unreadable="cannot be read as objects",
    ),
)
