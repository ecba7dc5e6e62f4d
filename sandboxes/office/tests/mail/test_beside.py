"""A message's load beside its envelope, subject, body and attachments."""

import base64
import time
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statediff_office.mail import source as mail_source
from statediff_office.mail.headers import BOOKKEEPING
from statediff_office.mail.parsing import parse_message
from statediff_office.mail.source import MailSource, OutboxControl

from statediff.model.state import Coverage, MemoryChunks

ACCEPTED = datetime(2026, 3, 16, 10, 30, tzinfo=UTC)
PLAIN = b"From: care@x.example\r\nTo: ada@y.example\r\nSubject: Recall\r\n"


def state(*messages, sender="care@x.example", to=("ada@y.example",)):
    source = MailSource("outbox", OutboxControl(0, b""))
    found = mail_source.Deliveries()
    accepted = [
        {
            "sender": sender,
            "recipients": list(to),
            "received_at_ns": int(ACCEPTED.timestamp() * 1e9),
            "raw": base64.b64encode(raw).decode(),
        }
        for raw in messages
    ]
    for rows in source.deliveries(accepted):
        found.extend(rows)
    return source.state(found, MemoryChunks(), None)


def rows(found, name):
    return [row for _, row in found.tables[name].rows()]


def headers(*lines, body=b"Dear Ada.\r\n", **envelope):
    found = state(b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body, **envelope)
    return [(row["name"], row["value"]) for row in rows(found, "message_header")]


def parts(raw):
    found = state(raw)
    return [(p["type"], p["disposition"], p["text"]) for p in rows(found, "message_part")]


def entity(*lines, sub=b"mixed", head=PLAIN):
    between = b"\r\n--b\r\n".join((b"", *lines))
    return head + b"Content-Type: multipart/%s; boundary=b\r\n" % sub + between + b"\r\n--b--\r\n"


TEXT = b"Content-Type: text/plain\r\n\r\nDear Ada."


def test_a_plain_letter_is_a_message_and_nothing_beside_it():
    made = EmailMessage()
    made["From"], made["To"] = "Hearthside <care@x.example>", "Ada <ada@y.example>"
    made["Subject"], made["Message-ID"] = "Rückruf", "<1@x>"
    made["Date"] = format_datetime(ACCEPTED)
    made["X-Mailer"] = "any"
    made.set_content("Grüße")
    made.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="a.pdf")
    raw = b"Received: from a\r\nReceived: from b\r\n" + made.as_bytes()
    found = state(raw)
    (row,) = rows(found, "message")
    assert (row["subject"], row["body"]) == ("Rückruf", "Grüße\n")
    assert (row["headers"].get("from"), row["headers"].get("to")) == (
        ("Hearthside <care@x.example>",),
        ("Ada <ada@y.example>",),
    )
    assert row["headers"].get("reply_to") == row["headers"].get("cc") == ()
    (attached,) = row["attachments"]
    assert attached.get("disposition") == "attachment"
    assert rows(found, "message_part") == rows(found, "message_header") == []


