"""Which entity before is taken for which entity after, and which have no partner."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from statediff.evidence.documents import key_from
from statediff.evidence.package import Bundle
from statediff.reports.html.cells import cut, entity, first, name, rest
from statediff.reports.record import reading

Json = Any
MAX_PAIRS: Final = 200
MAX_ALONE: Final = 200


@dataclass(frozen=True)
class Matched:
    """Two entities taken for one, and the rule that says so."""

    before: str
    after: str
    rule: str


@dataclass(frozen=True)
class Identities:
    """The matching that the decision rests on."""

    matched: tuple[Matched, ...]
    more_matched: str
    by_key: tuple[tuple[str, int], ...]
    """Type → how many changed entities were found on both sides under one key."""
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    more_alone: str
    ambiguous: tuple[str, ...]


def identities(bundle: Bundle, where: str) -> Identities:
    """What `resolution.json` and the changes say of identity; `BundleError`."""
    with reading(where):
        resolved = bundle.document("resolution.json")
        deltas = bundle.document("judgement.json")["deltas"]
        pairs = resolved["mappings"][0]
        gone = [_name(d) for d in deltas if d["op"] in ("delete", "unlink") and not d["path"]]
        new = [_name(d) for d in deltas if d["op"] in ("create", "link") and not d["path"]]
        both = {(d["type"], str(d["key"])) for d in deltas if d["path"]}
        return Identities(
            tuple(
                Matched(
                    entity(pair["type"], key_from(pair["before"])),
                    entity(pair["type"], key_from(pair["after"])), cut(pair["rule"]),
                )
                for pair in first(pairs, MAX_PAIRS)
            ),
            rest(pairs, MAX_PAIRS, "matched entities"),
            tuple((name(t), n) for t, n in sorted(Counter(t for t, _ in both).items())),
            tuple(gone[:MAX_ALONE]), tuple(new[:MAX_ALONE]),
            rest([*gone, *new], 2 * MAX_ALONE, "entities on one side only")
            if max(len(gone), len(new)) > MAX_ALONE else "",
            tuple(cut(f"{of}: {cause}") for of, cause in resolved["ambiguous"][:MAX_PAIRS]),
        )  # fmt: skip


def _name(delta: Json) -> str:
    return entity(delta["type"], key_from(delta["key"]))
