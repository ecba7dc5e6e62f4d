"""Texts that look alike to a reader."""

from __future__ import annotations

import unicodedata


def skeleton(text: str) -> str:
    """The text as a reader sees it: no invisible characters, every look-alike a Latin letter."""
    if text.isascii():
        return text.casefold()
    from confusable_homoglyphs import confusables  # noqa: PLC0415 - it reads its tables

    letters = []
    for letter in unicodedata.normalize("NFKC", text):
        if unicodedata.category(letter) in ("Cf", "Mn"):
            continue
        found = confusables.is_confusable(letter, preferred_aliases=["latin"])
        likes = [like["c"] for each in found or () for like in each["homoglyphs"]]
        letters.append(next((like for like in likes if like.isascii()), letter))
    return "".join(letters).casefold()
