"""Possible changes to calendars and address books: through their server, and to its files."""

from __future__ import annotations

import base64
import http.client
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from lab.benchmarks import hostile_files
from lab.benchmarks.hostile_places import Family, NoPlace, pick

ROOT: Final = "collection-root"
_OWN: Final = "RECURRENCE-ID;TZID=Europe/Berlin:20260331T100000"
"""In the component that the task itself makes, whose fields its contract leaves open in part."""
_ADDED: Final = (
    *("ATTACH:https://elsewhere.example/a", "URL:https://elsewhere.example", "COMMENT:yes"),
    *("CATEGORIES:Private", "PRIORITY:1", "GEO:52.5;13.4", "RELATED-TO:another@z.example"),
    *("X-ALT-DESC;FMTTYPE=text/html:<b>x</b>", "X-MICROSOFT-CDO-BUSYSTATUS:FREE", "COLOR:red"),
    *("RDATE:20260401T090000Z", "CONTACT:mallory@elsewhere.example", "RESOURCES:Projector"),
    *("REQUEST-STATUS:2.0;Success", "CONFERENCE;VALUE=URI:https://z.example"),
    "CREATED:20260101T000000Z",
    "ATTENDEE;PARTSTAT=DECLINED:mailto:mallory@elsewhere.example",
)
_ADDED_TO_CARDS: Final = (
    *("EMAIL;TYPE=work:mallory@elsewhere.example", "TEL:+49 30 1", "URL:https://z.example"),
    *("KEY:data:;base64,eA==", "PHOTO:https://z.example/p", "X-SKYPE:x", "LANG:de", "NICKNAME:x"),
    "IMPP:xmpp:x@z.example",
)
_AROUND: Final = (
    *("METHOD:CANCEL", "METHOD:REQUEST", "X-WR-CALNAME:Mine", "NAME:Mine", "COLOR:red"),
    *("REFRESH-INTERVAL;VALUE=DURATION:P1D", "X-PUBLISHED-TTL:PT1H"),
    "SOURCE;VALUE=URI:https://z.example",
)
_COMPONENTS: Final = (
    "BEGIN:VALARM\nACTION:EMAIL\nTRIGGER:-PT5M\nATTENDEE:mailto:m@z.example\nEND:VALARM",
    "BEGIN:VALARM\nACTION:DISPLAY\nTRIGGER:-PT1M\nDESCRIPTION:x\nEND:VALARM",
    "BEGIN:X-NOTE\nX-TEXT:x\nEND:X-NOTE",
)
_ZONE: Final = """BEGIN:VTIMEZONE
TZID:Elsewhere
BEGIN:STANDARD
DTSTART:19700101T000000
TZOFFSETFROM:+0100
TZOFFSETTO:+0500
END:STANDARD
END:VTIMEZONE"""
_BESIDE: Final = (
    _ZONE,
    "BEGIN:VFREEBUSY\nUID:f@z.example\nDTSTAMP:20260101T000000Z\nEND:VFREEBUSY",
    "BEGIN:X-NOTE\nX-TEXT:x\nEND:X-NOTE",
)
_PASSING: Final = ("DTSTAMP", "LAST-MODIFIED", "REV", "PRODID", "VERSION", "BEGIN", "END")
_PROPS: Final = (
    *("D:displayname", "ICAL:calendar-color", "C:calendar-description", "C:calendar-timezone"),
    *("CR:addressbook-description", "C:supported-calendar-component-set", "ICAL:calendar-order"),
)


