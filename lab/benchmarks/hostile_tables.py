"""Possible changes to exported tables: to records, values, and the file."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, Final

from lab.benchmarks.hostile_files import touched
from lab.benchmarks.hostile_places import Family, pick


def _document(path: Path) -> Any:
    return json.loads(path.read_text())


def _records(document: Any, rng: random.Random) -> tuple[str, list[Any]]:
    name = pick(sorted(n for n in document if document[n]), rng)
    return name, document[name]


def table_record(path: Path, rng: random.Random) -> str:
    document = _document(path)
    name, records = _records(document, rng)
    at = rng.randrange(len(records))
    way = rng.choice(["delete", "twice", "copy", "no id", "null", "a list", "another id"])
    match way:
        case "delete":
            del records[at]
        case "twice":
            records.append(records[at])
        case "copy":
            records.append({**records[at], "id": rng.randrange(10**6, 10**7)})
        case "no id":
            del records[at]["id"]
        case "null":
            records[at] = None
        case "a list":
            records[at] = list(records[at].values())
        case _:
            records[at]["id"] = str(records[at]["id"])
    path.write_text(json.dumps(document))
    return f"{name} {at}: {way}"


def table_value(path: Path, rng: random.Random) -> str:
    document = _document(path)
    name, records = _records(document, rng)
    record = pick(records, rng)
    field = pick([f for f in record if f != "id"], rng)
    value = record[field]
    ways: list[Any] = [
        "\ud800",
        float("nan"),
        float("inf"),
        {},
        [],
        [value],
        {"a": value},
        True,
        False,
        -1,
        0.1,
        None,
        "",
        "x",
        str(value) + " ",
        10**400,
    ]
    new = pick([w for w in ways if w != value or type(w) is not type(value)], rng)
    if rng.random() < 0.2:
        record[f"z{rng.randrange(99)}"] = value
    elif rng.random() < 0.2:
        del record[field]
    else:
        record[field] = new
    path.write_text(json.dumps(document))
    return f"{name}.{field}: {str(new)[:30]!r}"


def table_whole(path: Path, rng: random.Random) -> str:
    document = _document(path)
    name = pick(sorted(n for n in document if document[n]), rng)
    text = json.dumps(document)
    way = rng.choice(["empty", "number", "text", "null", "new", "cut", "twice", "bytes", "deep"])
    match way:
        case "empty":
            text = json.dumps({**document, name: []})
        case "number" | "null" | "text":
            other = {"number": 7, "null": None, "text": "x"}[way]
            text = json.dumps({**document, name: other})
        case "new":
            text = json.dumps({**document, f"z{rng.randrange(99)}": [{"id": 1}]})
        case "cut":
            text = text[: rng.randrange(len(text) - 1)]
        case "twice":
            text = text[:-1] + f', "{name}": []}}'
        case "deep":
            text = text[:-1] + ', "z": ' + "[" * 300 + "]" * 300 + "}"
        case _:
            content = bytearray(text.encode())
            content[rng.randrange(2, len(content))] = 0xFF
            path.write_bytes(content)
            return "a byte that is no text"
    path.write_text(text)
    return f"{name}: {way}"


def table_spelling(path: Path, rng: random.Random) -> str:
    document = _document(path)
    if rng.random() < 0.4:
        document = dict(rng.sample(sorted(document.items()), len(document)))
        for records in document.values():
            records[:] = [dict(rng.sample(sorted(r.items()), len(r))) for r in records]
    if rng.random() < 0.4:
        for records in document.values():
            rng.shuffle(records)
    indent, ascii_only = rng.choice([None, 0, 1, 4, "\t"]), rng.random() < 0.5
    text = json.dumps(
        document,
        indent=indent,
        ensure_ascii=ascii_only,
        separators=rng.choice([None, (",", ":"), (" , ", " :  ")]),
    )
    mark = rng.choice([b"", b"", b"\xef\xbb\xbf"])
    path.write_bytes(mark + text.replace("\n", rng.choice(["\n", "\r\n"])).encode() + b"\n")
    return f"indent {indent!r}, {'ASCII' if ascii_only else 'UTF-8'}, mark {mark!r}"


HARMS: Final[tuple[Family, ...]] = (table_record, table_value, table_whole)
CHORES: Final[tuple[Family, ...]] = (table_spelling, touched)
