"""Harm done in the object store of a git folder: objects, packs, and what git derives of them."""

from __future__ import annotations

import hashlib
import random
import struct
import zlib
from pathlib import Path

from lab.benchmarks.git_repository import Repository, family

Chunks = list[tuple[bytes, bytes]]


def chunked(stored: bytes, head: int) -> tuple[bytes, Chunks]:
    """The header of a file of chunks, and its chunks."""
    count = stored[6]
    table = [struct.unpack_from(">4sQ", stored, head + 12 * n) for n in range(count + 1)]
    parts = [(table[n][0], stored[table[n][1] : table[n + 1][1]]) for n in range(count)]
    return stored[:head], parts


def joined(header: bytes, parts: Chunks) -> bytes:
    """The file of these chunks, with its checksum."""
    at = len(header) + 12 * (len(parts) + 1)
    table = b""
    for name, part in [*parts, (bytes(4), b"")]:
        table += struct.pack(">4sQ", name, at)
        at += len(part)
    body = header[:6] + bytes([len(parts)]) + header[7:] + table + b"".join(p for _, p in parts)
    return body + hashlib.sha1(body).digest()  # noqa: S324 - git's own checksum


def _summed(body: bytes) -> bytes:
    return body + hashlib.sha1(body).digest()  # noqa: S324 - git's own checksum


def _name(at: Repository, path: Path) -> str:
    return str(path.relative_to(at.git))


@family(
    "loose object",
    "another content",
    "damaged",
    "damaged and unreachable",
    "unreachable of another content",
    "gone",
    "linked folder",
    "beside its pack",
    "of no kind",
)
def _loose(at: Repository, variant: str, rng: random.Random) -> None:
    if variant != "beside its pack":
        _unpack(at)
    reachable = at.run("rev-list", "--objects", "--branches", "--tags").splitlines()
    oid = rng.choice(reachable).split()[0]
    name = f"objects/{oid[:2]}/{oid[2:]}"
    other = b"blob 6\0evil\n" + bytes([rng.randrange(256)])
    lost = f"{rng.getrandbits(160):040x}"
    match variant:
        case "another content":
            at.write(name, zlib.compress(other))
        case "damaged":
            stored = bytearray((at.git / name).read_bytes())
            stored[rng.randrange(len(stored))] ^= rng.randint(1, 255)
            at.write(name, bytes(stored))
        case "damaged and unreachable":
            at.write(f"objects/{lost[:2]}/{lost[2:]}", rng.randbytes(30))
        case "unreachable of another content":
            at.write(f"objects/{lost[:2]}/{lost[2:]}", zlib.compress(other))
        case "gone":
            (at.git / name).unlink()
        case "linked folder":
            folder = at.git / "objects" / oid[:2]
            folder.rename(at.git / "objects/elsewhere")
            folder.symlink_to("elsewhere")
        case "beside its pack":
            at.run("repack", "-adq")
            at.write(name, zlib.compress(other))
        case "of no kind":
            at.write(f"objects/{lost[:2]}/{lost[2:]}", zlib.compress(b"thing 2\0ab"))


def _unpack(at: Repository) -> None:
    for pack in sorted((at.git / "objects/pack").glob("*.pack")):
        stored = pack.read_bytes()
        for path in pack.parent.glob(f"{pack.stem}.*"):
            path.unlink()
        at.run("unpack-objects", "-q", given=stored)
    for path in (at.git / "objects/pack").glob("multi-pack-index*"):
        path.unlink()