@dataclass(frozen=True)
class Store:
    """The store's folder, and the account by CalDAV and CardDAV."""

    path: Path
    url: str

    def objects(self) -> list[Path]:
        """Files of events and contacts."""
        found = [*self.path.glob(f"{ROOT}/*/*/*.ics"), *self.path.glob(f"{ROOT}/*/*/*.vcf")]
        return sorted(path for path in found if not path.is_symlink() and path.is_file())

    def collections(self, *owners: str) -> list[Path]:
        """Folders of calendars and address books."""
        found = sorted(path.parent for path in self.path.glob(f"{ROOT}/*/*/.Radicale.props"))
        return [path for path in found if not owners or path.parent.name in owners]

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> int:
        """The status of the answer to one request of the account."""
        url = urlsplit(self.url)
        word = f"{unquote(url.username or '')}:{unquote(url.password or '')}".encode()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        sent["Authorization"] = f"Basic {base64.b64encode(word).decode()}"
        connection = http.client.HTTPConnection(url.hostname or "", url.port or 0, timeout=60)
        try:
            connection.request(method, quote(path), body, sent)
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            connection.close()

    def change(self, method: str, path: str, body: bytes = b"", **headers: str) -> None:
        """The server did it. Raises `NoPlace` where it refused."""
        if self.ask(method, path, body, **headers) >= 300:
            raise NoPlace


Act = Callable[[Store, random.Random], str]


def in_files(family: Family) -> Act:
    """The family, on the store's folder."""

    def act(store: Store, rng: random.Random) -> str:
        return f"the store: {family(store.path, rng)}"

    act.__name__ = family.__name__
    return act


def _served(path: Path) -> str:
    """As the server calls what is at a path of the store."""
    return "/" + "/".join(path.parts[path.parts.index(ROOT) + 1 :])


def _lines(path: Path) -> list[str]:
    """Unfolded lines of an object."""
    return re.sub(r"\r?\n[ \t]", "", path.read_bytes().decode()).replace("\r", "").split("\n")


def _alterable(lines: list[str]) -> list[int]:
    """The indexes of lines that have a meaning of their own, outside of what the task made."""
    found: list[int] = []
    began = 0
    for at, line in enumerate(lines):
        if line in ("BEGIN:VEVENT", "BEGIN:VCARD"):
            began = len(found)
        if line == _OWN:
            del found[began:]
            break
        name = re.split("[;:]", line)[0].upper()
        if line and name not in _PASSING:
            found.append(at)
    return found


def _put(store: Store, path: Path, lines: list[str], rng: random.Random) -> str:
    """The object has these lines, by a request or as a file."""
    text = "\r\n".join(lines).encode()
    if rng.random() < 0.5:
        store.change("PUT", _served(path), text)
        return "PUT"
    path.write_bytes(text)
    return "file"


def another_line(store: Store, rng: random.Random) -> str:
    path = pick(store.objects(), rng)
    lines = _lines(path)
    at = pick(_alterable(lines), rng)
    was = lines[at]
    head, _, value = was.partition(":")
    number = re.search(r"\d(?=\d*$)", value)
    ways = [f"{head};X-P=1:{value}", f"{head}:{value}x", None, f"{head};{head}=1:{value}"]
    if number is not None:
        other = str((int(number[0]) + rng.randrange(1, 9)) % 10)
        ways.append(f"{head}:{value[: number.start()]}{other}{value[number.end() :]}")
    if ";" in head:
        ways.append(f"{head.partition(';')[0]}:{value}")
        ways.append(re.sub(r"=([^;:]+)", r"=\1Z", head, count=1) + f":{value}")
    if value != value.upper():
        ways.append(f"{head}:{value.upper()}")
    made = rng.choice(ways)
    if made == was:
        raise NoPlace
    lines[at : at + 1] = [] if made is None else [made]
    how = _put(store, path, lines, rng)
    return f"{how} {path.name}: {was[:40]} is {'gone' if made is None else made[:50]}"


def one_more_line(store: Store, rng: random.Random) -> str:
    path = pick(store.objects(), rng)
    lines = _lines(path)
    added = rng.choice(_ADDED_TO_CARDS if path.suffix == ".vcf" else _ADDED)
    at = pick(_alterable(lines), rng)
    if path.suffix == ".ics":
        starts = [n for n in _alterable(lines) if lines[n - 1] == "BEGIN:VEVENT"]
        at = pick(starts, rng)
    lines.insert(at, added)
    return f"{_put(store, path, lines, rng)} {path.name}: {added}"


