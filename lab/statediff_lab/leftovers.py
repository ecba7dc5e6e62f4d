"""Leftovers of an erasure: files in which erased values can still be read, and copies.

It looks in the folders that it names, and nowhere else. A file counts if it is byte for byte a file
of the bundle, or if a text of an erased leaf is in it that is in nothing that stays open. Numbers
alone are found only in whole files of the bundle.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from statediff.evidence.canonical import write
from statediff.evidence.package import BESIDE
from statediff.suite.indexing import folder_of

if TYPE_CHECKING:
    from statediff.evidence.verify import Leaf, Verified
    from statediff.suite.store import Store

MAX_FILES: Final = 50_000
MAX_FILE_BYTES: Final = 256 * 1024 * 1024
MAX_WORDS: Final = 500
SHORTEST: Final = 4
"""Shorter texts are anywhere."""


@dataclass(frozen=True, kw_only=True)
class Sought:
    """The traces to look for: texts of what is erased, and the digests of the bundle's files."""

    words: tuple[bytes, ...]
    digests: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Leftovers:
    """The files and copies that are readable after an erasure, as far as was looked."""

    files: tuple[Path, ...]
    copies: tuple[str, ...]
    """URLs below which a run with this bundle was copied."""
    looked: tuple[Path, ...]
    unread: int
    """How many files were too large, too many, or could not be read."""


def sought(found: Verified, erased: Iterable[bytes]) -> Sought:
    """Traces to look for once these leaves (canonical bytes) are erased; `found` has them yet."""
    gone = set(erased)
    stays = "".join(
        _words(
            leaf
            for leaf, data in zip(found.leaves, found.disclosed, strict=True)
            if data not in gone
        )
    )
    lost = [leaf for leaf, data in zip(found.leaves, found.disclosed, strict=True) if data in gone]
    words = sorted({word for word in _values(lost) if word not in stays}, key=len, reverse=True)
    forms = {form for word in words[:MAX_WORDS] for form in _forms(word)}
    digests = [
        leaf.value[0]["files"][name]
        for leaf in found.leaves
        if leaf.path == "manifest.json#"
        for name in leaf.value[0]["files"]
        if any(each.path == f"{name}#" for each in lost)
    ]
    return Sought(words=tuple(sorted(forms)), digests=frozenset(digests))


def leftovers(what: Sought, folders: Sequence[Path], copies: Iterable[str]) -> Leftovers:
    """The places below these folders where it can be read still."""
    files, unread = [], 0
    distinct = tuple(dict.fromkeys(folder.resolve() for folder in folders if folder.is_dir()))
    for number, path in enumerate(_regular(distinct)):
        try:
            if number >= MAX_FILES or path.stat().st_size > MAX_FILE_BYTES:
                unread += 1
                continue
            data = path.read_bytes()
        except OSError:
            unread += 1
            continue
        is_copy = hashlib.sha256(data).hexdigest() in what.digests
        if is_copy or any(word in data for word in what.words):
            files.append(path)
    return Leftovers(
        files=tuple(sorted(set(files))),
        copies=tuple(sorted(set(copies))),
        looked=distinct,
        unread=unread,
    )


def withheld_files(found: Verified, folders: Sequence[Path]) -> tuple[Path, ...]:
    """The files with what the bundle does not show, beside the copies of it below these folders."""
    manifests = [write(leaf.value[0]) for leaf in found.leaves if leaf.path == "manifest.json#"]

    def is_of_bundle(path: Path) -> bool:
        try:
            manifest = path.with_name(path.name.removesuffix(BESIDE)) / "manifest.json"
            return path.name.endswith(BESIDE) and manifest.read_bytes() in manifests
        except OSError:
            return False

    return tuple(sorted({path.resolve() for path in _regular(folders) if is_of_bundle(path)}))


def known_places(store: Store, digest: str) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """The folders of the runs with the bundle of that digest, and where they were copied to."""
    locations = store.runs_with(digest)
    folders = [folder for place in locations if (folder := folder_of(place)) is not None]
    return tuple(folders), tuple(url for place in locations for url in store.copies_of(place))


def _regular(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        for place, _, names in os.walk(folder):
            for name in sorted(names):
                path = Path(place, name)
                if path.is_file() and not path.is_symlink():
                    yield path


def _values(leaves: Iterable[Leaf]) -> Iterator[str]:
    return (word for word in _words(leaves) if len(word) >= SHORTEST)


def _words(leaves: Iterable[Leaf]) -> Iterator[str]:
    """Every text that stands for a value of a state, a call or an answer in these leaves."""
    rest: list[Any] = [leaf.value for leaf in leaves]
    while rest:
        match rest.pop():
            case ["text" | "decimal" | "timestamp" | "uuid" | "bytes", str(text)]:
                yield text
            case str(text):
                yield from text.splitlines() if "\n" in text else ()
            case list(parts):
                rest += parts
            case dict(members):
                rest += members.values()
            case _:
                pass


def _forms(word: str) -> set[bytes]:
    """The bytes of a text, plain and in JSON."""
    plain = word.encode("utf-8", "surrogatepass")
    return {
        plain,
        json.dumps(word, ensure_ascii=False).encode("utf-8", "surrogatepass")[1:-1],
        json.dumps(word).encode()[1:-1],
    }
