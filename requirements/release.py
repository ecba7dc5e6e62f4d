"""The files of a release, made of a commit: `python -m requirements.release DIST [--key KEY]`.

The archive of sources, wheels of all distributions built from it, what they run on as CycloneDX and
as a table of licenses, the digests of these, and with a key a signed statement of the digests. The
same commit and environment give the same bytes. `--check DIST --trust TRUST` refuses others.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from requirements.gather import projects, third_party
from statediff import __version__
from statediff.errors import BundleError, InputError, StatediffError
from statediff.evidence.keys import load_key, load_trust
from statediff.evidence.statements import read_statement, sign_statement
from tests.wheels import ROOT, Environment, build

RELEASE: Final = "release"
STATEMENT: Final = "release.signed"
EVERYTHING: Final = projects()["statediff"]["optional-dependencies"]["test"][0]
"""The core with all extras but servers of packs and hosts with pins of their own."""
PERMISSIVE: Final = frozenset({
    "0BSD", "Apache Software License", "Apache-2.0", "BSD License", "BSD-2-Clause", "BSD-3-Clause",
    "CC0-1.0", "CNRI-Python", "ISC", "MIT", "MIT-0", "MIT-CMU", "PSF-2.0", "Python-2.0", "ZPL-2.0",
    "ZPL-2.1", "Zlib",
})  # fmt: skip
READ: Final = {
    "agent-client-protocol": "Apache-2.0",
    "antlr4-python3-runtime": "BSD-3-Clause",
    "bleach": "Apache-2.0",
    "mysql-replication": "Apache-2.0",
    "partd": "BSD-3-Clause",
    "pgserver": "Apache-2.0",
    "protobuf": "BSD-3-Clause",
    "pyrage": "MIT",
    "signedjson": "Apache-2.0",
    "tiktoken": "MIT",
}
"""What somebody read in the files of distributions whose metadata say it in no standard way."""
ACCEPTED: Final = {
    "apsw": "any license that the Open Source Initiative approved, or its own permissive one",
    "certifi": "MPL-2.0: its own files, unchanged",
    "orjson": "MPL-2.0 in part: its own files, unchanged",
    "psycopg": "LGPL-3.0: a library that is imported, unchanged",
    "pygit2": "GPL-2.0 with an exception for whoever links it",
    "python-stdnum": "LGPL-2.1: a library of the server of `statediff-erp`",
    **dict.fromkeys(("localstripe", "matrix-synapse", "radicale", "relatorio", "trytond"),
                    "GPL or AGPL: a server, a program of its own, which nothing here holds"),
}  # fmt: skip
"""Why a distribution of another license may be what an extra brings."""


def make(commit: str, into: Path, wanted: str = EVERYTHING) -> tuple[Path, ...]:
    """The files of the release of a commit, sorted; `wanted` says with what extras it runs."""
    into.mkdir(parents=True)
    os.environ["SOURCE_DATE_EPOCH"] = str(int(_instant(commit).timestamp()))
    with tempfile.TemporaryDirectory(prefix="statediff-release-") as made:
        sources, unpacked = Path(made) / "sources", Path(made) / "unpacked"
        with tarfile.open(fileobj=io.BytesIO(_ran("git", "archive", commit))) as packed:
            packed.extractall(sources, filter="data")
        archive = ["hatchling", "build", "-t", "sdist", "-d", str(into.resolve())]
        _ran(sys.executable, "-m", *archive, cwd=sources)
        [sdist] = into.iterdir()
        with tarfile.open(sdist) as packed:
            packed.extractall(unpacked, filter="data")
        [root] = unpacked.iterdir()
        wheels = build(into, root)
        env = Environment(Path(made) / "env")
        for wheel in wheels.values():
            env.add(wheel)
        for need in map(Requirement, sorted({*third_party(wanted, projects())})):
            if need.marker is None or need.marker.evaluate():
                env.borrow(need)
        python = str(env.bin / "python")
        materials = _ran(
            sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible", python
        )
    (into / "statediff.cdx.json").write_bytes(materials)
    (into / "licenses.md").write_text(licenses(json.loads(materials)), encoding="utf-8")
    return tuple(sorted(into.iterdir()))


def head() -> str:
    """The commit that is checked out."""
    return _ran("git", "rev-parse", "HEAD").decode().strip()


def _instant(commit: str) -> datetime:
    return datetime.fromtimestamp(int(_ran("git", "show", "-s", "--format=%ct", commit)), UTC)


def _ran(*command: str, cwd: Path = ROOT) -> bytes:
    return subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.PIPE).stdout


def licenses(materials: dict[str, Any]) -> str:
    """A table of all components; `InputError` where one is neither permissive nor accepted."""
    rows, refused = [], []
    for component in sorted(materials["components"], key=lambda each: str(each["name"]).lower()):
        name = canonicalize_name(component["name"])
        said = [READ[name]] if name in READ else [*_said(component)]
        accepted = [ACCEPTED[each] for each in ACCEPTED if re.fullmatch(f"{each}(-.*)?", name)]
        row = [component["name"], component["version"], "; ".join(said) or "unknown", *accepted]
        rows.append(f"| {' | '.join(row)} |")
        if not accepted and not (said and all(map(_is_permissive, said))):
            refused.append(" ".join(row))
    if refused:
        raise InputError(f"licenses that nobody accepted: {', '.join(refused)}")
    head = ("| distribution | version | license | accepted, because |", "|---|---|---|---|")
    return "\n".join([*head, *rows, ""])


def _said(component: dict[str, Any]) -> Iterator[str]:
    """What its metadata say, as SPDX does or in a classifier, but for the names of families."""
    for each in component.get("licenses", ()):
        plain = each.get("license", {})
        said = each.get("expression") or plain.get("id") or plain["name"].rpartition(" :: ")[2]
        if said != "OSI Approved":
            yield said


def _is_permissive(said: str) -> bool:
    """All parts of an expression are, or of plain alternatives one."""
    choices = [said] if "(" in said else said.split(" OR ")
    parts = [[part.strip() for part in re.split(r" AND | OR |[()]", each)] for each in choices]
    return any(PERMISSIVE.issuperset(filter(None, each)) for each in parts)


def digests(folder: Path) -> dict[str, str]:
    """File → SHA-256, of all that a release holds but its statement."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.name != STATEMENT
    }


