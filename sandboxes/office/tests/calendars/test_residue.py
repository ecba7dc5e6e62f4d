"""An event or a contact is what is shown of it and what is left, and no noise is more than noise.

A text is written from its rows alone, and has to say, line by line, what it said.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

import pytest

from sandboxes.office.tests.calendars.test_objects import CARD, MOVED, SERIES, ZONE
from statediff.conformance import ResidueSuite
from statediff.systems.base.rows import residue as residue_map

pytest.importorskip("icalendar")

Line = tuple[str, list[tuple[str, str]], str]
TASK: Final = (
    "BEGIN:VTODO\nUID;X-A=1:t\nDTSTAMP:20260101T000000Z\nDUE;VALUE=DATE:20260501\nPRIORITY:1\n"
    "SUMMARY:a\\, b\\nc\nX-A;B=C:d\nX-A:B=C:d\nGEO:55.5;13\nDURATION:P1W\nCATEGORIES:a,b\n"
    'ORGANIZER;CN="A, B":mailto:a@x.example\nSTATUS:COMPLETED\nLOCATION:there\n'
    "ATTENDEE;PARTSTAT=ACCEPTED;ADDRESS=z;X-B=c:mailto:b@x.example\n"
    "BEGIN:VALARM\nACTION:DISPLAY\nTRIGGER:-PT15M\nEND:VALARM\nEND:VTODO\n"
    "BEGIN:VFREEBUSY\nUID:f\nEND:VFREEBUSY\n"
)
USUAL: Final = (("VERSION", [], "2.0"), ("CALSCALE", [], "GREGORIAN"))
VERSIONS: Final = (("VERSION", [], "3.0"), ("VERSION", [], "4.0"))
PLACE: Final = ("box", "extended", "street", "city", "region", "code", "country")
WORDS: Final = ("type", "value", "encoding")


def plain(text: str) -> str:
    return re.sub(r"\\([\\,;nN])", lambda found: {"n": "\n"}.get(found[1].lower(), found[1]), text)


def escaped(text: str) -> str:
    return re.sub(r"([\\,;])", r"\\\1", text).replace("\n", "\\n")


def cut(text: str, at: str) -> list[str]:
    parts = re.split(rf"(?<!\\){at}", text.replace("\\\\", "\ue000"))
    return [plain(each.replace("\ue000", "\\\\")) for each in parts]


def read_line(line: str) -> Line:
    """Name, parameters and value, as RFC 5545 and RFC 6350 say."""
    tokens, end = [], 0
    while not end or line[end - 1] == ";":
        found = re.compile(r'((?:"[^"]*"|[^":;])*)[:;]').match(line, end)
        assert found
        tokens.append(found[1])
        end = found.end()
    pairs = [each.partition("=") for each in tokens[1:]]
    said = [(n.lower(), v.replace('"', "")) if is_pair else ("type", n) for n, is_pair, v in pairs]
    return tokens[0].upper(), said, line[end:]


def lines_of(content: bytes) -> list[Line]:
    text = re.sub(r"\r?\n[ \t]", "", content.decode())
    return [read_line(each) for each in re.split(r"\r?\n", text) if each.strip()]


def written(name: str, params: Mapping[str, Any], value: str, *shown: str) -> str:
    """A line of a map that shows some of what it says under these names; `group` is in front."""
    kept = sorted((n, each) for n, each in params.items() if n not in (*shown, "group"))
    said = "".join(f';{n.removeprefix(";")}="{each}"' for n, each in kept)
    group = f"{params['group']}." if params.get("group") else ""
    return f"{group}{name}{said}:{value}"


def of_property(name: str, text: str) -> str:
    """A line of what a property says: its parameters, if it has any, and its value."""
    is_pair = re.match(r"(;?)[^\s:;=]+=", text)
    mark = "" if text[:1] == ":" or (is_pair and is_pair[1]) else ";" if is_pair else ":"
    return f"{name}{mark}{text}"


def of_said(said: str) -> str:
    """A line, or a component as it is, of what an object says around its items."""
    name, _, text = said.partition(":")
    return said if name == "BEGIN" else of_property(name, text)


class OfObjects(ResidueSuite):
    noise = frozenset({"stamps", "layout"})
    is_contact = False

    def read(self, content: bytes) -> tuple[Any, Mapping[str, bytes]]:
        from statediff_office.calendars.lines import residue_of  # noqa: PLC0415 - an extra
        from statediff_office.calendars.source import object_rows  # noqa: PLC0415 - an extra

        text = content.decode()
        rows, [left] = object_rows("/", "x", text, is_contact=self.is_contact).values()
        assert left["residue"] == residue_map(residue_of(text))
        return sorted(rows, key=repr), residue_of(text)

    def write(self, view: Any, residue: Mapping[str, bytes]) -> bytes:
        text = "\n".join([*self.lines(view), ""]).replace("\n", "\r\n")
        return residue.get("layout") or text.encode()

    def lines(self, view: Any) -> Iterator[str]:
        raise NotImplementedError


class TestEvents(OfObjects):
    samples = tuple(
        "\n".join(["BEGIN:VCALENDAR", *items, "END:VCALENDAR\n"]).replace("\n", "\r\n").encode()
        for items in (
            ("VERSION:2.0\nPRODID:x", ZONE, SERIES, MOVED),
            ("VERSION:2.0", MOVED),
            ("VERSION:2.0\nVERSION:2.0\nMETHOD:CANCEL\nCALSCALE:GREGORIAN", TASK),
            (MOVED.replace("DTSTAMP", "DTSTAMP:20260101T000000Z\nDTSTAMP"),),
            ("VERSION:1.0\nVERSION:2.0\nPRODID:x\nPRODID:x\nX-WR-CALNAME:Mine", MOVED),
        )
    )

    def lines(self, view: Any) -> Iterator[str]:
        around = dict(view[0]["properties"].items).get("VCALENDAR", ())
        yield "BEGIN:VCALENDAR"
        if not any(each.partition(":")[0] == "VERSION" for each in around):
            yield "VERSION:2.0"
        yield from map(of_said, filter("VERSION".__ne__, around))
        for zone, rules in view[0]["zones"].items:
            if not any(f"\nTZID:{zone}" in each for item in view for each in item["alarms"]):
                yield f"BEGIN:VTIMEZONE\nTZID:{escaped(zone)}"
                yield from (*map(of_said, rules), "END:VTIMEZONE")
        for item in view:
            yield from self.item(item)
        yield "END:VCALENDAR"

    def item(self, item: Any) -> Iterator[str]:
        yield f"BEGIN:{item['kind']}"
        texts = {"UID": "uid", "SUMMARY": "summary", "DESCRIPTION": "description"}
        texts |= {"LOCATION": "location", "STATUS": "status", "TRANSP": "transparency"}
        values = {"RECURRENCE-ID": item["recurrence"] or None, "RRULE": item["rule"]}
        values |= {"SEQUENCE": item["sequence"], "ORGANIZER": item["organizer"]}
        for name, field in (*texts.items(), ("CLASS", "classification")):
            values[name] = item[field] and escaped(item[field])
        properties = {n: each for n, each in item["properties"].items if n != "VCALENDAR"}
        for name in values.keys() - properties.keys():
            if values[name] is not None:
                yield f"{name}:{values[name]}"
        for name, said in properties.items():
            yield from (of_property(name, text) for text in said)
        for each in item["attendees"]:
            yield written("ATTENDEE", dict(each.items), each.get("address"), "address")
        yield from (*item["alarms"], f"END:{item['kind']}")

    def meaning(self, content: bytes) -> Any:
        """The components and their lines, but for a stamp that is there once."""
        stack: list[tuple[str, list[Line], list[Any]]] = [("", [], [])]
        for line in lines_of(content):
            if line[0] == "BEGIN":
                stack.append((line[2].upper(), [], []))
            elif line[0] == "END":
                kind, lines, inner = stack.pop()
                often = Counter(name for name, _, _ in lines)
                kept = [each for each in lines if often[each[0]] > 1 or not is_stamp(kind, each)]
                stack[-1][2].append((kind, sorted(map(meant, kept)), sorted(inner)))
            else:
                stack[-1][1].append(line)
        return stack[0][2]


def is_stamp(kind: str, line: Line) -> bool:
    if kind == "VCALENDAR":
        return line[0] == "PRODID" or line in USUAL
    return kind in ("VEVENT", "VTODO", "VJOURNAL") and line[0] in ("DTSTAMP", "LAST-MODIFIED")


def meant(line: Line) -> Line:
    """The line, without what several programs write in several ways."""
    name, params, value = line
    signs = {"n": "\n", "'": '"'}  # behind a caret, in a parameter
    params = [(n, re.sub(r"\^([n'^])", lambda f: signs.get(f[1], f[1]), v)) for n, v in params]
    if name.startswith(("DT", "DUE", "EX", "R")):
        params = [(n, v) for n, v in params if (n, v.upper()) != ("value", "DATE-TIME")]
    if name in ("DURATION", "TRIGGER") and (found := re.match(r"([+-]?)P", value)):
        units = {"W": 604800, "D": 86400, "H": 3600, "M": 60, "S": 1}
        seconds = sum(int(n) * units[unit] for n, unit in re.findall(r"(\d+)([WDHMS])", value))
        value = str(timedelta(seconds=-seconds if found[1] == "-" else seconds))
    elif name in ("RRULE", "EXRULE"):
        plainly = re.sub(r"(?<![0-9])0+(?=[0-9])", "", value.upper())
        value = ";".join(sorted(filter(None, plainly.split(";"))))
    elif name in ("SEQUENCE", "PRIORITY", "PERCENT-COMPLETE", "REPEAT"):
        value = str(int(value))
    elif name == "GEO":
        value = ";".join(str(float(each)) for each in value.split(";"))
    value = re.sub(r"(\\\\)|\\:", lambda found: found[1] or ":", value)  # as old programs escape
    return name, sorted(params), plain(value)


class TestContacts(OfObjects):
    is_contact = True
    samples = tuple(
        CARD.replace(old, new).replace("\n", "\r\n").encode()
        for old, new in (
            ("", ""),
            ("VERSION:3.0", "VERSION:4.0\nitem1.X-A:b\nX-A;GROUP=item1:b\nX-A:;group=item1:b"),
            ("VERSION:3.0\n", "REV:1\n"), ("VERSION:3.0", "VERSION:2.1"),
            ("VERSION:3.0", "VERSION:3.0\nVERSION:3.0"), ("UID:t", "UID;X=1:t"),
            ("TYPE=WORK:;;", 'TYPE=WORK;CITY=x;LABEL="Storgatan: 4, Malmö":;;'),
            ("supplier", r"supp\lier\, a"), ("Tomas Lindqvist\nN", "Tomas Lindqvist\\\nN"),
            ("EMAIL;TYPE=WORK", "EMAIL;VALUE=URI;TYPE=WORK"), ("item1.ADR;", "ADR;GROUP=item1;"),
            ("X-ODD;P=1:", 'X-ODD;P="1:2";Q=3:'), ("X-ODD;P=1:", "item2.X-ODD;A=1;P=2:"),
        )
    )  # fmt: skip

    def lines(self, view: Any) -> Iterator[str]:
        [row] = view
        properties = dict(row["properties"].items)
        yield "BEGIN:VCARD"
        for name, value in (("VERSION", "3.0"), ("UID", row["uid"])):
            if name not in properties:
                yield f"{name}:{value}"
        texts = {"FN": "full_name", "TITLE": "title", "NOTE": "note", "BDAY": "birthday"}
        said = {name: row[field] and escaped(row[field]) for name, field in texts.items()}
        yield from (
            f"{n}:{v}" for n, v in (*said.items(), ("ORG", row["organization"])) if v is not None
        )
        for name, field in (("EMAIL", "emails"), ("TEL", "phones")):
            for each in row[field]:
                yield written(name, dict(each.items), escaped(each.get("value")), "value")
        for place in (dict(each.items) for each in row["addresses"]):
            parts = [*(place[name] for name in PLACE), *place.get("more", ())]
            yield written("ADR", place, ";".join(map(escaped, parts)), *PLACE, "more")
        if row["categories"]:
            yield f"CATEGORIES:{','.join(map(escaped, row['categories']))}"
        grouped = re.compile(
            r'((?:;?[^\s:;=]+=(?:"[^"]*"|[^";:]*);)*?)group=([^;:]*)([;:].*)', re.DOTALL
        )
        for name, text in ((name, text) for name, texts in properties.items() for text in texts):
            if found := grouped.fullmatch(text):
                before, group, rest = found.groups()
                bare = before + rest[1:] if rest[0] == ";" else before[:-1] + rest
                yield of_property(f"{group}.{name}", bare)
            else:
                yield of_property(name, text)
        yield "END:VCARD"

    def meaning(self, content: bytes) -> Any:
        lines = [(*name.rpartition(".")[::2], *rest) for name, *rest in lines_of(content)]
        often, found = Counter(kind for _, kind, _, _ in lines), []
        for group, kind, params, text in lines:
            is_usual = not group and (kind, params, text) in VERSIONS
            if often[kind] == 1 and (is_usual or kind in ("REV", "PRODID")):
                continue
            value = text.upper() if kind in ("BEGIN", "END") else text
            said: dict[str, list[str]] = {}
            for n, v in params:
                said.setdefault(n, []).extend(v.lower().split(",") if n in WORDS else [v])
            given = {n: ",".join(sorted(v) if n in WORDS else v) for n, v in said.items()}
            parts = cut(value, {"ADR": ";", "CATEGORIES": ","}.get(kind, "$^"))
            while kind == "ADR" and parts and not parts[-1]:
                parts.pop()
            shown = parts if kind == "CATEGORIES" and not given else ["\0".join(parts)]
            found += [(group.lower(), kind, sorted(given.items()), each) for each in shown]
        return sorted(found)