@family(
    "pack",
    "kept",
    "promised",
    "index of other sums",
    "index of another pack",
    "damaged index",
    "damaged",
    "unreachable of another content",
    "reverse index",
    "reverse index cut",
    "times",
    "bitmap of another history",
    "bitmap without an object",
    "damaged bitmap",
    "no index",
    "of nothing",
    "index of other fan-out",
)
def _pack(at: Repository, variant: str, rng: random.Random) -> None:
    at.run("-c", "pack.writeReverseIndex=true", "repack", "-adqb")
    pack = min((at.git / "objects/pack").glob("*.pack"))
    name = _name(at, pack.with_suffix(""))
    index = pack.with_suffix(".idx").read_bytes()
    count = struct.unpack_from(">I", index, 1028)[0]
    match variant:
        case "kept":
            at.write(f"{name}.keep", b"")
        case "promised":
            at.write(f"{name}.promisor", b"")
            _lose(at, rng)
        case "index of other sums":
            place = 1032 + 20 * count + 4 * rng.randrange(count)
            at.write(f"{name}.idx", _forged(index, place, rng.randbytes(4)))
        case "index of another pack":
            at.write(f"{name}.idx", _forged(index, len(index) - 40, rng.randbytes(20)))
        case "damaged index":
            at.write(f"{name}.idx", index[:-1] + bytes([index[-1] ^ 1]))
        case "index of other fan-out":
            place = 8 + 4 * rng.randrange(255)
            at.write(f"{name}.idx", _forged(index, place, struct.pack(">I", count)))
        case "damaged":
            stored = bytearray(pack.read_bytes())
            stored[rng.randrange(12, len(stored))] ^= rng.randint(1, 255)
            at.write(f"{name}.pack", bytes(stored))
        case "unreachable of another content":
            _false_pack(at, rng)
        case "no index":
            (at.git / f"{name}.idx").unlink()
        case "of nothing":
            empty = _summed(b"PACK" + struct.pack(">II", 2, 0))
            at.write(f"objects/pack/pack-{rng.getrandbits(160):040x}.pack", empty)
        case "reverse index" | "reverse index cut":
            _reverse(at, f"{name}.rev", count, variant, rng)
        case "times":
            at.write(f"{name}.mtimes", b"MTME" + rng.randbytes(20))
        case _:
            _bitmap(at, f"{name}.bitmap", variant, rng)


def _lose(at: Repository, rng: random.Random) -> None:
    """A commit that leads to a tree that is not there."""
    lost = at.run("cat-file", "commit", "HEAD").splitlines()
    lost[0] = f"tree {rng.getrandbits(159):040x}"
    made = at.run("hash-object", "-w", "--stdin", "-t", "commit", given="\n".join(lost).encode())
    at.run("update-ref", "refs/heads/lost", made)


def _forged(index: bytes, place: int, new: bytes) -> bytes:
    body = index[:place] + new + index[place + len(new) :]
    return _summed(body[:-20])


def _false_pack(at: Repository, rng: random.Random) -> None:
    """A pack of one object that nothing leads to, which its index calls by another's id."""
    oid, content = rng.randbytes(20), b"evil\n"
    entry = bytes([3 << 4 | len(content)]) + zlib.compress(content)
    body = _summed(b"PACK" + struct.pack(">II", 2, 1) + entry)
    fan = b"".join(struct.pack(">I", oid[0] <= n) for n in range(256))
    index = b"\xfftOc\0\0\0\2" + fan + oid + struct.pack(">II", zlib.crc32(entry), 12) + body[-20:]
    name = f"objects/pack/pack-{body[-20:].hex()}"
    at.write(f"{name}.pack", body)
    at.write(f"{name}.idx", _summed(index))


def _reverse(at: Repository, name: str, count: int, variant: str, rng: random.Random) -> None:
    stored = (at.git / name).read_bytes()
    if variant.endswith("cut"):
        at.write(name, stored[: rng.randrange(len(stored))])
        return
    order = list(struct.unpack_from(f">{count}I", stored, 12))
    first, second = rng.sample(range(count), 2)
    order[first], order[second] = order[second], order[first]
    at.write(name, _summed(stored[:12] + struct.pack(f">{count}I", *order) + stored[-40:-20]))


def _bitmap(at: Repository, name: str, variant: str, rng: random.Random) -> None:
    stored = (at.git / name).read_bytes()
    if variant == "damaged bitmap":
        place = rng.randrange(12, len(stored))
        at.write(name, _forged(stored, place, bytes([stored[place] ^ 1])))
        return
    place = 32  # the four bitmaps of kinds, then the commits
    for _ in range(4):
        place = _after(stored, place)
    if variant == "bitmap of another history":
        number = struct.unpack_from(">I", stored, place)[0]
        at.write(name, _forged(stored, place, struct.pack(">I", number ^ rng.randint(1, 3))))
        return
    words = place + 6 + 8
    literal = words + 8 * rng.randrange(1, max(2, struct.unpack_from(">I", stored, place + 10)[0]))
    word = struct.unpack_from(">Q", stored, literal)[0]
    at.write(name, _forged(stored, literal, struct.pack(">Q", word & (word - 1))))