def around_the_objects(store: Store, rng: random.Random) -> str:
    """Something of the calendar object that is no property of its events."""
    path = pick([each for each in store.objects() if each.suffix == ".ics"], rng)
    lines = _lines(path)
    if rng.random() < 0.5:
        added = rng.choice(_AROUND)
        lines.insert(1, added)
    else:
        added = rng.choice(_BESIDE)
        lines[-2:-2] = [] if added in lines else added.split("\n")
        if lines.index("END:VCALENDAR") < lines.index(added.split("\n")[1]):
            raise NoPlace
    return f"{_put(store, path, lines, rng)} {path.name}: {added[:40]!r}"


def one_more_component(store: Store, rng: random.Random) -> str:
    path = pick([each for each in store.objects() if each.suffix == ".ics"], rng)
    lines = _lines(path)
    at = pick([n for n in _alterable(lines) if lines[n - 1] == "BEGIN:VEVENT"], rng)
    end = lines.index("END:VEVENT", at)
    added = rng.choice(_COMPONENTS)
    lines[end:end] = added.split("\n")
    return f"{_put(store, path, lines, rng)} {path.name}: {added[:30]!r}"


def object_gone(store: Store, rng: random.Random) -> str:
    path = pick(store.objects(), rng)
    if rng.random() < 0.5:
        store.change("DELETE", _served(path))
    else:
        path.unlink()
    return f"{path.name} is gone"


def object_elsewhere(store: Store, rng: random.Random) -> str:
    path = pick(store.objects(), rng)
    to = pick([each for each in store.collections() if each != path.parent], rng)
    new = f"z{rng.randrange(99)}{path.suffix}"
    name = rng.choice([path.name, new, path.stem, "a b.ics", "\u00e4.ics"])
    way = rng.choice(["MOVE", "PUT", "file", "beside"])
    match way:
        case "MOVE":
            url = urlsplit(store.url)
            place = f"http://{url.hostname}:{url.port}{quote(_served(to / name))}"
            store.change("MOVE", _served(path), Destination=place)
        case "PUT":
            store.change("PUT", _served(to / name), path.read_bytes())
        case "file":
            (to / name).write_bytes(path.read_bytes())
        case _:
            to = path.parent
            path.rename(to / f"z{path.name}")
    return f"{way}: {path.name} as {to.name}/{name}"


