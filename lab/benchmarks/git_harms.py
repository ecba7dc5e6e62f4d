"""Harm done in the lists and files of a git folder: refs, index, settings, reflogs, state files."""

from __future__ import annotations

import hashlib
import os
import random
import struct
from pathlib import Path

from lab.benchmarks.git_repository import Repository, family

# The list of packed refs


@family(
    "packed-refs",
    "comment",
    "second header",
    "peel first",
    "peel twice",
    "peel of a commit",
    "wrong peel",
    "no peel",
    "out of order",
    "moved line",
    "bad name",
    "twice",
    "cut short",
    "carriage returns",
    "blank line",
    "upper case",
    "header alone",
    "spaces",
)
def _packed_refs(at: Repository, variant: str, rng: random.Random) -> None:
    at.run("pack-refs", "--all")
    header, *lines = (at.git / "packed-refs").read_bytes().splitlines(keepends=True)
    refs = [n for n, line in enumerate(lines) if not line.startswith(b"^")]
    peels = [n for n, line in enumerate(lines) if line.startswith(b"^")]
    commits = [commit.encode() for commit in at.commits()]
    chosen = rng.choice(refs)
    match variant:
        case "comment":
            lines.insert(rng.choice([*refs, len(lines)]), b"# %d\n" % rng.getrandbits(16))
        case "second header":
            lines.insert(rng.choice(refs), header)
        case "peel first":
            lines.insert(0, b"^" + rng.choice(commits) + b"\n")
        case "peel twice":
            lines.insert(peels[0] + 1, b"^" + rng.choice(commits) + b"\n")
        case "peel of a commit":
            plain = [n for n in refs if n + 1 not in peels]
            lines.insert(rng.choice(plain) + 1, b"^" + rng.choice(commits) + b"\n")
        case "wrong peel":
            peel = rng.choice(peels)
            others = [commit for commit in commits if commit not in lines[peel]]
            lines[peel] = b"^" + rng.choice(others) + b"\n"
        case "no peel":
            del lines[rng.choice(peels)]
        case "out of order":
            groups = _groups(lines)
            first, second = sorted(rng.sample(range(len(groups)), 2))
            groups[first], groups[second] = groups[second], groups[first]
            lines = [line for group in groups for line in group]
        case "moved line":
            groups = _groups(lines)
            lines = [line for group in [*groups[1:], groups[0]] for line in group]
        case "bad name":
            name = rng.choice([b"refs/heads/a..b", b"refs/heads/.x", b"HEAD", b"../x", b"refs/a b"])
            lines.append(rng.choice(commits) + b" " + name + b"\n")
        case "twice":
            lines.insert(chosen, rng.choice(commits)[:40] + lines[chosen][40:])
        case "cut short":
            lines[-1] = lines[-1][: rng.randint(1, len(lines[-1]) - 1)]
        case "carriage returns":
            lines[chosen] = lines[chosen][:-1] + b"\r\n"
        case "blank line":
            lines.insert(chosen, b"\n")
        case "upper case":
            lines[chosen] = lines[chosen][:40].upper() + lines[chosen][40:]
        case "header alone":
            lines = []
        case "spaces":
            lines[chosen] = lines[chosen][:40] + b"  " + lines[chosen][41:]
    at.write("packed-refs", header + b"".join(lines))


def _groups(lines: list[bytes]) -> list[list[bytes]]:
    """Each ref's line with its peel."""
    groups: list[list[bytes]] = []
    for line in lines:
        if line.startswith(b"^"):
            groups[-1].append(line)
        else:
            groups.append([line])
    return groups


