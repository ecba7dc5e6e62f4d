"""The network of one trial: what it was given leads outside, and nothing else does.

1. In the program's own network namespace every address is its own, so that a connection to what
   nobody serves there is refused at once. `open_doors` listens there, at the address and port of
   each endpoint of the trial. A name gets an address of the loopback in the program's own
   `/etc/hosts`, so that TLS finds the name that it expects.
2. A socket belongs to the namespace that it was made in. The listeners are sent to the process that
   watches, which is outside; there `lead` connects each caller in the machine's network.
3. A packet socket, sent too, shows what was refused and which names were asked for (`asked_for`).

It needs no network device, no address and no right on the machine. Like `supervisor.py` it is sent
as code, and imports as little as it can.
"""

from __future__ import annotations

import _socket
import _thread
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from statediff.agents.apart.filters import hear_refusals
else:  # sent with it
    from filters import hear_refusals

MAX_CONNECTIONS = 200
"""At once; a further one is reset."""
_PIECE_BYTES = 64 * 1024
_DIAL_SECONDS = 30.0
_MESSAGE_BYTES = 1024
_NETLINK_FLAGS = 0x405
"""A request, to create, to be acknowledged."""
_CLOSED_ON_EXEC = getattr(_socket, "MSG_CMSG_CLOEXEC", 0)
_NEW_LINK, _NEW_ROUTE = 16, 24
_EVERY_PROTOCOL = 0x0300
"""`ETH_P_ALL`, in the order of the network."""

Door = tuple[int, str, int, str]
"""(family, address inside, port, host outside)."""


def doors_of(endpoints: list[tuple[str, int]]) -> list[Door]:
    """The address at which the program finds each endpoint: its own, or one given to its name.

    A machine without IPv6 has no door at `::1`.
    """
    found: dict[tuple[str, int], Door] = {}
    names: dict[str, str] = {}
    for host, port in endpoints:
        if family := _family(host):
            places = [(family, host)]
        elif host == "localhost":
            places = [(_socket.AF_INET, "127.0.0.1"), (_socket.AF_INET6, "::1")]
        else:
            address = names.setdefault(host, f"127.0.53.{len(names) + 1}")
            places = [(_socket.AF_INET, address)]
        for family, address in places:
            found.setdefault((address, port), (family, address, port, host))
    return list(found.values())


def hosts_of(doors: list[Door]) -> list[str]:
    """The lines of `/etc/hosts` that say where names are."""
    lines = (f"{address} {host}\n" for _, address, _, host in doors if not _family(host))
    return list(dict.fromkeys(line for line in lines if not line.endswith(" localhost\n")))


def _family(host: str) -> int:
    for family in (_socket.AF_INET, _socket.AF_INET6):
        try:
            _socket.inet_pton(family, host)
        except OSError:
            continue
        return int(family)
    return 0


# ---------------------------------------------------------------- inside


def open_doors(doors: list[Door], line: _socket.socket) -> None:
    """Start this namespace's loopback and send its listeners along the line; raises `OSError`."""
    _furnish_loopback()
    opened: list[tuple[int, _socket.socket]] = []
    for place, (family, address, port, host) in enumerate(doors):
        try:
            listener = _socket.socket(family, _socket.SOCK_STREAM)
            if family == _socket.AF_INET6:
                listener.setsockopt(_socket.IPPROTO_IPV6, _socket.IPV6_V6ONLY, 1)
            listener.bind((address, port))
            listener.listen(128)
        except OSError:
            if family == _socket.AF_INET6 and host == "localhost":
                continue
            raise
        opened.append((place, listener))
    opened.append((len(doors), _witness()))
    numbers = [each.fileno() for _, each in opened]
    rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack(f"{len(numbers)}i", *numbers))
    line.sendmsg([bytes(place for place, _ in opened)], [rights])


def _furnish_loopback() -> None:
    """The loopback is up, and every address is one of it."""
    kernel = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW, 0)
    up = struct.pack("=BxHiII", 0, 0, 1, 1, 1)
    _tell(kernel, _NEW_LINK, up)
    device = struct.pack("=HHi", 8, 4, 1)
    for family, scope in ((_socket.AF_INET, 254), (_socket.AF_INET6, 0)):
        everything = struct.pack("=BBBBBBBBI", family, 0, 0, 0, 255, 2, scope, 2, 0)
        try:
            _tell(kernel, _NEW_ROUTE, everything + device)
        except OSError:
            if family == _socket.AF_INET:
                raise
    kernel.close()


def _tell(kernel: _socket.socket, kind: int, what: bytes) -> None:
    kernel.send(struct.pack("=IHHII", 16 + len(what), kind, _NETLINK_FLAGS, 0, 0) + what)
    (number,) = struct.unpack_from("=i", kernel.recv(_MESSAGE_BYTES), 16)
    if number:
        raise OSError(-number, f"the loopback: {os.strerror(-number)}")


