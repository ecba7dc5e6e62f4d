"""Run the public vectors against any verifier of sealed bundles."""

from __future__ import annotations

import base64
import json
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from statediff.cli.options import JsonFlag
from statediff.cli.output import print_result, progress
from statediff.errors import UsageError

VECTORS = Path("fixtures/bundles/vectors.json")
CONFORMANCE = "statediff/conformance/1"
_TIMEOUT_SECONDS = 20.0
_CODES = {0: "VALID", 3: "NOT_REPLAYABLE_AT_TIER", 4: "INVALID"}

Judge = Callable[[Mapping[str, bytes], bytes], str]
"""The status of the files of a sealed bundle under a trust file."""


def bundle(
    verifier: Annotated[
        str | None,
        typer.Option(
            "--verifier",
            metavar="CMD",
            help="A command with {sealed} and {trust} in it, run without a shell for each vector; "
            "it ends with 0 (VALID), 3 (NOT_REPLAYABLE_AT_TIER) or 4 (INVALID). Our own if none.",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Run the vectors of sealed bundles against a verifier; ends with 4 if it fails one."""
    if verifier is not None and not {"{sealed}", "{trust}"} <= set(shlex.split(verifier)):
        raise UsageError("--verifier: expected {sealed} and {trust} as arguments of the command")
    judge = _our_own if verifier is None else _command(shlex.split(verifier))
    vectors = list(read_vectors())
    failed = []
    must_fail = 0
    for number, (name, files, trust, expected) in enumerate(vectors, start=1):
        found = judge(files, trust)
        must_fail += expected == "INVALID"
        if found != expected:
            failed.append({"vector": name, "expected": expected, "found": found})
        if verifier is not None and number % 25 == 0:
            progress().print(f"{number} of {len(vectors)} vectors")
    lines = [f"{e['vector']}: expected {e['expected']}, {e['found']}" for e in failed]
    lines.append(
        f"{len(vectors) - len(failed)} of {len(vectors)} vectors pass, "
        f"{must_fail} of them must be refused"
    )
    counts = {"schema": CONFORMANCE, "vectors": len(vectors), "must_fail": must_fail}
    print_result({**counts, "failed": failed}, "\n".join(lines), as_json=as_json)
    return 4 if failed else 0


def read_vectors() -> Iterator[tuple[str, Mapping[str, bytes], bytes, str]]:
    """(name, files, trust file, expected status) of each public vector."""
    from statediff.packs import packs_folder

    document: Any = json.loads(
        (packs_folder(str(VECTORS.parent)) / VECTORS.name).read_text(encoding="utf-8")
    )
    trusts = {name: json.dumps(trust).encode() for name, trust in document["trust"].items()}
    trusts |= {name: base64.b64decode(data) for name, data in document["trust_files"].items()}
    content = {name: base64.b64decode(data) for name, data in document["content"].items()}
    for vector in document["vectors"]:
        files = {name: content[digest] for name, digest in vector["files"].items()}
        yield vector["name"], files, trusts[vector["trust"]], vector["expect"]


def _our_own(files: Mapping[str, bytes], trust: bytes) -> str:
    from statediff.evidence.verify import Rejected, read_trust, verify

    try:
        return verify(files, read_trust(trust)).status
    except Rejected:
        return "INVALID"


def _command(words: list[str]) -> Judge:
    def judge(files: Mapping[str, bytes], trust: bytes) -> str:

        with tempfile.TemporaryDirectory(prefix="statediff-vector-") as folder:
            sealed, trusted = Path(folder, "sealed"), Path(folder, "trust.json")
            sealed.mkdir()
            for name, data in files.items():
                (sealed / name).write_bytes(data)
            trusted.write_bytes(trust)
            places = {"{sealed}": str(sealed), "{trust}": str(trusted)}
            try:
                done = subprocess.run(
                    [places.get(word, word) for word in words],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=_TIMEOUT_SECONDS,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return f"no answer in {_TIMEOUT_SECONDS:.0f} s"
            except OSError as error:
                raise UsageError(f"--verifier: {words[0]} cannot be run: {error}") from error
        return _CODES.get(done.returncode, f"exit code {done.returncode}")

    return judge


COMMANDS: tuple[tuple[str, Callable[..., object]], ...] = (("bundle", bundle),)
