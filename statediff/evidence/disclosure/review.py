"""The review: a reviewer's view of a bundle whose judgement is for auditors.

It is a piece of its own (`verify.REVIEW`): the clauses that do not hold with what was found, the
changes, the answer and the calls. Rows have names that a key makes of their type and key, so that
one row has one name in every copy and nobody can try keys. A text is shown only where it is in the
contract or names a part of the schema, which the reviewer has anyway. All other text is withheld,
and whatever `settings` calls personal or secret. Numbers, flags and times are shown.

Nothing here decides anything. A copy with every leaf is checked to have the very review that its
bundle makes, up to the names (`same_review`).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property, partial
from typing import Any, Final

from statediff.evidence.counterexample import types_read
from statediff.evidence.disclosure.settings import Settings, Why, settings_of
from statediff.evidence.package import Bundle
from statediff.model.explanation import CAUSE_CODES, Reason

Json = Any
FORM: Final = "statediff/review/1"
MAX_FINDINGS: Final = 50
MAX_CHANGES: Final = 500
MAX_CALLS: Final = 500
_NAME: Final = re.compile(r"row-[0-9a-f]{10}")
_WORD: Final = re.compile(r"\w+")
_STEP: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[^.\[\]=,"]+')
_CALL: Final = re.compile(r"call-[0-9]{1,9}")
_NUMBERS: Final = ("int", "decimal", "float", "timestamp", "local_timestamp", "date")
_FIXED: Final = frozenset({"operation", "operator", "truth", "side", "test", "function", "code",
                           "action_class", "kind", "relation"})  # fmt: skip
"""Arguments of explanations that are words of statediff, or of the schema."""
_CODE: Final = re.compile(r"[A-Za-z0-9 _=<>!+-]{0,40}")


def review(bundle: Bundle, key: bytes, settings: Settings) -> Json:
    """The review of a bundle, under names made with `key` (secret, of any length)."""
    return _Review(bundle, key, settings).document()


def same_review(found: Json, bundle: Bundle) -> bool:
    """True if a bundle makes this review, whatever the key of its names was."""
    try:
        settings = settings_of(found["settings"])
    except (LookupError, TypeError, AttributeError):
        return False
    return _renamed(found) == _renamed(review(bundle, b"", settings))


def _renamed(document: Json) -> str:
    """The JSON with each name of a row replaced by the number of its first appearance."""
    names: dict[str, str] = {}
    text = json.dumps(document, sort_keys=True)
    return _NAME.sub(lambda match: names.setdefault(match.group(), f"row#{len(names)}"), text)


class _Review:
    def __init__(self, bundle: Bundle, key: bytes, settings: Settings) -> None:
        self._bundle, self._key, self._settings = bundle, key, settings
        self._withheld = Counter[Why]()
        schema = bundle.document("schema.json")
        self._types: Mapping[str, Json] = {each["name"]: each for each in schema["types"]}
        self._fields = {
            name: {field["name"]: field for field in each["fields"]}
            for name, each in self._types.items()
        }
        self._names = {str(name) for name in self._types} | {
            name for fields in self._fields.values() for name in fields
        }

    @cached_property
    def _said(self) -> str:
        """The contract as the reviewer has it, white space between its words alone."""
        return " ".join(self._bundle.data("contract.yaml").decode("utf-8").split())

    @cached_property
    def _words(self) -> frozenset[str]:
        schema = " ".join(self._names)
        return frozenset(_WORD.findall(f"{self._said} {schema}"))

    def document(self) -> Json:
        judgement = self._bundle.document("judgement.json")
        read = [each["read_sets"] for each in self._bundle.document("index.json")]
        loose = [each for each in judgement["findings"] if each["truth"] != "HOLDS"]
        by = dict(judgement["explained_by"])
        changes = [self._change(each, by) for each in judgement["deltas"][:MAX_CHANGES]]
        findings = [self._finding(each, read, judgement) for each in loose[:MAX_FINDINGS]]
        answer = self._bundle.document("answer.json")
        calls = self._bundle.document("trace.json")["actions"]
        return {
            "form": FORM,
            "settings": self._settings.document(),
            "findings": findings,
            "more_findings": max(0, len(loose) - MAX_FINDINGS),
            "changes": changes,
            "more_changes": max(0, len(judgement["deltas"]) - MAX_CHANGES),
            "answer": self._value(answer["answer"]) if "answer" in answer else None,
            "calls": [self._call(each) for each in calls[:MAX_CALLS]],
            "more_calls": max(0, len(calls) - MAX_CALLS),
            "withheld": {why.value: self._withheld[why] for why in Why if self._withheld[why]},
        }

    # ---------------------------------------------------------------- names and texts

    def _is_said(self, text: str) -> bool:
        """True if a value is in the contract as it is, or names a part of the schema."""
        flat = " ".join(text.split())
        if not flat or flat in self._names:
            return True
        pattern = rf"(?<!\w){re.escape(flat)}(?!\w)"
        return bool(re.search(pattern, self._said))

    def _is_worded(self, text: str) -> bool:
        """True if each word of an expression is one of the contract's or the schema's."""
        return self._words.issuperset(_WORD.findall(text))

    def _row(self, of: str, key: Json) -> str:
        """The name of a row: one for each type and key."""
        told = json.dumps([of, key], sort_keys=True).encode()
        return f"row-{hmac.new(self._key, told, hashlib.sha256).hexdigest()[:10]}"

    def _key_of(self, of: str, key: Json) -> Json:
        """A key as it is shown: itself where the contract names it, else the row's name."""
        if key and all(len(part) == 2 and self._is_said(str(part[1])) for part in key):
            return key
        return [["text", self._row(of, key)]]

    def _path(self, of: str, path: str) -> str:
        """A path with the members that nobody but the run named withheld."""
        fields = self._fields.get(of, {})
        begins = [name for name in fields if path.startswith(name)]
        field = max(begins, key=len, default="")
        return field + _STEP.sub(self._step, path[len(field) :])

    def _step(self, match: re.Match[str]) -> str:
        name = match.group().strip('"')
        return match.group() if name.isdigit() or name == "*" or self._is_said(name) else "…"

    # ---------------------------------------------------------------- values

    def _hide(self, why: Why, *, inside: bool = False) -> Json:
        """The document in the place of a value, of a field or inside something."""
        self._withheld[why] += 1
        return ["text", f"(withheld: {why})"] if inside else ["excluded", f"withheld: {why}"]

    def _why(self, of: str, path: str) -> Why | None:
        """Why fewer may see a place, whatever is in it."""
        fields = self._fields.get(of, {})
        field = max((name for name in fields if path.startswith(name)), key=len, default=path)
        found = self._settings.why(of, field)
        rest = (self._settings.of_name(name) for name in _WORD.findall(path[len(field) :]))
        return found or next(filter(None, rest), None)

    def _cell(self, value: Json, of: str, path: str) -> Json:
        """A value of a field as it is shown."""
        if value[0] in ("null", "absent"):
            return value
        field = self._fields.get(of, {}).get(path)
        if field is not None and field["reference"] and value[0] in ("int", "text"):
            [[_, name]] = self._key_of(field["reference"], [value])
            return value if name == value[1] else ["text", f"{field['reference']} {name}"]
        if path in self._types.get(of, {"key": ()})["key"] and not self._is_said(str(value[-1])):
            return self._hide(Why.TEXT) if value[0] == "text" else ["excluded", "withheld: a key"]
        why = self._why(of, path)
        if why is not None:
            return self._hide(why)
        return value if self._settings.is_shown(of, path) else self._value(value, inside=False)

    def _value(self, value: Json, *, numbers: bool = True, inside: bool = True) -> Json:
        """A value that is of no field: numbers only where nothing that was read is personal."""
        kind = value[0]
        if kind in ("null", "absent", "bool"):
            return value
        if kind in _NUMBERS:
            is_shown = numbers or self._is_said(value[1])
            return value if is_shown else self._hide(Why.PERSONAL, inside=inside)
        if kind == "unobserved":
            return [kind, self._cause(value[1])]
        if kind == "list":
            return ["list", [self._value(each, numbers=numbers) for each in value[1]]]
        if kind == "map":
            return ["map", self._members(value[1], numbers=numbers)]
        if kind in ("text", "excluded") and self._is_said(value[1]):
            return value
        return self._hide(Why.EXCLUDED if kind == "excluded" else Why.TEXT, inside=inside)

    def _members(self, members: Json, *, numbers: bool) -> Json:
        found = []
        for number, (name, each) in enumerate(members):
            shown = name if self._is_said(name) else f"…{number}"
            why = self._settings.of_name(name)
            hidden = self._hide(why, inside=True) if why else None
            found.append([shown, hidden or self._value(each, numbers=numbers)])
        return sorted(found, key=lambda member: str(member[0]))

    def _side(self, side: Json, of: str, path: str) -> Json:
        if "entity" in side:
            return {"entity": self._entity(side["entity"], of)}
        return {"value": self._cell(side["value"], of, path)}

    def _entity(self, fields: Json, of: str) -> Json:
        return [[self._path(of, name), self._cell(value, of, name)] for name, value in fields]

    def _call(self, call: Json) -> Json:
        """The call: of its arguments and of its result only that there was any."""
        tool = call["tool"] if self._is_said(call["tool"]) else "…"
        return {"tool": tool, "class": call["class"], "failed": call["error"] is not None}

    # ---------------------------------------------------------------- what was found

    def _change(self, delta: Json, by: Mapping[str, Json]) -> Json:
        of = delta["type"]
        return {
            "type": of,
            "op": delta["op"],
            "key": self._key_of(of, delta["key"]),
            "path": self._path(of, delta["path"]),
            "before": self._side(delta["before"], of, delta["path"]),
            "after": self._side(delta["after"], of, delta["path"]),
            "explained_by": list(by.get(delta["id"], ())),
        }

    def _finding(self, finding: Json, read: Any, judgement: Json) -> Json:
        named = set(finding["deltas"])
        deltas = [each for each in judgement["deltas"] if each["id"] in named]
        types = types_read({**finding, "deltas": deltas}, read)
        witness = finding["witness"]
        plain = {_sides(each) for each in witness["comparisons"] if not self._is_of_keys(each)}
        has_numbers = types is not None and not any(map(self._is_about, types))
        told = self._explanation(plain, numbers=has_numbers)
        return {
            **{name: finding[name] for name in ("clause", "code", "stage", "truth")},
            "explanation": told(finding["explanation"]),
            "missing": [told(each) for each in finding["missing"]],
            "changes": len(named),
            "witness": {
                "rows": [self._witness(each) for each in witness["rows"]],
                "comparisons": [
                    {**told(each), "text": self._words_or_none(each["text"])}
                    for each in witness["comparisons"]
                ],
            },
        }

    def _is_about(self, of: str) -> bool:
        """True if a number or a time of the type is personal or secret."""
        return any(
            field["kind"] != "text" and self._why(of, name) is not None
            for name, field in self._fields.get(of, {}).items()
        )

    def _witness(self, row: Json) -> Json:
        of = row["type"]
        if of in self._types:
            key, fields = self._key_of(of, row["key"]), self._entity(row["fields"], of)
        else:
            key, fields = row["key"], self._members(row["fields"], numbers=False)
            if not all(_CALL.fullmatch(str(part[-1])) for part in key):
                key = [["text", self._row(of, key)]]
        return {"side": row["side"], "type": of, "key": key, "fields": fields}

    def _explanation(self, plain: AbstractSet[str], *, numbers: bool) -> Callable[[Json], Json]:
        """Shows an explanation; `plain` are the sides of comparisons that are of no keys."""

        def told(of: Json, keys: bool = True) -> Json:
            if isinstance(of, str):
                return self._cause(of)
            if isinstance(of, list):
                return [told(each, keys) for each in of]
            if not isinstance(of, dict):
                return of
            if of.get("is") == Reason.VALUE and keys and self._is_key(of["value"]):
                return _valued(["text", "(withheld: a key)"])
            inner = partial(told, keys=_sides(of) not in plain if "left" in of else keys)
            return {
                name: part if name == "is" else self._argument(name, part, of, inner, numbers)
                for name, part in of.items()
            }

        return told

    @cached_property
    def _keys(self) -> frozenset[str]:
        """The parts of keys, and what references hold, of the rows that the bundle shows."""
        found = set[str]()
        for case in self._bundle.document("fragments.json"):
            rows = [(row["type"], row["key"], row["fields"] or ()) for row in case["rows"]]
            rows += [
                (scan["type"], *member) for scan in case["scans"] for member in scan["members"]
            ]
            for of, key, fields in rows:
                known = self._fields.get(of, {})
                found |= {str(part[-1]) for part in key}
                held = (value for name, value in fields if known.get(name, {}).get("reference"))
                found |= {str(value[-1]) for value in held}
        return frozenset(found)

    def _is_key(self, value: Json) -> bool:
        is_one = value[0] in ("int", "text") and value[1] in self._keys
        return is_one and not self._is_said(value[1])

    @cached_property
    def _of_keys(self) -> frozenset[str]:
        """The names of fields that are keys or references, of whatever type."""
        names = {name for each in self._types.values() for name in each["key"]}
        return frozenset(names).union(
            name
            for fields in self._fields.values()
            for name, field in fields.items()
            if field["reference"]
        )

    def _is_of_keys(self, comparison: Json) -> bool:
        return not self._of_keys.isdisjoint(_WORD.findall(comparison["text"]))

    def _words_or_none(self, text: str) -> str:
        return text if self._is_worded(text) else "…"

    def _argument(
        self, name: str, part: Json, of: Json, told: Callable[[Json], Json], numbers: bool
    ) -> Json:
        if of.get("is") == Reason.VALUE:
            return self._value(part, numbers=numbers)
        if name == "key" and isinstance(part, list):
            return self._told_key(str(of.get("entity_type", "")), part)
        if name in ("path", "field") and isinstance(part, str):
            return self._path(str(of.get("entity_type", "")), part)
        if name in ("before", "after", "left", "right") and "path" in of:
            where = str(of.get("entity_type", "")), str(of["path"])
            if not isinstance(part, dict) or part.get("is") != Reason.VALUE:
                return told(part) if self._why(*where) is None else "…"
            cell = self._cell(part["value"], *where)
            return _valued(["text", f"({cell[1]})"] if cell[0] == "excluded" else cell)
        if not isinstance(part, str):
            return told(part)
        is_fixed = name in _FIXED and _CODE.fullmatch(part)
        if is_fixed or _CALL.fullmatch(part) or self._is_worded(part):
            return part
        return self._cause(part) if name in ("cause", "causes") else "…"

    def _told_key(self, of: str, parts: Json) -> Json:
        """A key inside an explanation, whose parts are explanations."""
        key = [each.get("value", each) if isinstance(each, dict) else each for each in parts]
        shown = self._key_of(of, key)
        return parts if shown is key else [_valued(each) for each in shown]

    def _cause(self, text: str) -> str:
        """A recorded cause: the word that gives its code, and the rest where it names nothing."""
        code, colon, words = text.partition(": ")
        if not (colon and code in CAUSE_CODES):
            return text if self._is_worded(text) else "…"
        return text if self._is_worded(words) else f"{code}: …"


def _sides(of: Json) -> str:
    """The two sides of a comparison, to find it again."""
    return json.dumps([of["left"], of["right"]], sort_keys=True)


def _valued(value: Json) -> Json:
    return {"is": Reason.VALUE.value, "value": value}