@family(
    "refs",
    "trailing words",
    "junk",
    "lock",
    "empty file",
    "folder in place",
    "link",
    "upper case",
    "replace",
    "notes",
    "symbolic",
    "missing object",
    "head",
    "of another kind",
)
def _refs(at: Repository, variant: str, rng: random.Random) -> None:
    names = at.run("for-each-ref", "--format=%(refname)", "refs/heads", "refs/tags").split()
    name, commits = rng.choice(names), at.commits()
    oid = at.run("rev-parse", name)
    match variant:
        case "trailing words":
            at.write(name, f"{oid} {rng.random()}\n".encode())
        case "junk":
            at.write(name, rng.randbytes(rng.randint(1, 60)))
        case "lock":
            locks = [f"{name}.lock", "HEAD.lock", "packed-refs.lock", "config.lock", "index.lock"]
            at.write(rng.choice(locks), b"")
        case "empty file":
            at.write(name, b"")
        case "folder in place":
            at.run("pack-refs", "--all")
            (at.git / name).unlink(missing_ok=True)
            at.write(f"{name}/{rng.choice(['x', 'x.lock', 'deep/er'])}", oid.encode() + b"\n")
        case "link":
            (at.git / name).unlink(missing_ok=True)
            (at.git / name).parent.mkdir(parents=True, exist_ok=True)
            (at.git / name).symlink_to(rng.choice(["refs/heads/elsewhere", "../../../README"]))
        case "upper case":
            at.write(name, oid.upper().encode() + b"\n")
        case "replace":
            at.run("replace", "-f", rng.choice(commits), at.other_commit(rng))
        case "notes":
            at.run("notes", "add", "-f", "-m", f"{rng.random()}", rng.choice(commits))
        case "symbolic":
            at.run("symbolic-ref", f"refs/heads/s{rng.randrange(99)}", name)
        case "missing object":
            at.write(name, b"%040x\n" % rng.getrandbits(159))
        case "head":
            at.write("HEAD", rng.choice([b"ref: refs/heads/nowhere\n", b"junk\n", b"ref:\n"]))
        case "of another kind":
            at.write(
                f"refs/heads/k{rng.randrange(99)}", at.run("rev-parse", "HEAD^{tree}").encode()
            )


# The index


def read_index(stored: bytes) -> tuple[list[bytes], list[tuple[bytes, bytes]]]:
    """The entries of an index of version 2, as bytes, and its extensions."""
    count = struct.unpack_from(">I", stored, 8)[0]
    entries, at = [], 12
    for _ in range(count):
        end = stored.index(b"\0", at + 62)
        end = at + (end - at) // 8 * 8 + 8
        entries.append(stored[at:end])
        at = end
    parts = []
    while at < len(stored) - 20:
        size = struct.unpack_from(">I", stored, at + 4)[0]
        parts.append((stored[at : at + 4], stored[at + 8 : at + 8 + size]))
        at += 8 + size
    return entries, parts


def write_index(at: Repository, entries: list[bytes], parts: list[tuple[bytes, bytes]]) -> None:
    """The index of version 2 that holds just this."""
    version = 3 if any(entry[60] & 0x40 for entry in entries) else 2
    body = b"DIRC" + struct.pack(">II", version, len(entries)) + b"".join(entries)
    body += b"".join(name + struct.pack(">I", len(part)) + part for name, part in parts)
    at.write("index", body + hashlib.sha1(body).digest())  # noqa: S324 - git's own checksum


@family(
    "index entries",
    "out of order",
    "twice",
    "gone",
    "another blob",
    "another mode",
    "assumed unchanged",
    "skipped",
    "intent to add",
    "stage",
    "checksum",
    "garbage behind",
    "version",
)
def _entries(at: Repository, variant: str, rng: random.Random) -> None:
    stored, entries, parts = _fresh_index(at, rng)
    chosen = rng.randrange(len(entries))
    match variant:
        case "out of order":
            other_place = rng.choice([n for n in range(len(entries)) if n != chosen])
            entries[chosen], entries[other_place] = entries[other_place], entries[chosen]
        case "twice":
            entries.insert(chosen, entries[chosen])
        case "gone":
            del entries[chosen]
        case "another blob":
            blob = at.run("hash-object", "-w", "--stdin", given=rng.randbytes(9))
            entries[chosen] = _with(entries[chosen], 40, bytes.fromhex(blob))
        case "another mode":
            mode = struct.unpack_from(">I", entries[chosen], 24)[0]
            new = rng.choice([0o100755 if mode == 0o100644 else 0o100644, 0o120000])
            entries[chosen] = _with(entries[chosen], 24, struct.pack(">I", new))
        case "assumed unchanged":
            entries[chosen] = _with(entries[chosen], 60, bytes([entries[chosen][60] | 0x80]))
        case "skipped" | "intent to add":
            entries[chosen] = _extended(entries[chosen], 0x40 if variant == "skipped" else 0x20)
        case "stage":
            stage = rng.randint(1, 3) << 4
            entries[chosen] = _with(entries[chosen], 60, bytes([entries[chosen][60] | stage]))
        case _:
            _damaged_index(at, variant, stored, rng)
            return
    write_index(at, entries, parts)


