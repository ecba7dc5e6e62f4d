"""Whatever is edited in an event, a contact or a letter is seen, and no noise but noise."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from sandboxes.office.tests.calendars.test_objects import CARD, MOVED, SERIES, ZONE
from statediff.conformance import ResidueSuite

pytest.importorskip("icalendar")

STAMPS = re.compile(r"(DTSTAMP|LAST-MODIFIED|REV|PRODID|VERSION|CALSCALE)[;:].*", re.IGNORECASE)


def crlf(text: str) -> bytes:
    return text.replace("\n", "\r\n").encode()


class OfObjects(ResidueSuite):
    noise = frozenset({"calendar.residue"})
    is_contact = False

    def seen(self, content: bytes) -> Mapping[str, Any]:
        from statediff_office.calendars.source import TYPES, add_object  # noqa: PLC0415 - an extra

        rows: dict[str, list[Any]] = {each.name: [] for each in TYPES}
        causes: dict[str, list[str]] = {}
        add_object(rows, causes, "/c/", "/c/x", content.decode(), is_contact=self.is_contact)
        if causes:
            raise ValueError(str(causes))
        return rows

    def meaning(self, content: bytes) -> Any:
        unfolded = re.sub(r"\r?\n[ \t]", "", content.decode()).replace("\r\n", "\n")
        return sorted(
            re.sub(r"[\"\\,;:= ]", "", line).casefold()
            for line in unfolded.split("\n")
            if line.strip() and not STAMPS.fullmatch(line)
        )


class TestEvents(OfObjects):
    samples = (
        crlf(f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x\n{ZONE}{SERIES}{MOVED}END:VCALENDAR\n"),
        crlf(f"BEGIN:VCALENDAR\nVERSION:2.0\n{MOVED}END:VCALENDAR\n"),
    )


class TestContacts(OfObjects):
    samples = (crlf(CARD),)
    is_contact = True


class TestLetters(ResidueSuite):
    noise = frozenset()
    samples = (b"From: a@x.example\r\nTo: b@x.example\r\nSubject: Hello\r\n\r\nOne\r\nTwo\r\n",)

    def seen(self, content: bytes) -> Mapping[str, Any]:
        from statediff_office.mail.parsing import parse_message  # noqa: PLC0415 - an extra

        return vars(parse_message(content))

    def meaning(self, content: bytes) -> Any:
        return content
