"""Real repositories for tests, made with git, and what the source reads of them."""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import zlib
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from statediff_git.source import GitSource
from statediff_git.types import TYPE_NAMES

from statediff.capture.take import take
from statediff.kernel.diff import diff
from statediff.model.delta import Delta
from statediff.model.readings import Capture, SourceCapture
from statediff.model.state import Coverage, MemoryChunks, State

T0 = 1_700_000_000
SCRIPT = "#!/bin/sh\ntouch {canary}\n{more}\n"


def git(folder: Path, *arguments: str, check: bool = True, given: bytes = b"") -> str:
    """The output of git, with no settings but the repository's own."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder.parent),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_NAME": "Ada",
        "GIT_AUTHOR_EMAIL": "ada@example.org",
        "GIT_AUTHOR_DATE": f"{T0} +0200",
        "GIT_COMMITTER_NAME": "Bob",
        "GIT_COMMITTER_EMAIL": "bob@example.org",
        "GIT_COMMITTER_DATE": f"{T0 + 60} -0500",
    }
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        capture_output=True,
        check=False,
        env=environment,
        input=given,
        timeout=60,
    )
    if check and done.returncode:
        raise AssertionError(f"git {arguments}: {done.stderr.decode()}")
    return done.stdout.decode("utf-8", "surrogateescape").strip()


def repository(path: Path, *options: str) -> Path:
    """A work tree with two commits on `main`, one more on `topic`, and two tags."""
    path.mkdir(parents=True)
    git(path, "init", "--quiet", "--initial-branch=main", "--template=", *options)
    write(path, "README", "read me\n")
    write(path, "src/app.py", "print('hello')\n")
    committed(path, "first")
    write(path, "src/app.py", "print('hello, world')\n")
    committed(path, "second\n\nwith a body")
    git(path, "branch", "topic")
    git(path, "tag", "light", "HEAD~1")
    git(path, "tag", "--annotate", "--message=release one", "v1")
    git(path, "switch", "--quiet", "topic")
    write(path, "notes.txt", "on topic\n")
    committed(path, "third")
    git(path, "switch", "--quiet", "main")
    return path


def write(root: Path, name: str, content: str | bytes) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def program(path: Path, canary: Path, more: str = "") -> Path:
    """An executable that leaves the canary behind when it is run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SCRIPT.format(canary=canary, more=more))
    path.chmod(0o755)
    return path


def committed(root: Path, message: str) -> str:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--allow-empty", f"--message={message}")
    return git(root, "rev-parse", "HEAD")


def clock() -> datetime:
    return datetime(2024, 5, 1, tzinfo=UTC)


def capture(path: Path, like: State | None = None, **options) -> SourceCapture:
    """The source's state, as the capture stage has it: unavailable is unobserved there."""
    earlier = None
    if like is not None:
        whole = GitSource("repo", path, **options)
        earlier = Capture((SourceCapture(_reading(whole), like),))
    source = GitSource("repo", path, **options)
    return take([source], MemoryChunks(), clock, earlier, "after").parts[0]


def _reading(source: GitSource):
    from statediff.model.readings import Reading, ReadingKind  # noqa: PLC0415 - used here only

    return Reading(
        source.name,
        source.name,
        ReadingKind.SCAN,
        as_of=clock(),
        clock="trial",
        is_complete=True,
        digest=None,
    )


def state(path: Path, like: State | None = None, **options) -> State:
    return capture(path, like, **options).state


def rows(found: State, name: str, prefix: str = "git") -> dict:
    """The entities of a type by key; a key of one field without its brackets."""
    listed = found.tables[f"{prefix}.{name}"].rows()
    return {key[0] if len(key) == 1 else key: row for key, row in listed}


def coverage(found: State) -> dict[str, str]:
    """The types that were not read completely, with the cause."""
    return {
        name.removeprefix("git."): table.enumeration.cause
        for name, table in found.tables.items()
        if not table.enumeration.is_complete
    }


