"""The list of packed refs, read as strictly as git reads it.

Git dies of a line that it does not expect, and looks refs up by halving where the header says that
they are sorted. What the list says of the end of a tag git believes: who fetches gets that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from statediff.systems.files.tree import Folder, NotRead

PACKED: Final = b"packed-refs"
MAX_PACKED_BYTES: Final = 32 * 1024 * 1024
MAX_REF_BYTES: Final = 4096
_HEADER: Final = re.compile(rb"# pack-refs with:((?: (?:peeled|fully-peeled|sorted))*) ?")
_REF: Final = re.compile(rb"([0-9a-f]{40}(?:[0-9a-f]{24})?) (.+)")
_PEEL: Final = re.compile(rb"\^([0-9a-f]{40}(?:[0-9a-f]{24})?)")
_FORBIDDEN: Final = re.compile(
    rb"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)|\.$|/$|^/|^\."
)


@dataclass
class PackedRef:
    """A line of the list: an id, and the one at the end of its tags.

    `is_known` where the list says that a ref without the second one is no tag.
    """

    oid: str
    peeled: str | None = None
    is_known: bool = False


@dataclass
class PackedRefs:
    """The list; `is_odd` where git would refuse it, or not find what is in it."""

    refs: dict[bytes, PackedRef] = field(default_factory=dict)
    is_odd: bool = False

    def is_true(self, peel: Callable[[str], str | None], names: frozenset[bytes]) -> bool:
        """True if each of the refs in `names` has the end that `peel` finds; None is no tag's."""
        for name in self.refs.keys() & names:
            ref = self.refs[name]
            if (ref.is_known or ref.peeled is not None) and peel(ref.oid) != ref.peeled:
                return False
        return not self.is_odd


def is_ref_name(name: bytes) -> bool:
    """True if git would take it for the name of a ref."""
    return len(name) <= MAX_REF_BYTES and b"/" in name and not _FORBIDDEN.search(name)


def read_packed(git: Folder, causes: list[str], most: int) -> PackedRefs:
    """The list, and in `causes` why there may be other refs than `most` of them."""
    found = PackedRefs()
    try:
        stored = git.read(PACKED, MAX_PACKED_BYTES) or b""
    except NotRead as error:
        causes.append(str(error))
        return PackedRefs(is_odd=True)
    *lines, rest = stored.split(b"\n")
    traits: list[bytes] = []
    last: PackedRef | None = None
    for number, line in enumerate([*lines, *([rest] if rest else [])], 1):
        if number == 1 and (header := _HEADER.fullmatch(line)):
            traits = header[1].split()
        elif number <= len(lines) and (match := _REF.fullmatch(line)) and is_ref_name(match[2]):
            is_known = b"fully-peeled" in traits or (
                b"peeled" in traits and match[2].startswith(b"refs/tags/")
            )
            last = PackedRef(match[1].decode(), None, is_known)
            found.is_odd |= match[2] in found.refs
            found.refs.setdefault(match[2], last)
        elif last and last.peeled is None and (match := _PEEL.fullmatch(line)):
            last.peeled = match[1].decode()
            last = None
        else:
            found.is_odd = True
            if not line.startswith((b"#", b"^")):
                causes.append(f"line {number} of packed-refs is not understood")
                break
        if len(found.refs) > most:
            causes.append(f"packed-refs holds more than {most} refs")
            break
    if b"sorted" in traits and list(found.refs) != sorted(found.refs):
        found.is_odd = True
    return found
