"""Copies of runs at a URL: made while a run goes on, and read where the folder itself is not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from statediff.evidence.package import Bundle
    from statediff.suite.artifacts import Place
    from statediff.suite.store import Store


@dataclass
class Copying:
    """A run's trials on their way to a place. Once that fails it is told, and the run goes on."""

    folder: Path
    place: Place | None
    tell: Callable[[str], None]

    def trials(self, names: Sequence[str]) -> None:
        """The trials are there, as far as that can be."""
        if names:
            self._try(lambda place: place.put_trials(self.folder, names))

    def whole(self) -> None:
        """All of the run is there, as far as that can be."""
        self._try(lambda place: place.push(self.folder))

    def _try(self, copy: Callable[[Place], object]) -> None:
        from statediff.errors import StatediffError
        from statediff.workspace.paths import shown

        if self.place is None:
            return
        try:
            copy(self.place)
        except StatediffError as error:
            place, self.place = self.place, None
            self.tell(
                f"not copied: {error}; the run goes on, and "
                f"`statediff store push {shown(self.folder)} {place.url}` copies it later"
            )


def copying(
    url: str | None, folder: Path, store: Store, run: str, tell: Callable[[str], None]
) -> Copying:
    """The run's record is at the URL, and the store knows where; None copies nothing."""
    if url is None:
        return Copying(folder, None, tell)
    from statediff.suite.artifacts import Place

    place, folder = Place(url), folder.resolve()
    place.begin(folder)
    store.put_copy(run, place.url)
    return Copying(folder, place, tell)


def bundle_at_url(path: Path) -> tuple[Bundle, Path] | None:
    """The bundle at the URL that the path was made of, and the folder it was put in; None if none.

    It lies where `judge` would have put it.
    """
    from statediff.suite.artifacts import Place, parted

    url = parted(str(path))
    if url is None:
        return None
    from statediff.workspace.folders import bundle_folder, keep_bundle

    bundle = Place(url).bundle()
    folder = bundle_folder(bundle)
    keep_bundle(bundle, folder)
    return bundle, folder


def copied_bundle(urls: Iterable[str], location: str, trial: str) -> Bundle | None:
    """The bundle of a trial in the first copy of its run that has it; None where none has."""
    from urllib.parse import unquote

    from statediff.errors import StatediffError
    from statediff.suite.artifacts import Place

    run = unquote(location.rpartition("/")[2])
    for url in urls:
        try:
            return Place(url).bundle(run, "trials", trial, "bundle")
        except StatediffError:
            continue  # another may have it; whoever asks says what is missing
    return None
