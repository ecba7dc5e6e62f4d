"""A repository's settings, parsed by us and never obeyed: includes are entries like any other."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from statediff.systems.files.tree import NotRead

MAX_CONFIG_BYTES: Final = 1024 * 1024
MAX_NAME_BYTES: Final = 4096
_SECTION: Final = re.compile(rb'\[([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\\n]|\\[^\n])*)")?\]')
_NAME: Final = re.compile(rb"([A-Za-z][A-Za-z0-9-]*)[ \t]*")
_BLANK: Final = b" \t\r\n"
_ESCAPES: Final = {ord("n"): 10, ord("t"): 9, ord("b"): 8, ord('"'): 34, ord("\\"): 92}


@dataclass(frozen=True)
class Setting:
    """One entry: `name` with section and key in lower case, `value` None where `=` is missing."""

    name: bytes
    value: bytes | None


def parse_config(stored: bytes) -> list[Setting]:
    """The entries of a config file in their order. `NotRead` names the line that is not one."""
    settings: list[Setting] = []
    section = b""
    at = 3 if stored.startswith(b"\xef\xbb\xbf") else 0
    while at < len(stored):
        if stored[at] in _BLANK:
            at += 1
        elif stored[at] in b"#;":
            at = _line_end(stored, at)
        elif match := _SECTION.match(stored, at):
            section = match[1].lower()
            if match[2] is not None:
                section += b"." + re.sub(rb"\\(.)", rb"\1", match[2])
            at = match.end()
        elif section and (match := _NAME.match(stored, at)):
            name = section + b"." + match[1].lower()
            if len(name) > MAX_NAME_BYTES:
                raise NotRead(f"a name is longer than {MAX_NAME_BYTES} bytes")
            value, at = _value(stored, match.end())
            settings.append(Setting(name, value))
        else:
            raise _malformed(stored, at)
    return settings


def last(settings: list[Setting], name: bytes) -> bytes | None:
    """The value that counts for a setting with one value; None where it is not set."""
    values = [setting.value for setting in settings if setting.name == name]
    return (b"true" if values[-1] is None else values[-1]) if values else None


def _malformed(stored: bytes, at: int) -> NotRead:
    return NotRead(f"line {stored.count(10, 0, at) + 1} is not a setting")


def _line_end(stored: bytes, at: int) -> int:
    end = stored.find(b"\n", at)
    return len(stored) if end < 0 else end


def _value(stored: bytes, at: int) -> tuple[bytes | None, int]:
    if at >= len(stored) or stored[at] == 10 or _is_line_end(stored, at):
        return None, at
    if stored[at : at + 1] != b"=":
        raise _malformed(stored, at)
    start, value, kept, is_quoted = at, bytearray(), 0, False
    at += 1
    while at < len(stored):
        byte = stored[at]
        if byte == 10 or _is_line_end(stored, at):
            break
        if byte in b"#;" and not is_quoted:
            at = _line_end(stored, at)
            break
        if byte == ord('"'):
            is_quoted = not is_quoted
            kept = len(value)
        elif byte == ord("\\"):
            at += 1
            if _is_line_end(stored, at):
                at += 1  # CR LF
            following = stored[at] if at < len(stored) else 10
            if following != 10:
                if following not in _ESCAPES:
                    raise _malformed(stored, at)
                value.append(_ESCAPES[following])
                kept = len(value)
        elif byte not in b" \t\r" or is_quoted:
            value.append(byte)
            kept = len(value)
        elif value:
            value.append(byte)  # kept only if something follows it
        at += 1
    if is_quoted:
        raise _malformed(stored, start)
    return bytes(value[:kept]), at


def _is_line_end(stored: bytes, at: int) -> bool:
    return stored[at : at + 2] == b"\r\n"
