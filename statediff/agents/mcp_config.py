"""Which MCP servers a proxy stands in front of: a file as MCP clients read it.

    {"mcpServers": {
        "shop":  {"command": "shop-mcp", "args": ["--db", "${STATEDIFF_SHOP_DB_URL}"]},
        "files": {"url": "http://127.0.0.1:8123/mcp", "classes": {"read_file": "read"}}}}

`${NAME}` is filled in from the environment. `classes` is ours: what a server itself says of its
tools never makes a call harmless, so a tool has the class that this file gives it, or none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from statediff.errors import InputError
from statediff.model.strictjson import read_json
from statediff.model.trace import ActionClass
from statediff.model.values import printable
from statediff.systems.base.rows import plain

MAX_CONFIG_BYTES: Final = 256 * 1024
MAX_SERVERS: Final = 50
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")


class _Entry(BaseModel):
    """One server, as clients write it; what other clients add is of no concern here."""

    model_config = ConfigDict(extra="ignore", strict=True)

    command: str | None = None
    args: list[str] = Field(default=[])
    env: dict[str, str] = Field(default={})
    cwd: str | None = None
    url: str | None = None
    classes: dict[str, str] = Field(default={})


@dataclass(frozen=True)
class ServerEntry:
    """One server: a program to start, or an URL to speak to."""

    name: str
    command: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    folder: str | None = None
    url: str | None = None
    classes: Mapping[str, ActionClass] = field(default_factory=dict)


def read_mcp_config(path: Path, environment: Mapping[str, str]) -> tuple[ServerEntry, ...]:
    """The servers that the file names, by name; `InputError` says what is wrong with it."""
    what, listed = servers_by_name(path)
    return tuple(_entry(what, name, listed[name], environment) for name in sorted(listed))


def servers_by_name(path: Path) -> tuple[str, Mapping[str, Any]]:
    """How the file is called in messages, and its servers as they stand there, by name."""
    what = printable(str(path))
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"{what}: cannot be read: {error.strerror}") from error
    document = plain(read_json(raw, what, max_bytes=MAX_CONFIG_BYTES))
    listed = document.get("mcpServers") if isinstance(document, dict) else None
    if not isinstance(listed, dict) or not listed:
        raise InputError(f'{what}: expected servers by name under "mcpServers"')
    if len(listed) > MAX_SERVERS:
        raise InputError(f"{what}: {len(listed)} servers; at most {MAX_SERVERS} are taken")
    return what, listed


def _entry(what: str, name: str, raw: Any, environment: Mapping[str, str]) -> ServerEntry:
    where = f"{what}: server {printable(name)[:60]!r}"
    if not _NAME.fullmatch(name):
        raise InputError(f"{where}: a name has letters, digits, - and _, 40 at most")
    try:
        entry = _Entry.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{where}: {place}: {first['msg']}") from error
    if (entry.command is None) == (entry.url is None):
        raise InputError(f"{where}: expected either a `command` to start or an `url`")
    classes = {}
    for tool, given in entry.classes.items():
        known = {each.value: each for each in ActionClass}
        if given not in known:
            raise InputError(f"{where}: class {given!r} of {tool!r}; there are: {', '.join(known)}")
        classes[tool] = known[given]

    def fill(text: str) -> str:
        for variable in _VARIABLE.findall(text):
            if variable not in environment:
                raise InputError(f"{where}: ${{{variable}}} is not set")
        return _VARIABLE.sub(lambda found: environment[found[1]], text)

    return ServerEntry(
        name,
        () if entry.command is None else tuple(map(fill, (entry.command, *entry.args))),
        tuple((key, fill(value)) for key, value in sorted(entry.env.items())),
        None if entry.cwd is None else fill(entry.cwd),
        None if entry.url is None else fill(entry.url),
        classes,
    )