def unobserved(found: State) -> set[str]:
    return {
        name.removeprefix("git.")
        for name, table in found.tables.items()
        if table.enumeration.coverage is Coverage.UNOBSERVED
    }


def deltas(before: State, after: State) -> tuple[Delta, ...]:
    return diff(before, after).deltas


def doubts(before: State, after: State) -> set[str]:
    """The types of which a comparison cannot say whether they changed."""
    return {doubt.type.removeprefix("git.") for doubt in diff(before, after).doubts}


EVERYTHING = frozenset(TYPE_NAMES)


# Objects written by hand


def loose(root: Path, kind: str, content: bytes, *, name: str | None = None) -> str:
    """An object put below `.git/objects`, under its own id or, falsely, under `name`."""
    stored = f"{kind} {len(content)}\0".encode() + content
    oid = name or hashlib.sha1(stored).hexdigest()
    path = root / ".git/objects" / oid[:2] / oid[2:]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(zlib.compress(stored, 1))
    return oid


def pack_entry(kind: int, size: int, content: bytes, base: bytes = b"") -> bytes:
    """An entry of a pack: what its header states and, deflated, what it holds."""
    byte = kind << 4 | size & 15
    size >>= 4
    header = bytearray()
    while size:
        header.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    header.append(byte)
    return bytes(header) + base + zlib.compress(content, 1)


def size_bytes(size: int) -> bytes:
    """A size as deltas begin with it."""
    found = bytearray()
    while size >= 0x80:
        found.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes(found) + bytes([size])


def write_pack(root: Path, entries: list[tuple[str, bytes]]) -> Path:
    """A pack of these (id, entry) with its index; nothing says that the ids are true."""
    folder = root / ".git/objects/pack"
    folder.mkdir(parents=True, exist_ok=True)
    body = bytearray(b"PACK" + struct.pack(">II", 2, len(entries)))
    places: list[tuple[str, int, int]] = []
    for oid, entry in entries:
        places.append((oid, len(body), zlib.crc32(entry)))
        body += entry
    checksum = hashlib.sha1(body).digest()
    places.sort()
    index = bytearray(b"\xfftOc\x00\x00\x00\x02")
    for first in range(256):
        index += struct.pack(">I", sum(int(oid[:2], 16) <= first for oid, _, _ in places))
    index += b"".join(bytes.fromhex(oid) for oid, _, _ in places)
    index += b"".join(struct.pack(">I", crc) for _, _, crc in places)
    index += b"".join(struct.pack(">I", place) for _, place, _ in places)
    index += checksum
    index += hashlib.sha1(index).digest()
    path = folder / f"pack-{checksum.hex()}.pack"
    path.write_bytes(body + checksum)
    path.with_suffix(".idx").write_bytes(index)
    return path


class Served(BaseHTTPRequestHandler):
    """Git's own server side, as a web server starts it."""

    protocol_version = "HTTP/1.1"
    root: Path

    def log_message(self, *_: Any) -> None:
        """Nothing is printed of a request."""

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        while self.headers.get("Transfer-Encoding") == "chunked":
            part = self.rfile.read(int(self.rfile.readline().split(b";")[0], 16))
            self.rfile.readline()
            if not part:
                break
            body += part
        path, _, query = self.path.partition("?")
        asked = {
            "GIT_PROJECT_ROOT": str(self.root), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
            "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_USER": "agent",
            "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }  # fmt: skip
        done = subprocess.run(
            ["git", "http-backend"], input=body, stdout=subprocess.PIPE, check=False,
            env={**os.environ, **asked},
        )  # fmt: skip
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        lines = [line.split(": ", 1) for line in head.decode().split("\r\n")]
        status = next((int(v.split()[0]) for n, v in lines if n == "Status"), 200)
        self.send_response(status)
        for name, value in lines:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815 - as above