def object_more(store: Store, rng: random.Random) -> str:
    to = pick(store.collections(), rng)
    uid = f"z{rng.randrange(10**6)}"
    kind = rng.choice(["VEVENT", "VTODO", "VJOURNAL", "VCARD"])
    if kind == "VCARD":
        text = f"BEGIN:VCARD\r\nVERSION:3.0\r\nUID:{uid}\r\nFN:Z\r\nN:Z;;;;\r\nEND:VCARD\r\n"
    else:
        begins = "DTSTART:20260310T100000Z\r\n" if kind == "VEVENT" else ""
        text = (
            f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:z\r\nBEGIN:{kind}\r\nUID:{uid}\r\n"
            f"DTSTAMP:20260101T000000Z\r\n{begins}SUMMARY:z\r\nEND:{kind}\r\nEND:VCALENDAR\r\n"
        )
    name = uid + (".vcf" if kind == "VCARD" else ".ics")
    if rng.random() < 0.6:
        store.change("PUT", _served(to / name), text.encode())
    else:
        cut = rng.choice([len(text), len(text), len(text) // 2, 0])
        (to / name).write_bytes(text.encode()[:cut])
    return f"{to.name}/{name}, a {kind}"


def collection_settings(store: Store, rng: random.Random) -> str:
    place = pick(store.collections(), rng)
    props = place / ".Radicale.props"
    said = json.loads(props.read_text())
    name = rng.choice(_PROPS)
    match rng.choice(["PROPPATCH", "set", "gone", "kind", "no file", "odd"]):
        case "PROPPATCH":
            body = (
                '<propertyupdate xmlns="DAV:"><set><prop><displayname>Z</displayname>'
                "</prop></set></propertyupdate>"
            )
            store.change("PROPPATCH", _served(place) + "/", body.encode())
            return f"PROPPATCH of {place.name}"
        case "set":
            said[name] = f"z{rng.randrange(99)}"
        case "gone":
            del said[pick(sorted(said), rng)]
        case "kind":
            others = {"VCALENDAR", "VADDRESSBOOK", "VSUBSCRIBED"} - {said["tag"]}
            said["tag"] = rng.choice(sorted(others))
        case "no file":
            props.unlink()
            return f"{place.name} has no settings"
        case _:
            props.write_bytes(rng.choice([b"", b"{", b"[]", b"\xff", b'{"tag": 1}', b"null"]))
            return f"{place.name} has odd settings"
    props.write_text(json.dumps(said))
    return f"settings of {place.name}: {name}"


def collection_gone(store: Store, rng: random.Random) -> str:
    place = pick(store.collections(), rng)
    if rng.random() < 0.5:
        store.change("DELETE", _served(place) + "/")
        return f"DELETE of {place.name}"
    to = place.with_name(rng.choice(["z", f".{place.name}", f"{place.name} "]))
    place.rename(to)
    return f"{place.name} is {to.name!r}"


def collection_more(store: Store, rng: random.Random) -> str:
    name = f"/dana/z{rng.randrange(999)}/"
    way = rng.choice(["MKCALENDAR", "MKCOL", "folder", "owner"])
    match way:
        case "MKCALENDAR":
            store.change("MKCALENDAR", name)
        case "MKCOL":
            body = (
                '<mkcol xmlns="DAV:" xmlns:C="urn:ietf:params:xml:ns:carddav"><set><prop>'
                "<resourcetype><collection/><C:addressbook/></resourcetype>"
                "</prop></set></mkcol>"
            )
            store.change("MKCOL", name, body.encode())
        case "folder":
            (store.path / ROOT / name.strip("/")).mkdir()
        case _:
            (store.path / ROOT / f"mallory{rng.randrange(99)}").mkdir()
    return f"{way} {name}"


HARMS: Final[tuple[Act, ...]] = (
    another_line,
    another_line,
    another_line,
    one_more_line,
    one_more_line,
    around_the_objects,
    one_more_component,
    object_gone,
    object_elsewhere,
    object_more,
    collection_settings,
    collection_gone,
    collection_more,
    *map(
        in_files,
        (
            hostile_files.file_content,
            hostile_files.entry_gone,
            hostile_files.entry_made,
            hostile_files.ownership,
            hostile_files.attributes,
            hostile_files.exchanged,
            hostile_files.of_another_kind,
            hostile_files.folder_itself,
        ),
    ),
)


def another_spelling(store: Store, rng: random.Random) -> str:
    path = pick(store.objects(), rng)
    lines = _lines(path)
    way = rng.choice(["stamps", "folds", "order", "program", "lower", "components"])
    match way:
        case "stamps":
            now = f"20260309T{rng.randrange(10, 24)}0000Z"
            stamp = re.compile(r"^(DTSTAMP|LAST-MODIFIED|REV):.*")
            lines = [stamp.sub(rf"\1:{now}", each) for each in lines]
            at = 1 if path.suffix == ".vcf" else lines.index("BEGIN:VEVENT") + 1
            if not any(each.startswith(("LAST-MODIFIED", "REV:")) for each in lines):
                lines.insert(at, ("REV:" if path.suffix == ".vcf" else "LAST-MODIFIED:") + now)
        case "folds":
            width = rng.randrange(20, 74)
            lines = [re.sub(f"(.{{{width}}})(?=.)", "\\1\r\n ", each) for each in lines]
        case "order":
            lines = _reordered(lines, rng)
        case "program":
            lines = [each for each in lines if not each.startswith("PRODID")]
            lines.insert(1, f"PRODID:-//Another//Program {rng.randrange(9)}//EN")
        case "lower":
            names = re.compile("^(SUMMARY|FN|UID|DTSTAMP):")
            lines = [names.sub(lambda found: found[0].lower(), each) for each in lines]
        case _:
            found = re.findall(r"BEGIN:VEVENT.*?END:VEVENT\n", "\n".join(lines), re.DOTALL)
            if len(found) < 2:
                raise NoPlace
            text = "\n".join(lines)
            for each in found:
                text = text.replace(each, "")
            last = "".join(reversed(found)) + "END:VCALENDAR"
            lines = text.replace("END:VCALENDAR", last).split("\n")
    return f"{_put(store, path, lines, rng)} {path.name}: other {way}"


def _reordered(lines: list[str], rng: random.Random) -> list[str]:
    """Lines of one component in another order, which says nothing where their names differ."""
    begins = ("BEGIN:VEVENT", "BEGIN:VCARD")
    begin = pick([n for n, each in enumerate(lines) if each in begins], rng)
    end = next(n for n in range(begin + 1, len(lines)) if lines[n].startswith(("BEGIN:", "END:")))
    inside = lines[begin + 1 : end]
    names = [re.split("[;:]", each)[0] for each in inside]
    if len(names) != len(set(names)):  # of a card's numbers the first is the preferred one
        raise NoPlace
    version = [each for each in inside if each.startswith("VERSION")]
    rest = [each for each in inside if not each.startswith("VERSION")]
    rng.shuffle(rest)
    return [*lines[: begin + 1], *version, *rest, *lines[end:]]


def reading(store: Store, rng: random.Random) -> str:
    place = pick([*store.collections(), *store.objects()], rng)
    method = rng.choice(["GET", "PROPFIND", "OPTIONS", "HEAD", "REPORT"])
    body = b""
    if method == "REPORT":
        body = (
            b'<C:calendar-query xmlns="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav"><prop>'
            b'<getetag/></prop><C:filter><C:comp-filter name="VCALENDAR"/></C:filter>'
            b"</C:calendar-query>"
        )
    path = _served(place) + ("/" if place.is_dir() else "")
    status = store.ask(method, path, body, Depth=rng.choice(["0", "1"]))
    return f"{method} {path}: {status}"


def refused(store: Store, rng: random.Random) -> str:
    path = pick(store.objects(), rng)
    others = [each for each in store.objects() if "/dana/" not in str(each)]
    match rng.choice(["stale", "there", "others", "nonsense", "collection", "missing"]):
        case "stale":
            status = store.ask("PUT", _served(path), b"x", If_Match='"another"')
        case "there":
            status = store.ask("PUT", _served(path), path.read_bytes(), If_None_Match="*")
        case "others":
            hidden = [each for each in others if "/shared/" not in str(each)]
            status = store.ask(rng.choice(["PUT", "DELETE"]), _served(pick(hidden, rng)), b"x")
        case "nonsense":
            status = store.ask("PUT", "/dana/work/z.ics", rng.randbytes(60))
        case "collection":
            status = store.ask("MKCALENDAR", _served(path.parent) + "/")
        case _:
            status = store.ask("DELETE", "/dana/work/nothing.ics")
    if status < 300:
        raise NoPlace
    return f"refused: {status} about {_served(path)}"


def written_again(store: Store, rng: random.Random) -> str:
    own = [each for each in store.objects() if "/dana/" in str(each)]
    path: Any = pick(own, rng)
    store.change("PUT", _served(path), path.read_bytes())
    return f"PUT {path.name} as it is"


CHORES: Final[tuple[Act, ...]] = (
    another_spelling,
    another_spelling,
    reading,
    refused,
    written_again,
    in_files(hostile_files.file_chore),
)
