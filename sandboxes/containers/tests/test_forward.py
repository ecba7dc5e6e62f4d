"""A port on loopback that leads to a Unix socket, and no further."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from statediff_containers import forward
from statediff_containers.forward import Forward


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    """A server that sends everything back."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen(64)

    def serve(client: socket.socket) -> None:
        with client:
            while chunk := client.recv(65536):
                client.sendall(chunk)

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield tmp_path / "s"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.fixture
def port(target: Path) -> Iterator[int]:
    opened = Forward(target)
    yield opened.port
    opened.close()


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=5)


def test_bytes_pass_as_they_are_in_both_directions(port: int) -> None:
    sent = os.urandom(3_000_000)
    with connected(port) as client:
        writer = threading.Thread(
            target=lambda: (client.sendall(sent), client.shutdown(socket.SHUT_WR))
        )
        writer.start()
        assert client.makefile("rb").read() == sent
        writer.join()


def test_it_listens_on_loopback_only(port: int) -> None:
    addresses = {found[4][0] for found in socket.getaddrinfo(socket.gethostname(), None)}
    for address in addresses - {"127.0.0.1", "::1"}:
        with pytest.raises(OSError, match=r"refused|unreachable|timed out"):
            socket.create_connection((address, port), timeout=1)


def test_where_no_server_listens_the_connection_just_ends(tmp_path: Path) -> None:
    opened = Forward(tmp_path / "none")
    with connected(opened.port) as client:
        assert client.recv(1) == b""
    opened.close()


def test_a_link_in_place_of_the_socket_leads_nowhere(target: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(target)
    opened = Forward(tmp_path / "link")
    with connected(opened.port) as client:
        assert client.recv(1) == b""
    opened.close()


def test_more_connections_than_it_bears_are_refused_and_later_ones_served(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward, "MAX_CONNECTIONS", 2)
    held = [connected(port) for _ in range(2)]
    for client in held:
        client.sendall(b"x")
        assert client.recv(1) == b"x"
    with connected(port) as third:
        assert third.recv(1) == b""
    for client in held:
        client.close()
    for _ in range(200):
        with connected(port) as later:
            try:
                later.sendall(b"y")
                if later.recv(1) == b"y":
                    return
            except OSError:
                continue
    raise AssertionError("nobody is served any more")
