"""An agent's words to the user, as an answer that claims can be about.

τ² looks for texts in messages. Here the messages become `{numbers, text}`: every number that was
said, with its exact value (an order "#W2378156" is no number), and the words, so that "327" is not
found in "$1327.00", "180.10" says 180.1, and "il" is not found in "will".
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final

from statediff.model.trace import NoAnswer
from statediff.model.values import Map, Value

SCHEMA: Final = {"numbers": "list", "text": "text"}
MAX_NUMBERS: Final = 20_000
SILENT: Final = NoAnswer("the agent said nothing")

_NUMBER: Final = re.compile(
    r"(?<![\w.#])(-?)[$€£]?([0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,30})(\.[0-9]{1,30})?(?![\w]|\.[0-9])"
)
_ASKED: Final = re.compile(r"\$?(-?[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?)")
_META: Final = re.compile(r"([\\.+*?()|\[\]{}^$])")


def answer_of(texts: Iterable[Mapping[str, Any]]) -> Value | NoAnswer:
    """The agent's words in all its messages, as an answer."""
    said = [
        str(text.get("text"))
        for text in texts
        if text.get("role") == "assistant" and text.get("text")
    ]
    if not said:
        return SILENT
    whole = _plain("\n".join(said))
    numbers = sorted({_number(found) for found in _NUMBER.finditer(whole)})
    return Map.of({"numbers": tuple(numbers[:MAX_NUMBERS]), "text": whole})


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def _number(found: re.Match[str]) -> Decimal:
    return Decimal(f"{found[1]}{found[2].replace(',', '')}{found[3] or ''}")


def number_in(info: str) -> Decimal | None:
    """The number that the agent is to report; None where it is words."""
    asked = _ASKED.fullmatch(info.strip())
    return None if asked is None else Decimal(asked[1].replace(",", ""))


def claim(info: str, cells: Mapping[Decimal, str] = MappingProxyType({})) -> str:
    """The claim that the agent told this, in the contract language.

    `cells` are places of the state after by what the reference leaves there: a number that stands
    in one is claimed of that place, so that the run's own state must confirm what was reported.
    """
    asked = number_in(info)
    if asked is not None:
        return f"any(n == {cells.get(asked, asked)} for n in answer.numbers)"
    words = _plain(info)
    # "64gb" is said by "64 GB" as well; nothing else is read loosely.
    loose = re.sub(r"(?<=[0-9])(?=[a-z])|(?<=[a-z])(?=[0-9])", "\0", words)
    pattern = _META.sub(r"\\\1", loose).replace("\0", " ?").replace(" ", " ").strip()
    bounded = f"(?s)(?:.*[^0-9a-z])?{pattern}(?:[^0-9a-z].*)?"
    return f"matches(answer.text, {json.dumps(bounded, ensure_ascii=False)})"


def claims(
    infos: Sequence[str], cells: Mapping[Decimal, str] = MappingProxyType({})
) -> list[dict[str, str]]:
    """The claims that the agent told all of it; none twice."""
    told = dict.fromkeys(claim(info, cells) for info in infos if info.strip())
    return [{"id": f"told-{at}", "that": that} for at, that in enumerate(told, start=1)]
