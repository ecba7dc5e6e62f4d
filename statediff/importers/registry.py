"""The readers of recorded runs that are installed, by the name of their format.

Every distribution adds formats by the entry-point group `statediff.importers`, ours too. An entry
point names a function from a folder to a `recorded.Suite`; it is imported when its format is asked
for, so that a broken one is in nobody else's way.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

from statediff.entrypoints import plug_ins
from statediff.errors import UsageError
from statediff.importers.recorded import Suite
from statediff.model.values import printable

GROUP: Final = "statediff.importers"

Reader = Callable[[Path], Suite]


def reader_of(name: str) -> Reader:
    """What opens a folder of the format; `UsageError` if it is unknown, broken or claimed twice."""
    installed = plug_ins(GROUP)
    if name not in installed:
        known = ", ".join(installed)
        raise UsageError(f"no format {printable(name)!r}; there are: {known}")
    reader = installed[name].load()
    if not callable(reader):
        raise UsageError(
            f"{installed[name]}: expected a function from a folder to a Suite, "
            f"found {type(reader).__name__}"
        )
    return cast("Reader", reader)


def open_suite(name: str, folder: Path) -> Suite:
    """The folder of recorded runs, read as the format `name`. `UsageError` if it is not one."""
    reader = reader_of(name)
    if not folder.is_dir():
        found = "something that is no folder" if folder.exists() else "nothing"
        raise UsageError(f"{printable(str(folder))}: expected a folder of cases, found {found}")
    return reader(folder)