def _witness() -> _socket.socket:
    """A socket that hears each refusal of a connection, and each question for a name."""
    heard = _socket.socket(_socket.AF_PACKET, _socket.SOCK_DGRAM, _EVERY_PROTOCOL)
    hear_refusals(heard)
    return heard


# ---------------------------------------------------------------- outside


def receive_doors(line: _socket.socket) -> tuple[dict[int, _socket.socket], str]:
    """Receive what `open_doors` sent, by place, or else the text that the program's side sent."""
    size = struct.calcsize("i")
    text, rights, _, _ = line.recvmsg(
        4 * _MESSAGE_BYTES, _socket.CMSG_SPACE(253 * size), _CLOSED_ON_EXEC
    )
    numbers: list[int] = []
    for _, _, data in rights:
        numbers += struct.unpack(f"{len(data) // size}i", data)
    if not numbers:
        return {}, text.decode("utf-8", "replace")
    found = {p: _socket.socket(fileno=n) for p, n in zip(text, numbers, strict=True)}
    for each in found.values():
        each.setblocking(False)
    return found, ""


def lead(listener: _socket.socket, door: Door, led: list[None]) -> None:
    """Connect the caller to the outside, in threads that end with the connection.

    `led` has an entry a connection.
    """
    try:
        number, _ = listener._accept()  # type: ignore[attr-defined]  # noqa: SLF001 - `accept` is in `socket` only
    except OSError:
        return  # it is gone again
    inside = _socket.socket(fileno=number)
    inside.setblocking(True)
    led.append(None)
    if len(led) <= MAX_CONNECTIONS:
        try:
            _thread.start_new_thread(_carry, (inside, door, led))
            return
        except RuntimeError:
            pass  # the machine has no thread left: as one too many
    led.pop()
    _reset(inside)


def _carry(inside: _socket.socket, door: Door, led: list[None]) -> None:
    """Bytes pass as they are, both ways, until both ends have said all or one is reset."""
    try:
        outside = _dial(door)
        if outside is None:
            _reset(inside)
            return
        for end in (inside, outside):
            end.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        is_over = _thread.allocate_lock()
        is_over.acquire()
        _thread.start_new_thread(_pass_on, (outside, inside, is_over))
        _pass_on(inside, outside, None)
        is_over.acquire()
        inside.close()
        outside.close()
    except (OSError, RuntimeError):
        _reset(inside)
    finally:
        led.pop()


def _dial(door: Door) -> _socket.socket | None:
    _, _, port, host = door
    try:
        places = _socket.getaddrinfo(host.encode("ascii"), port, 0, _socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    for family, kind, protocol, _, address in places:
        end = _socket.socket(family, kind, protocol)
        end.settimeout(_DIAL_SECONDS)
        try:
            end.connect(address)
        except OSError:
            end.close()
            continue
        end.settimeout(None)
        return end
    return None


def _pass_on(source: _socket.socket, sink: _socket.socket, over: _thread.LockType | None) -> None:
    try:
        while piece := source.recv(_PIECE_BYTES):
            sink.sendall(piece)
        sink.shutdown(_socket.SHUT_WR)
    except OSError:  # one end is reset: the other is, too, and who reads there wakes
        for end in (source, sink):
            end.setsockopt(_socket.SOL_SOCKET, _socket.SO_LINGER, struct.pack("ii", 1, 0))
            try:
                end.shutdown(_socket.SHUT_RDWR)
            except OSError:
                continue
    finally:
        if over is not None:
            over.release()


def _reset(end: _socket.socket) -> None:
    end.setsockopt(_socket.SOL_SOCKET, _socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()


def asked_for(witness: _socket.socket) -> str | None:
    """Take the next refused `ADDRESS:PORT`, or name that was asked for; None at the end.

    Empty where a packet is neither. Everything in it is the program's to choose.
    """
    try:
        packet = witness.recv(_MESSAGE_BYTES)
    except OSError:
        return None
    try:
        if packet[0] >> 4 == 4:
            head, protocol, source = (packet[0] & 15) * 4, packet[9], packet[12:16]
            shown = _socket.inet_ntop(_socket.AF_INET, source)
        else:
            head, protocol, source = 40, packet[6], packet[8:24]
            shown = f"[{_socket.inet_ntop(_socket.AF_INET6, source)}]"
        if protocol == _socket.IPPROTO_TCP:
            (port,) = struct.unpack_from("!H", packet, head)
            return f"{shown}:{port}"
        return _name(packet[head + 20 :])
    except (IndexError, ValueError, OSError, struct.error):
        return ""


def _name(question: bytes) -> str:
    """The name that a question of DNS begins with; empty where it is none of a host."""
    labels, at = [], 0
    while length := question[at]:
        labels.append(question[at + 1 : at + 1 + length].decode("ascii"))
        at += 1 + length
    name = ".".join(labels).lower()
    is_hosts = len(name) <= 253 and all(each.isalnum() or each in "-._" for each in name)
    return name if is_hosts else ""