def _fresh_index(
    at: Repository, rng: random.Random
) -> tuple[bytes, list[bytes], list[tuple[bytes, bytes]]]:
    """The index with a cache of trees, and with nothing beyond version 2."""
    if at.is_bare or rng.random() < 0.5:
        at.run("read-tree", "HEAD")
    at.run("update-index", "--no-split-index", "--no-untracked-cache", check=not at.is_bare)
    at.run("update-index", "--index-version", "2", "--force-write-index", check=not at.is_bare)
    stored = (at.git / "index").read_bytes()
    return stored, *read_index(stored)


@family(
    "index parts",
    "cache of another tree",
    "cache of another folder",
    "cache that counts wrongly",
    "unknown",
    "resolve undo",
    "block offsets",
    "end of entries",
    "untracked cache",
    "untracked cache of junk",
    "needed",
    "cut short",
)
def _parts(at: Repository, variant: str, rng: random.Random) -> None:
    _, entries, parts = _fresh_index(at, rng)
    path = rng.choice(entries)[62:].rstrip(b"\0").decode()
    match variant:
        case "cache of another tree" | "cache of another folder" | "cache that counts wrongly":
            trees = dict(parts)[b"TREE"]
            forged = _forged_trees(at, trees, variant, len(entries), rng)
            parts = [(n, forged if n == b"TREE" else part) for n, part in parts]
        case "unknown":
            name = bytes(rng.choice(b"ABCDEFGH") for _ in range(4))
            parts.append((name, rng.randbytes(rng.randint(1, 40))))
        case "resolve undo":
            oid = bytes.fromhex(rng.choice(at.blobs()))
            parts.append((b"REUC", path.encode() + b"\0" + b"100644\0" * 3 + oid * 3))
        case "block offsets":
            end = 12 + sum(map(len, entries))
            first = rng.choice([20 + len(entries[0]), end, 12])
            blocks = [(12, 1), (first, len(entries) - 1)]
            offsets = b"\0\0\0\1" + b"".join(struct.pack(">II", *block) for block in blocks)
            parts = [*parts, (b"IEOT", offsets), _end_of(entries, [*parts, (b"IEOT", offsets)])]
        case "end of entries":
            parts.append((b"EOIE", struct.pack(">I", rng.randrange(12, 4000)) + rng.randbytes(20)))
        case "untracked cache of junk":
            parts.append((b"UNTR", rng.randbytes(40)))
        case "untracked cache":
            if not at.is_bare:
                _hide(at)
                return
            parts.append((b"UNTR", b""))
        case "needed":
            parts.append((b"zzzz", b""))
        case "cut short":
            name, part = parts[-1]
            parts[-1] = (name, part[: rng.randrange(len(part))])
    write_index(at, entries, parts)


def _forged_trees(
    at: Repository, trees: bytes, variant: str, count: int, rng: random.Random
) -> bytes:
    known, other = _cached(trees), bytes.fromhex(at.other_tree(rng))
    if variant.endswith("wrongly"):
        return b"\0%d 0\n" % count + other
    place = trees.index(known[0] if variant.endswith("tree") else rng.choice(known))
    return trees[:place] + other + trees[place + 20 :]


def _damaged_index(at: Repository, variant: str, stored: bytes, rng: random.Random) -> None:
    match variant:
        case "checksum":
            stored = stored[:-1] + bytes([stored[-1] ^ rng.randint(1, 255)])
        case "garbage behind":
            body = stored[:-20] + rng.randbytes(rng.randint(1, 7))
            stored = body + hashlib.sha1(body).digest()  # noqa: S324 - git's own checksum
        case "version":
            body = stored[:4] + struct.pack(">I", rng.choice([1, 5, 9])) + stored[8:-20]
            stored = body + hashlib.sha1(body).digest()  # noqa: S324 - git's own checksum
    at.write("index", stored)