PARTS = {
    "another text": (b"Content-Type: text/html\r\n\r\n<p>Pay", ("text/html", "inline", "<p>Pay")),
    "an invitation": (
        b"Content-Type: text/calendar; method=REQUEST\r\n\r\nBEGIN",
        ("text/calendar", "inline", "BEGIN"),
    ),
    "a script": (
        b"Content-Type: text/javascript\r\nContent-Disposition: inline\r\n\r\nx()",
        ("text/javascript", "inline", "x()"),
    ),
    "a message": (
        b"Content-Type: message/rfc822\r\n\r\nFrom: a@b\r\n\r\nsecret",
        ("message/rfc822", "inline", "From: a@b\n\nsecret"),
    ),
    "enriched": (
        b"Content-Type: text/enriched\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=41",
        ("text/enriched", "inline", "A"),
    ),
    "broken": (
        b"Content-Type: text/html\r\nContent-Transfer-Encoding: base64\r\n\r\n%",
        ("text/html", "inline", None),
    ),
    "unknown charset": (
        b"Content-Type: text/html; charset=zip\r\n\r\nx",
        ("text/html", "inline", None),
    ),
    "two kinds at once": (
        b"Content-Type: text/plain\r\nContent-Type: text/html\r\n\r\n<p>",
        ("text/plain", "inline", "<p>"),
    ),
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("sub", [b"mixed", b"alternative", b"related", b"x-own"])
def test_a_part_beside_the_body_is_an_entity_of_its_own(name, sub):
    content, expected = PARTS[name]
    assert parts(entity(TEXT, content, sub=sub)) == [expected]


@pytest.mark.parametrize("name", PARTS)
def test_a_change_of_a_part_is_a_change_of_its_digest(name):
    content, _ = PARTS[name]
    one, two = (
        rows(state(entity(TEXT, content + end)), "message_part")[0]["digest"] for end in (b"", b"~")
    )
    assert one != two


def test_of_several_forms_of_a_letter_the_first_plain_text_is_the_body():
    second = b"Content-Type: text/plain\r\n\r\nPay to XX."
    (row,) = rows(state(entity(TEXT, second, sub=b"alternative")), "message")
    assert row["body"] == "Dear Ada."
    assert parts(entity(TEXT, second, sub=b"alternative")) == [
        ("text/plain", "inline", "Pay to XX.")
    ]
    assert parts(entity(TEXT, second)) == []


def test_what_stands_around_the_parts_is_seen_unless_it_is_what_programs_write():
    raw = entity(TEXT)
    head, _, rest = raw.partition(b"\r\n--b")
    assert parts(head + b"\r\n\r\nThis is a multi-part message in MIME format.\r\n--b" + rest) == []
    assert parts(head + b"\r\n\r\nhidden\r\n--b" + rest) == [("", "preamble", None)]
    assert parts(raw + b"hidden\r\n") == [("", "epilogue", None)]


def test_one_part_that_is_no_plain_text_is_no_body():
    found = state(PLAIN + b"Content-Type: text/html\r\n\r\n<p>\r\n")
    assert rows(found, "message")[0]["body"] is None
    assert len(rows(found, "message_part")) == 1


def test_every_delivery_has_its_own_parts_and_headers():
    raw = entity(TEXT, PARTS["a script"][0], head=PLAIN + b"Reply-To: m@z.example\r\n")
    found = state(raw, to=("ada@y.example", "bob@y.example"))
    for name in ("message_part", "message_header"):
        assert [row["message"] for row in rows(found, name)] == [1, 2]


DEPARTURES = [
    (b"Subject: one", b"Subject: two"),
    (b"From: boss@x.example",),
    (b"From: care@x.example, boss@x.example",),
    (b"From: care@x.example", b"From: boss@x.example"),
    (b'From: "boss@x.example" <care@x.example>',),
    (b"From: =?utf-8?q?boss=40x=2Eexample?= <care@x.example>",),
    (b"From: care@x.example <boss@x.example>",),
    (b"From: care@x.example)boss@x.example",),
    (b"From:",),
    (b"Sender: boss@x.example",),
    (b"Reply-To: mallory@z.example",),
    (b"Reply-To: care@x.example, mallory@z.example",),
    (b"To: ada@y.example, bob@y.example",),
    (b"To: ADA@y.example",),
    (b"To: ada@y.example, =?utf-8?q?bob=40y=2Eexample?=",),
    (b"To: team: bob@y.example;",),
    (b"Cc: bob@y.example",),
    (b"Bcc: ada@y.example",),
    (b"Date: Mon, 01 Jan 2001 00:00:00 +0000",),
    (b"Date: yesterday",),
    (b"In-Reply-To: <case-7@x>",),
    (b"References: <case-7@x>",),
    (b"List-Unsubscribe: <https://z.example>",),
    (b"Disposition-Notification-To: mallory@z.example",),
    (b"Resent-To: bob@y.example",),
    (b"X-Priority: 1",),
    (b"X-Anything: \xff",),
    (b"Message-ID: <1@x>", b"Message-ID: <2@x>"),
    (b"Content-Type: text/plain", b"Content-Type: text/html"),
    (b"Reply-To : mallory@z.example", b"X: y"),
    ("From: boss\uff20x.example <care@x.example>".encode(),),
    (b"From: care@x.example (boss@x.example)",),
    (b"To: ada of y.example and bob of y.example:;",),
    (b"Message-ID: <1@x> <2@x>",),
    (b"Message-ID: <1@x> as bob bought",),
    (b"Content-Language: bought by bob",),
    (b"Delivered-To: bob",),
    (b"Importance: high",),
    (b"Auto-Submitted: auto-replied",),
    (b"", b"Reply-To: mallory@z.example"),
    (b"\xef\xbb\xbfReply-To: mallory@z.example",),
    (b">From bob Mon Jan  1 00:00:00 2026", b"Reply-To: mallory@z.example"),
]


@pytest.mark.parametrize("lines", DEPARTURES, ids=lambda lines: lines[-1].decode("latin-1"))
def test_a_line_of_the_head_that_says_else_than_the_envelope_is_an_entity(lines):
    assert headers(*lines)


HARMLESS = [
    (b"From: care@X.EXAMPLE", b"To: ada@Y.example", b"Subject:"),
    (b"From: Hearthside (care) <care@x.example>",),
    (b'From: "Care, Hearthside \\"H\\"" <care@x.example>',),
    (b"From: =?utf-8?q?Gr=C3=BC=C3=9Fe?= <care@x.example>", b"Reply-To: care@x.example"),
    (b"From:\r\n care@x.example",),
    (b"To: undisclosed-recipients:;",),
    (b"To: <ada@y.example>", b"Cc: bob@y.example"),
    (b"To: ada@y.example,\r\n bob@y.example",),
    (b"Date: Mon, 16 Mar 2026 09:00:00 -0500", b"Message-ID: <a@b>", b"MIME-Version: 1.0"),
    (b"Received: a", b"Received: b", b"DKIM-Signature: c", b"User-Agent: d"),
    (b"From: care@x.example (Hearthside)", b"To: \"'ada@y.example'\" <ada@y.example>"),
    (b"Date: Mon, 16 Mar 2026 11:30:00 +0100 (GMT+01:00)", b"Auto-Submitted: auto-generated"),
    (b"Importance: Normal", b"X-Priority: 3 (Normal)"),
    (b"Hello Ada,", b"the order: 7"),
    (),
]


@pytest.mark.parametrize("lines", HARMLESS)
def test_a_head_that_says_what_the_envelope_says_is_nothing_beside_it(lines):
    assert headers(*lines, to=("ada@y.example", "bob@y.example")) == []


def test_doubled_headers_are_lists_and_the_second_names_its_addresses():
    found = state(b"From: care@x.example\r\nFrom: Boss <boss@x.example>\r\n\r\nx")
    assert rows(found, "message")[0]["headers"].get("from") == (
        "care@x.example",
        "Boss <boss@x.example>",
    )
    (line,) = rows(found, "message_header")
    assert (line["number"], line["name"]) == (2, "from")
    assert line["addresses"] == ("boss@x.example",)


def test_a_line_break_in_an_encoded_word_injects_no_header():
    raw = PLAIN.replace(b"Recall", b"=?utf-8?q?a=0D=0AReply-To=3A_m=40z?=")
    found = state(raw + b"\r\nx")
    assert rows(found, "message")[0]["subject"] == "a\r\nReply-To: m@z"
    assert rows(found, "message")[0]["headers"].get("reply_to") == ()


def test_beyond_the_limit_parts_are_incomplete_and_those_listed_stand(monkeypatch):
    monkeypatch.setattr(mail_source, "MAX_BESIDE", 2)
    found = state(entity(TEXT, *[PARTS["a script"][0]] * 3))
    known = found.tables["message_part"].enumeration
    assert known.coverage is Coverage.INCOMPLETE
    assert len(rows(found, "message_part")) == 2


@given(st.text(alphabet='"<>(),;:@\\ab .=?', max_size=60))
def test_addresses_are_read_exactly_or_not_at_all(text):
    found = headers(b"Reply-To: " + text.encode())
    named = {piece for piece in text.split() if "@" in piece}
    if "@" in text and not any("care@x.example" in piece for piece in named):
        assert found


@pytest.mark.parametrize("piece", [b'"', b"(", b"<", b" ", b"\\", b"a@b,", b'"",', b"=?utf-8?q?"])
def test_no_head_takes_long_to_read(piece):
    raw = b"From: " + piece * (60_000 // len(piece)) + b"\r\n\r\nx"
    started = time.perf_counter()
    state(raw)
    assert time.perf_counter() - started < 2


USUAL_VALUES = {
    **dict.fromkeys(("delivered-to", "envelope-to", "x-original-to"), b"<ada@y.example>"),
    **dict.fromkeys(("content-id", "message-id"), b"<1@x>"),
    "content-language": b"en-US, de",
    "mime-version": b"1.0 (Any Mail 16.0 \\(3826\\))",
    "return-path": b"<>",
}


@pytest.mark.parametrize("name", BOOKKEEPING)
def test_what_servers_and_programs_write_is_no_departure(name):
    assert headers(name.encode() + b": " + USUAL_VALUES.get(name, b"text/plain")) == []


def test_a_message_of_more_headers_than_are_read_is_one_part():
    parsed = parse_message(b"X: y\r\n" * 1001 + b"\r\nx")
    assert [part.disposition for part in parsed.parts] == ["whole"]


SAID_TWICE = {
    "two charsets": b"Content-Type: text/plain; charset=utf-8; Charset=utf-7\r\n\r\n+ADw-",
    "a charset in two forms": b"Content-Type: text/plain; charset=utf-8; charset*=utf-7\r\n\r\nx",
    "two file names": (
        b"Content-Type: text/plain\r\n"
        b"Content-Disposition: inline; filename=a.txt; filename=a.exe\r\n\r\nx"
    ),
    "a text with a file's name": b"Content-Type: text/plain; name=a.exe\r\n\r\nx",
    "a text with a name in pieces": (
        b"Content-Type: text/plain\r\n"
        b"Content-Disposition: inline; filename*0=a; filename*1=.exe\r\n\r\nx"
    ),
}


@pytest.mark.parametrize("name", SAID_TWICE)
def test_a_text_that_programs_may_read_in_two_ways_or_save_is_listed_beside_the_body(name):
    assert [kind for kind, _, _ in parts(PLAIN + SAID_TWICE[name])] == ["text/plain"]
    assert [kind for kind, _, _ in parts(entity(TEXT, SAID_TWICE[name]))] == ["text/plain"]


def test_a_boundary_that_is_given_twice_is_listed():
    doubled = entity(TEXT).replace(b"boundary=b", b'boundary=b; boundary="c"')
    assert parts(doubled) == [("", "head", None)]
    assert parts(entity(TEXT)) == []
    quoted = entity(TEXT).replace(b"boundary=b", b'boundary=b; x="; boundary=c"')
    assert parts(quoted) == []


@pytest.mark.parametrize(
    "line",
    [
        b"Delivered-To: bob@y.example",
        b"X-Original-To: bob@y.example",
        b"Received: from a by b for <bob@y.example>; Mon, 16 Mar 2026 10:30:00 +0000",
        b"Return-Path: <eve@z.example>",
        b"Authentication-Results: mx; spf=pass smtp.mailfrom=eve@z.example",
        b"X-Mailer: bought by bob@y.example",
        b"Date: Mon, 16 Mar 2026 10:30:00 +0000 (bob@y.example bought it too)",
        b"Date: Mon, 16 Mar 2026 10:30:00 +0000 bought by bob",
    ],
)
def test_a_line_of_servers_that_names_somebody_else_is_listed(line):
    [(name, _)] = headers(line)
    assert name == line.partition(b":")[0].decode().lower()


def test_a_line_of_servers_that_names_those_of_the_envelope_is_not():
    lines = (
        b"Return-Path: <care@x.example>",
        b"Delivered-To: ada@Y.example",
        b"Received: from a (a [192.0.2.1]) by b with ESMTPS id 4711 for <ada@y.example>; x",
        b"DKIM-Signature: v=1; a=rsa-sha256; d=x.example; i=@x.example; b=abc=",
        b"Authentication-Results: mx; spf=pass smtp.mailfrom=care@x.example",
        b"Message-ID: <1@host.example>",
        b"Date: Mon, 16 Mar 2026 10:30:00 +0000 (UTC)",
    )
    assert headers(*lines) == []


def test_a_separator_of_a_mailbox_is_no_line_of_a_head_and_is_listed():
    [(name, _)] = headers(b"From bob@y.example Mon Jan  1 00:00:00 2026", b"Subject: x")
    assert name == ""


READ_OTHERWISE = {
    "an unknown type": b"Content-Type: html\r\n\r\n<p>Pay",
    "two types in one header": b"Content-Type: text/plain, text/html\r\n\r\n<p>Pay",
    "three words of a type": b"Content-Type: text/html/x\r\n\r\n<p>Pay",
    "no parameter mark": b"Content-Type: text/plain charset=utf-7\r\n\r\n+ADw-",
    "a head cut short": b"Content-Type : text/html\r\n\r\n<p>Pay",
    "a longer boundary": b"Content-Type: text/plain\r\n\r\nDear\r\n--bc\r\n\r\nPay",
    "a part that is no multipart": (
        b"Content-Type: multipart/mixed; boundary=c\r\nContent-Transfer-Encoding: base64\r\n"
        b"\r\n--c\r\n\r\nDear\r\n--c--"
    ),
    "an open multipart": b"Content-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n\r\nDear",
    "a boundary that begins as another": (
        b"Content-Type: multipart/mixed; boundary=bb\r\n\r\n--bb\r\n\r\nDear\r\n--bb--"
    ),
    "lines joined in two ways": (
        b"Content-Type: text/plain; format=flowed; delsp=yes\r\n\r\nHS-314 \r\n5, not yours"
    ),
    "a file in the text": b"Content-Type: text/plain\r\n\r\nbegin 644 a.exe\r\n#0V%T\r\n`\r\nend",
    "an escape of nothing": (
        b"Content-Type: text/plain\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nP=ay"
    ),
    "an end of a text": b"Content-Type: text/plain\r\n\r\nDear\0 Pay",
    "a line written over": b"Content-Transfer-Encoding: base64\r\n\r\nYQ1i",
    "a text turned around": "Content-Type: text/plain\r\n\r\n\u202eyaP".encode(),
    "a subject of its own": (
        b'Content-Type: text/plain; protected-headers="v1"\r\nSubject: You won\r\n\r\nDear'
    ),
    "a description": b"Content-Type: text/plain\r\nContent-Description: for bob\r\n\r\nDear",
}


@pytest.mark.parametrize("name", READ_OTHERWISE)
def test_a_part_that_programs_read_in_different_ways_is_listed(name):
    assert parts(entity(READ_OTHERWISE[name]))


READ_ONE_WAY = {
    "a comment behind the charset": (
        b"Content-Type: text/plain; charset=us-ascii (Plain)\r\n\r\nDear"
    ),
    "joined lines that keep their space": (
        b"Content-Type: text/plain; format=flowed; delsp=yes\r\n\r\nDear  \r\nAda  \r\nand Bob"
    ),
    "soft ends of lines": (
        b"Content-Type: text/plain\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nDe=\r\nar="
    ),
    "what programs say of a part": (
        b"MIME-Version: 1.0\r\nContent-ID: <1@x>\r\nContent-Language: de\r\nX-Any: y\r\n"
        b"Content-Type: text/plain; charset=ANSI_X3.4-1968\r\n\r\nDear"
    ),
    "prose": b"Content-Type: text/plain\r\n\r\nWe\r\nbegin 2 days from now.\r\n-- \r\nAda\x0c",
    "an attachment named twice the same": (
        b'Content-Type: application/pdf; name="=?utf-8?q?=C3=BC?="\r\n'
        b"Content-Description: =?utf-8?q?=C3=BC?=\r\n"
        b"Content-Disposition: attachment; filename*=utf-8''%C3%BC\r\n\r\nx"
    ),
}


@pytest.mark.parametrize("name", READ_ONE_WAY)
def test_a_part_that_all_programs_read_alike_is_not_listed(name):
    assert parts(entity(READ_ONE_WAY[name])) == []
    body = rows(state(entity(READ_ONE_WAY[name])), "message")[0]["body"]
    assert body is None or isinstance(body, str)


@pytest.mark.parametrize(
    "said",
    [
        b"Content-Type: application/pdf; name=a.exe\r\nContent-Disposition: inline; filename=a.pdf",
        b"Content-Type: a/b\r\nContent-Disposition: inline; filename=a.b; filename*=utf-8''a.exe",
        b"Content-Type: application/pdf\r\nContent-Type: text/html",
    ],
)
def test_an_attachment_that_is_two_files_at_once_is_listed_beside_the_attachments(said):
    found = state(entity(TEXT, said + b"\r\n\r\nx"))
    assert len(rows(found, "message_part")) == len(rows(found, "message")[0]["attachments"]) == 1


@pytest.mark.parametrize("disposition", [b"hidden", b"form-data; name=x", b"attachment(x)"])
def test_what_a_program_does_not_know_is_an_attachment(disposition):
    said = b"Content-Type: text/plain\r\nContent-Disposition: " + disposition
    (row,) = rows(state(entity(said + b"\r\n\r\nHS-314")), "message")
    assert (row["body"], len(row["attachments"])) == (None, 1)


@pytest.mark.parametrize("sub", [b"related", b"parallel", b"x-mixed-replace"])
def test_only_a_mixed_letter_shows_all_its_texts(sub):
    second = b"Content-Type: text/plain\r\nContent-ID: <r@x>\r\n\r\nPay"
    assert parts(entity(TEXT, second, sub=sub)) == [("text/plain", "inline", "Pay")]
    assert parts(entity(TEXT, second, sub=b"mixed")) == []
    begun = entity(TEXT, sub=sub).replace(b"boundary=b", b'boundary=b; start="<r@x>"')
    assert parts(begun) == [("", "head", None)]


@pytest.mark.parametrize("said", [b"attachment", b'attachment; name="a"', b"inline; filename=a"])
def test_a_letter_that_says_that_it_is_a_file_is_listed_beside_its_parts(said):
    head = PLAIN + b"Content-Disposition: " + said + b"\r\n"
    assert parts(entity(TEXT, head=head)) == [("", "head", None)]
    assert parts(entity(TEXT, head=PLAIN + b"Content-Disposition: Inline\r\n")) == []
    inner = entity(TEXT, head=b"Content-Disposition: " + said + b"\r\n").replace(b"=b", b"=c")
    assert parts(entity(inner.replace(b"--b", b"--c"))) == [("", "head", None)]
