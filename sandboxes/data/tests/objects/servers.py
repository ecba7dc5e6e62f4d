"""Servers of remote places on this machine: SFTP, FTP, and what speaks Google Cloud Storage."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx

from tests.npm import installed

NAME, SECRET = "ada", "hidden-secret"
AZURITE_KEY = (  # which every Azurite has
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
_EMULATOR = """\
import sys
from gcp_storage_emulator.server import create_server
server = create_server("127.0.0.1", 0, in_memory=True, default_bucket="bucket")
server.start()
print(server._api._httpd.server_address[1], flush=True)
sys.stdin.read()
"""

_SFTP = """\
import asyncio, sys
import asyncssh
folder, name, secret = sys.argv[1:]

class Account(asyncssh.SSHServer):
    def password_auth_supported(self):
        return True

    def validate_password(self, username, password):
        return (username, password) == (name, secret)

class Files(asyncssh.SFTPServer):
    def __init__(self, channel):
        super().__init__(channel, chroot=folder)

    def scandir(self, path):
        if path.endswith(b"/shut"):
            raise asyncssh.SFTPPermissionDenied("shut")
        return super().scandir(path)

async def serve():
    key = asyncssh.generate_private_key("ssh-ed25519")
    server = await asyncssh.create_server(
        Account, "127.0.0.1", 0, server_host_keys=[key], sftp_factory=Files
    )
    print(server.get_port(), flush=True)
    await asyncio.Event().wait()

asyncio.run(serve())
"""
_FTP = """\
import sys
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler
from pyftpdlib.servers import ThreadedFTPServer
folder, name, secret = sys.argv[1:]
FTPHandler.authorizer = DummyAuthorizer()
FTPHandler.authorizer.add_user(name, secret, folder, perm="elr")
FTPHandler.auth_failed_timeout = 0
server = ThreadedFTPServer(("127.0.0.1", 0), FTPHandler)
print(server.socket.getsockname()[1], flush=True)
server.serve_forever()
"""


@dataclass(frozen=True)
class Place:
    """A folder `in` of a server, and how others than its driver write there."""

    url: str
    write: Callable[[str, bytes], object]
    remove: Callable[[str], object]
    folder: Path | None = None
    """Where the server has its files, if it has any."""


def _by_files(url: str, folder: Path) -> Place:
    (folder / "in" / "deep").mkdir(parents=True)
    return Place(
        url,
        lambda path, content: (folder / path).write_bytes(content),
        lambda path: (folder / path).unlink(),
        folder,
    )


@contextlib.contextmanager
def sftp(folder: Path) -> Iterator[Place]:
    """OpenSSH's protocol by asyncssh; the folder `in/shut` may not be listed."""
    with _program(_SFTP, str(folder), NAME, SECRET) as port:
        yield _by_files(f"sftp://{NAME}:{SECRET}@127.0.0.1:{port}/in", folder)


@contextlib.contextmanager
def ftp(folder: Path) -> Iterator[Place]:
    """FTP by pyftpdlib."""
    with _program(_FTP, str(folder), NAME, SECRET) as port:
        yield _by_files(f"ftp://{NAME}:{SECRET}@127.0.0.1:{port}/in", folder)


@contextlib.contextmanager
def gs(_folder: Path) -> Iterator[Place]:
    """The emulator `gcp-storage-emulator`, written to by its HTTP interface."""
    with _program(_EMULATOR) as port:
        root = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=root, trust_env=False) as client:

            def write(path: str, content: bytes) -> None:
                client.post(
                    "/upload/storage/v1/b/bucket/o",
                    params={"uploadType": "media", "name": path}, content=content,
                    headers={"content-type": "text/plain"},
                ).raise_for_status()  # fmt: skip

            def remove(path: str) -> None:
                client.delete(f"/storage/v1/b/bucket/o/{quote(path, safe='')}").raise_for_status()

            yield Place(f"gs://bucket/in?endpoint_url={root}&token=anon", write, remove)


@contextlib.contextmanager
def az(folder: Path) -> Iterator[Place]:
    """The emulator Azurite, written to by Microsoft's own library."""
    from azure.storage.blob import BlobServiceClient  # noqa: PLC0415 - of adlfs

    program = installed(Path(__file__).parent / "azurite", folder) / "azurite/dist/src/blob/main.js"
    command = ["node", str(program), "--inMemoryPersistence", "--blobPort", "0"]
    command += ["--skipApiVersionCheck", "--disableTelemetry"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            root = next(line.split()[-1] for line in server.stdout if "listens on" in line)
            account = f"AccountName=devstoreaccount1;AccountKey={AZURITE_KEY}"
            text = f"DefaultEndpointsProtocol=http;{account};BlobEndpoint={root}/devstoreaccount1;"
            with BlobServiceClient.from_connection_string(text) as client:
                box = client.create_container("bucket")
                yield Place(
                    f"az://bucket/in?connection_string={quote(text, safe='')}",
                    lambda path, content: box.upload_blob(path, content, overwrite=True),
                    box.delete_blob,
                )
        finally:
            server.kill()


@contextlib.contextmanager
def _program(text: str, *arguments: str) -> Iterator[int]:
    """The port of a server in a process of its own, whose program prints it."""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", text, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()