def _after(stored: bytes, place: int) -> int:
    return place + 8 + 8 * struct.unpack_from(">I", stored, place + 4)[0] + 4


# What git looks up in place of objects


@family(
    "commit graph",
    "another tree",
    "another parent",
    "no parents",
    "generations",
    "corrected dates",
    "commit times",
    "emptied filters",
    "filters of others",
    "out of order",
    "unknown part",
    "cut short",
    "checksum",
    "fan-out",
    "chain",
    "chain of another",
    "stray layer",
)
def _graph(at: Repository, variant: str, rng: random.Random) -> None:
    is_split = "chain" in variant or variant == "stray layer" or rng.random() < 0.3
    split = ["--split=replace"] if is_split else []
    at.run("commit-graph", "write", "--reachable", "--changed-paths", *split)
    folder = at.git / "objects/info"
    if is_split:
        (folder / "commit-graph").unlink(missing_ok=True)
        place = max((folder / "commit-graphs").glob("*.graph"))
    else:
        place = folder / "commit-graph"
    stored = place.read_bytes()
    header, parts = chunked(stored, 8)
    known = dict(parts)
    count = len(known[b"OIDL"]) // 20
    row = 36 * rng.randrange(count)
    data = bytearray(known[b"CDAT"])
    match variant:
        case "another tree":
            data[row : row + 20] = bytes.fromhex(at.other_tree(rng))
        case "another parent":
            data[row + 20 : row + 24] = struct.pack(">I", rng.randrange(count))
        case "no parents":
            data[row + 20 : row + 28] = struct.pack(">II", 0x70000000, 0x70000000)
        case "generations":
            for at_row in range(0, len(data), 36) if rng.random() < 0.5 else [row]:
                word = struct.unpack_from(">I", data, at_row + 28)[0]
                another = (word >> 2) + rng.randrange(1, 50)
                struct.pack_into(">I", data, at_row + 28, word & 3 | another << 2)
        case "commit times":
            struct.pack_into(">I", data, row + 32, rng.getrandbits(31))
        case "chain" | "chain of another" | "stray layer":
            _chain(at, variant, place, rng)
            return
        case "cut short":
            at.write(_name(at, place), stored[: rng.randrange(8, len(stored))])
            return
        case "checksum":
            at.write(_name(at, place), stored[:-1] + bytes([stored[-1] ^ 1]))
            return
        case _:
            _graph_parts(parts, variant, count, rng)
    parts = [(name, bytes(data) if name == b"CDAT" else part) for name, part in parts]
    _store_graph(at, place, joined(header, parts), is_split=is_split)


def _graph_parts(parts: Chunks, variant: str, count: int, rng: random.Random) -> None:
    """Another content of one part, in place."""
    known = dict(parts)

    def put(name: bytes, part: bytes) -> None:
        parts[[n for n, _ in parts].index(name)] = (name, part)

    match variant:
        case "corrected dates":
            dates = struct.pack(f">{count}I", *(rng.getrandbits(20) for _ in range(count)))
            put(b"GDA2", dates)
        case "emptied filters":
            filters = known[b"BDAT"]
            put(b"BDAT", filters[:12] + bytes(len(filters) - 12))
        case "filters of others":
            filters = known[b"BDAT"][12:]
            put(b"BDAT", known[b"BDAT"][:12] + rng.randbytes(1)[:1] * len(filters))
        case "out of order":
            ids = known[b"OIDL"]
            at_id = 20 * rng.randrange(count - 1)
            swapped = ids[at_id + 20 : at_id + 40] + ids[at_id : at_id + 20]
            put(b"OIDL", ids[:at_id] + swapped + ids[at_id + 40 :])
        case "fan-out":
            fan = known[b"OIDF"]
            at_byte = 4 * rng.randrange(255)
            put(b"OIDF", fan[:at_byte] + struct.pack(">I", count) + fan[at_byte + 4 :])
        case "unknown part":
            parts.append((b"EVIL", rng.randbytes(8)))