def sign(folder: Path, commit: str, key: Path) -> None:
    """The folder holds a statement of its files, by the key, dated as the commit is."""
    payload = {
        "at": _instant(commit).isoformat(),
        "commit": commit,
        "version": __version__,
        "files": digests(folder),
    }
    (folder / STATEMENT).write_bytes(sign_statement(payload, RELEASE, load_key(key)))


def check(folder: Path, trust: Path) -> str:
    """Who signed the files of a release; `BundleError` where one is not as it was signed."""
    signed, keys = (folder / STATEMENT).read_bytes(), ("at", "commit", "files", "version")
    said, at, who = read_statement(signed, RELEASE, keys, load_trust(trust))
    differing = {name for name, _ in said["files"].items() ^ digests(folder).items()}
    if differing:
        raise BundleError(f"not as {who} signed it: {', '.join(sorted(differing))}")
    made = f"{len(said['files'])} files of {said['version']}, commit {said['commit']}"
    return f"{made}, signed by {who}, {at:%Y-%m-%d}"


def main() -> None:
    """Make the files of a release, or check them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", metavar="DIST", type=Path)
    parser.add_argument("--key", type=Path, help="sign by this key of `statediff keygen`")
    parser.add_argument("--check", action="store_true", help="make nothing; check what is there")
    parser.add_argument("--trust", type=Path, default="trust.json", help="whose keys count")
    given = parser.parse_args()
    try:
        if given.check:
            print(check(given.folder, given.trust))  # noqa: T201 - as below
            return
        commit = head()
        make(commit, given.folder, f"{EVERYTHING[:-1]},packs]")
        if given.key:
            sign(given.folder, commit, given.key)
    except (StatediffError, OSError, metadata.PackageNotFoundError) as error:
        raise SystemExit(f"error: {error}") from error
    for file, digest in digests(given.folder).items():
        print(f"{digest}  {file}")  # noqa: T201 - a program


if __name__ == "__main__":
    main()
