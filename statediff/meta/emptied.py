"""Faults of a text that says nothing: a letter, a note or a reason that was asked for is empty.

Each free text that the run wrote into an entity which a required clause asks for is taken away in
turn: it is empty, null where the field may be, and as long as it was but of blanks alone, those
among them that only a program sees. What need not be there at all may as well be empty, so that
entities which are only allowed are left out; so are headings of a text that is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Final

from statediff.contract.language.written import has_words
from statediff.contract.lint.prose import HEADINGS, is_text_for_people
from statediff.meta.faults import AS_MANY, MAX_PER_FIELD
from statediff.meta.reference import is_known
from statediff.meta.world import Fault, Touched, World
from statediff.model.batches import Row
from statediff.model.json_values import as_nested
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.values import Map

BLANKS: Final = " \N{NO-BREAK SPACE}\N{ZERO WIDTH SPACE}\n"
"""Characters that a reader does not see: `\\s` of RE2 is two of them."""
_WORDS: Final = 2
"""So many words make a text, whatever its field is called."""


def emptied_texts(world: World) -> Iterator[Fault]:
    """A text that a required entity came with is not there, or says nothing."""
    seen: Counter[tuple[str, str]] = Counter()
    for one in _required(world):
        entity = world.reference.types[one.type]
        for field, text in _texts(world, entity, one.after or {}):
            if seen[entity.name, field.name] == MAX_PER_FIELD:
                world.leave("written texts", AS_MANY)
                continue
            seen[entity.name, field.name] += 1
            blanks = "".join(islice(cycle(BLANKS), len(text)))
            place = f"{one.name}: {field.name}"
            yield world.altered("emptied", f"{place} is empty", one.row_after, field.name, "")
            if field.is_nullable:
                yield world.altered("emptied", f"{place} is null", one.row_after, field.name, None)
            sentence = f"{place} has blanks alone"
            yield world.altered("blanked", sentence, one.row_after, field.name, blanks)


def _texts(world: World, entity: EntityType, row: Row) -> list[tuple[Field, str]]:
    """The free texts of the row, a heading only where there is nothing else."""
    found = [
        (field, text)
        for field in world.fields(entity)
        if isinstance(text := row[field.name], str) and is_free_text(entity, field, text)
    ]
    return [(field, text) for field, text in found if field.name not in HEADINGS] or found


def is_free_text(entity: EntityType, field: Field, text: str) -> bool:
    """True if the text is for somebody to read, by its field or by the words in it."""
    if field.reference is not None or field.kind not in (Kind.TEXT, Kind.ANY):
        return False
    nested = as_nested(text)
    if isinstance(nested, Map) or not has_words(text):
        return False
    words = [word for word in text.split() if any(map(str.isalpha, word))]
    is_prose = len(words) >= _WORDS and not isinstance(nested, tuple)
    return is_prose or is_text_for_people(entity, field)


def _required(world: World) -> Iterator[Touched]:
    """The entities that came, fully observed, as a required clause asks, one of a branch too."""
    contract = world.compiled.contract
    branched = (clause for branch in contract.branches for clause in branch.require)
    asking = {clause.id for clause in (*contract.require, *branched)}
    explained = dict(world.judgement.explained_by)
    asked = {
        (delta.type, delta.key)
        for delta in world.judgement.deltas
        if not asking.isdisjoint(explained.get(delta.id, ()))
    }
    for one in world.touched:
        came = one.before is None and one.after is not None
        if came and (one.type, one.key) in asked and is_known(one.after or {}):
            yield one