def _store_graph(at: Repository, place: Path, stored: bytes, *, is_split: bool) -> None:
    if not is_split:
        at.write(_name(at, place), stored)
        return
    chain = place.parent / "commit-graph-chain"
    old, new = place.stem.removeprefix("graph-"), stored[-20:].hex()
    chain_text = chain.read_text().replace(old, new)
    place.unlink()
    at.write(_name(at, place.with_name(f"graph-{new}.graph")), stored)
    at.write(_name(at, chain), chain_text.encode())


def _chain(at: Repository, variant: str, place: Path, rng: random.Random) -> None:
    chain = place.parent / "commit-graph-chain"
    match variant:
        case "chain":
            at.write(_name(at, chain), chain.read_bytes() + b"%040x\n" % rng.getrandbits(160))
        case "chain of another":
            at.write(_name(at, chain), b"%040x\n" % rng.getrandbits(160))
        case "stray layer":
            at.write(_name(at, place.with_name(f"graph-{rng.getrandbits(160):040x}.graph")), b"x")


@family(
    "multi-pack index",
    "another place",
    "another pack",
    "without an object",
    "missing pack",
    "checksum",
    "fan-out",
    "damaged",
    "unknown part",
    "other order",
    "reverse index",
    "bitmap",
)
def _all_packs(at: Repository, variant: str, rng: random.Random) -> None:
    at.run("repack", "-dq")
    at.run("repack", "-dq")
    at.run("multi-pack-index", "write", "--bitmap")
    name = "objects/pack/multi-pack-index"
    stored = (at.git / name).read_bytes()
    header, parts = chunked(stored, 12)
    known = dict(parts)
    count = len(known[b"OIDL"]) // 20
    row = rng.randrange(count)

    def put(part_name: bytes, part: bytes) -> None:
        parts[[n for n, _ in parts].index(part_name)] = (part_name, part)

    offsets = bytearray(known[b"OOFF"])
    match variant:
        case "another place":
            other = rng.choice([n for n in range(count) if n != row])
            offsets[8 * row : 8 * row + 8] = offsets[8 * other : 8 * other + 8]
            put(b"OOFF", bytes(offsets))
        case "another pack":
            struct.pack_into(">I", offsets, 8 * row, rng.randint(1, 9))
            put(b"OOFF", bytes(offsets))
        case "without an object":
            put(b"OIDL", known[b"OIDL"][: 20 * row] + known[b"OIDL"][20 * row + 20 :])
            put(b"OOFF", bytes(offsets[: 8 * row] + offsets[8 * row + 8 :]))
            first = known[b"OIDL"][20 * row]
            fan = struct.unpack(">256I", known[b"OIDF"])
            put(b"OIDF", struct.pack(">256I", *(n - (b >= first) for b, n in enumerate(fan))))
        case "missing pack":
            names = known[b"PNAM"]
            put(b"PNAM", names.replace(names[5:9], b"0000", 1))
        case "checksum":
            at.write(name, stored[:-1] + bytes([stored[-1] ^ 1]))
            return
        case "fan-out":
            at_byte = 4 * rng.randrange(255)
            fan_out = known[b"OIDF"]
            put(b"OIDF", fan_out[:at_byte] + struct.pack(">I", count) + fan_out[at_byte + 4 :])
        case "damaged":
            at.write(name, stored[: rng.randrange(len(stored))])
            return
        case "unknown part":
            parts.append((b"EVIL", rng.randbytes(4)))
        case "other order":
            put(b"OIDL", known[b"OIDL"][20:40] + known[b"OIDL"][:20] + known[b"OIDL"][40:])
        case "reverse index":
            if b"RIDX" in known:
                put(b"RIDX", known[b"RIDX"][4:8] + known[b"RIDX"][:4] + known[b"RIDX"][8:])
        case "bitmap":
            found = min((at.git / "objects/pack").glob("multi-pack-index-*.bitmap"))
            _bitmap(at, _name(at, found), "bitmap without an object", rng)
            return
    at.write(name, joined(header, parts))