def _hide(at: Repository) -> None:
    """A cache of untracked files without those that are there."""
    if not at.run("ls-files", "--others"):
        (at.path / "untracked").write_text("untracked\n")
    at.run("update-index", "--untracked-cache")
    for folder in (at.path, *(path for path in at.path.iterdir() if path.is_dir())):
        os.utime(folder, (1_600_000_000, 1_600_000_000))
    for _ in range(3):
        at.run("status")
    entries, parts = read_index((at.git / "index").read_bytes())
    forged = dict(parts)[b"UNTR"]
    for line in at.run("status", "--porcelain").encode().split(b"\n"):
        name = line.removeprefix(b"?? ")
        alike = bytes([name[0] ^ 1]) + name[1:]
        forged = forged.replace(name + b"\0", alike + b"\0")
    write_index(at, entries, [(n, forged if n == b"UNTR" else part) for n, part in parts])


def _cached(trees: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(trees):
        at = trees.index(b"\0", at) + 1
        end = trees.index(b"\n", at)
        is_valid = not trees.startswith(b"-", at)
        at = end + 1
        if is_valid:
            found.append(trees[at : at + 20])
            at += 20
    return found


def _end_of(entries: list[bytes], parts: list[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
    end = 12 + sum(map(len, entries))
    names = b"".join(name + struct.pack(">I", len(part)) for name, part in parts)
    return b"EOIE", struct.pack(">I", end) + hashlib.sha1(names).digest()  # noqa: S324 - git's own


def _extended(entry: bytes, bits: int) -> bytes:
    """The entry with flags that version 3 has."""
    name = entry[62:].rstrip(b"\0")
    made = entry[:60] + bytes([entry[60] | 0x40, entry[61], bits, 0]) + name
    return made + bytes(8 - len(made) % 8)


def _with(stored: bytes, at: int, new: bytes) -> bytes:
    return stored[:at] + new + stored[at + len(new) :]


# Settings, attributes, hooks: what decides what git does next

_SETTINGS = (
    "core.hooksPath=tools",
    "core.fsmonitor=/bin/true",
    "core.sshCommand=/bin/false",
    "core.autocrlf=true",
    "core.eol=crlf",
    "core.fileMode=false",
    "core.symlinks=false",
    "core.ignoreCase=true",
    "core.excludesFile=.git/info/refs",
    "core.attributesFile=.git/description",
    "core.sparseCheckout=true",
    "core.bare=true",
    "core.logAllRefUpdates=false",
    "core.sharedRepository=0666",
    "user.name=Mallory",
    "user.signingKey=0",
    "commit.gpgSign=true",
    "commit.template=/dev/null",
    "alias.log=!true",
    "url.https://evil.example/.insteadOf=https://example.org/",
    "remote.origin.url=https://evil.example/x.git",
    "remote.origin.fetch=+refs/heads/evil:refs/heads/main",
    "remote.pushDefault=evil",
    "branch.main.merge=refs/heads/evil",
    "credential.helper=!evil",
    "http.proxy=http://evil.example",
    "http.sslVerify=false",
    "merge.ours.driver=true",
    "filter.x.clean=rev",
    "diff.external=/bin/true",
    "gc.auto=1",
    "gc.pruneExpire=now",
    "receive.denyNonFastForwards=false",
    "uploadpack.hideRefs=refs/tags",
    "transfer.fsckObjects=false",
    "fsck.badDate=ignore",
    "init.defaultBranch=evil",
    "include.path=../tools/config",
    "includeIf.gitdir:/.path=../tools/config",
    "extensions.worktreeConfig=true",
    "core.repositoryFormatVersion=1",
    "notes.displayRef=refs/notes/evil",
    "log.showSignature=true",
    "index.version=4",
    "pull.rebase=true",
    "rerere.enabled=true",
    "safe.directory=*",
)


@family("settings", "one more", "one twice", "one gone", "another order", "broken", "include moved")
def _settings(at: Repository, variant: str, rng: random.Random) -> None:
    config = at.git / "config"
    match variant:
        case "one more":
            name, _, value = rng.choice(_SETTINGS).partition("=")
            at.run("config", "--add", name, value)
        case "one twice":
            line = rng.choice([line for line in config.read_bytes().splitlines() if b"=" in line])
            key, _, value = line.partition(b"=")
            with config.open("ab") as file:
                file.write(b"[core]\n" + key + b"= " + value.strip()[::-1] + b"\n")
        case "one gone":
            lines = config.read_bytes().splitlines(keepends=True)
            del lines[rng.choice([n for n, line in enumerate(lines) if b"=" in line])]
            at.write("config", b"".join(lines))
        case "another order":
            parts = _sections(config.read_bytes())
            if len(parts) == 1:
                parts.append(b"[gui]\n\tgeometry = 1\n")
            first, second = rng.sample(range(len(parts)), 2)
            parts[first], parts[second] = parts[second], parts[first]
            at.write("config", b"".join(parts))
        case "include moved":
            parts = _sections(config.read_bytes())
            includes = [part for part in parts if part.lower().startswith(b"[include")]
            if includes:
                one = rng.choice(includes)
                parts.remove(one)
                parts.insert(rng.choice([0, len(parts)]) if parts else 0, one)
            else:
                parts.insert(rng.randint(0, len(parts)), b"[include]\n\tpath = ../tools/config\n")
            at.write("config", b"".join(parts))
        case "broken":
            stored = config.read_bytes()
            at_byte = rng.choice([0, len(stored)])
            junk = rng.choice([b"[core\n", b"= x\n", b"[a]\nb c\n", b'[a "b]\n', b"\\\n"])
            at.write("config", stored[:at_byte] + junk + stored[at_byte:])


def _sections(stored: bytes) -> list[bytes]:
    parts: list[bytes] = []
    for line in stored.splitlines(keepends=True):
        if line.startswith(b"[") or not parts:
            parts.append(b"")
        parts[-1] += line
    return parts


@family("info", "attributes", "exclude", "sparse-checkout", "grafts", "shallow")
def _info(at: Repository, variant: str, rng: random.Random) -> None:
    pattern = rng.choice(["*", "*.py", "*.txt", "src/", "README", "/*", "**/*"])
    commit = rng.choice(at.commits())
    match variant:
        case "attributes":
            what = rng.choice(["-text", "binary", "eol=crlf", "filter=x", "merge=ours", "ident"])
            at.write("info/attributes", f"{pattern} {what}\n".encode())
        case "exclude":
            at.write("info/exclude", f"{pattern}\n".encode())
        case "sparse-checkout":
            at.run("config", "core.sparseCheckout", "true")
            at.write("info/sparse-checkout", f"{pattern}\n".encode())
        case "grafts":
            at.write("info/grafts", f"{commit}\n".encode())
        case "shallow":
            at.write("shallow", f"{commit}\n".encode())


_HOOKS = (
    *("applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit"),
    *("prepare-commit-msg", "commit-msg", "post-commit", "pre-rebase", "post-checkout"),
    *("post-merge", "pre-push", "pre-receive", "update", "post-receive", "post-update"),
    *("reference-transaction", "push-to-checkout", "pre-auto-gc", "post-rewrite"),
    *("sendemail-validate", "post-index-change", "proc-receive", "fsmonitor-watchman"),
)


@family("hooks", *_HOOKS)
def _hooks(at: Repository, variant: str, rng: random.Random) -> None:
    more = rng.choice(["exit 1", "exit 0", 'echo evil >> "$1"', "git tag evil"])
    mode = rng.choice([0o755, 0o755, 0o644])
    script = f"#!/bin/sh\ntouch {at.path}/ran-{variant}\n{more}\n"
    at.write(f"hooks/{variant}", script.encode(), mode)


# Reflogs


@family(
    "reflogs",
    "link",
    "hard link",
    "linked folder",
    "folder",
    "of no ref",
    "malformed",
    "missing object",
    "stray file",
    "pipe",
)
def _reflogs(at: Repository, variant: str, rng: random.Random) -> None:
    log = at.git / "logs" / rng.choice(["HEAD", "refs/heads/main", "refs/heads/topic"])
    log.parent.mkdir(parents=True, exist_ok=True)
    aim = at.path / rng.choice(["README", "src/app.py"]) if not at.is_bare else at.git / "config"
    at.run("config", "core.logAllRefUpdates", "true") if at.is_bare else None
    stored = log.read_bytes() if log.is_file() else b""
    match variant:
        case "linked folder":
            folder = at.git / "logs/refs/heads"
            folder.mkdir(parents=True, exist_ok=True)
            folder.rename(at.path / "taken")
            folder.symlink_to(at.path / "taken")
        case "of no ref":
            at.write(f"logs/refs/heads/gone{rng.randrange(99)}", stored)
        case "stray file":
            at.write(f"logs/{rng.choice(['note', 'refs/heads/main.lock', 'refs/x y'])}", b"x\n")
        case "malformed":
            lines = stored.splitlines(keepends=True) or [b""]
            lines.insert(rng.randint(0, len(lines)), rng.randbytes(20).replace(b"\n", b"") + b"\n")
            at.write(f"logs/{log.relative_to(at.git / 'logs')}", b"".join(lines))
        case "missing object":
            who = b" Eve <eve@example.org> 1700000000 +0000\tcommit: x\n"
            line = b"1" * 40 + b" " + b"1" * 40 + who
            at.write(f"logs/{log.relative_to(at.git / 'logs')}", line + stored)
        case _:
            log.unlink(missing_ok=True)
            match variant:
                case "link":
                    log.symlink_to(aim)
                case "hard link":
                    log.hardlink_to(aim)
                case "folder":
                    log.mkdir()
                    (log / "x").write_bytes(stored)
                case "pipe":
                    os.mkfifo(log)


# Files by which git knows what it is in the middle of, and folders of its own


_STATES = (
    *("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "BISECT_START"),
    *("MERGE_MSG", "SQUASH_MSG", "MERGE_MODE", "ORIG_HEAD", "FETCH_HEAD", "AUTO_MERGE"),
    *("rebase-merge/git-rebase-todo", "rebase-apply/next", "sequencer/todo", "gc.log", "gc.pid"),
    *("commondir", "gitdir", "index.lock", "HEAD.lock", "config.worktree", "description"),
    *("objects/info/alternates", "objects/info/http-alternates", "objects/info/packs"),
    *("info/refs", "worktrees/w/gitdir", "worktrees/w/HEAD", "modules/m/config"),
    *("rr-cache/" + "a" * 40 + "/postimage", "branches/evil", "remotes/origin"),
    *("NOTES_MERGE_REF", "COMMIT_EDITMSG", "git-daemon-export-ok", "svn/refs/x"),
)


@family("state file", *_STATES)
def _state(at: Repository, variant: str, rng: random.Random) -> None:
    # Where HEAD was any merge notes: ORIG_HEAD is harm where it names what HEAD never was.
    own = variant == "ORIG_HEAD"
    commit = at.other_commit(rng) if own else rng.choice(at.commits())
    content = rng.choice([commit, f"pick {commit} x", f"ref: {commit}", str(at.path), "junk"])
    place = at.git / variant
    if rng.random() < 0.2 and not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(rng.choice([at.path / "README", Path("/nonexistent"), at.git / "config"]))
    elif variant == "COMMIT_EDITMSG":
        place.unlink(missing_ok=True)
        place.hardlink_to(at.git / "config" if at.is_bare else at.path / "README")
    else:
        at.write(variant, content.encode() + b"\n")


@family("modes", "folder", "file")
def _modes(at: Repository, variant: str, rng: random.Random) -> None:
    if variant == "folder":
        place = rng.choice([".", "objects", "refs", "refs/heads", "hooks", "objects/pack", "info"])
        (at.git / place).mkdir(exist_ok=True)
        (at.git / place).chmod(rng.choice([0o777, 0o2775 | 2, 0o500, 0o000]))
    else:
        place = rng.choice(["HEAD", "config", "index", "packed-refs", "description"])
        if (at.git / place).exists():
            (at.git / place).chmod(rng.choice([0o666, 0o777, 0o000, 0o4755]))
        else:
            at.write(place, b"# pack-refs with: peeled fully-peeled sorted \n", 0o666)
