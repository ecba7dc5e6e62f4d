"""Checkpoints of our logs, read and verified by the parser of another project.

    pip install sigstore && python -m tests.evidence.checkpoint_reader

reads the checkpoint of each genuine public vector with sigstore's `SignedCheckpoint`, and verifies
each plain signature over the note that it cuts out. 1 if one is not read, or does not fit.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import sys
from collections.abc import Iterator
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from statediff_lab.commands.conforming import read_vectors

from statediff.evidence import verify as v

IS_WRONG_ON_PURPOSE = "log-proof-with-a-line-of-another-evaluator-that-does-not-fit"


def checkpoints() -> Iterator[tuple[str, str, frozenset[bytes]]]:
    """The name and checkpoint of each genuine vector with a proof, and the keys of its trust."""
    for name, files, trust, expected in read_vectors():
        if v.PROOF in files and expected != "INVALID":
            _, _, checkpoint = files[v.PROOF].decode().partition("\n\n")
            keys = (bytes.fromhex(each["key"]) for each in json.loads(trust)["keys"])
            yield name, checkpoint, frozenset(keys)


def signatures(read: Any, keys: frozenset[bytes]) -> Iterator[bool]:
    """Yields True if a plain signature of one of these keys fits, by what the parser made of it."""
    note = read.signed_note.note.encode()
    for signature in read.signed_note.signatures:
        for key in keys:
            known = hashlib.sha256(signature.name.encode() + b"\n\x01" + key).digest()
            if known.startswith(signature.sig_hash):
                try:
                    raw = base64.b64decode(signature.signature)
                    Ed25519PublicKey.from_public_bytes(key).verify(raw, note)
                    yield True
                except InvalidSignature:
                    yield False


def main() -> int:
    """Prints how many were read, and how many signatures fit."""
    parser = importlib.import_module("sigstore._internal.rekor.checkpoint").SignedCheckpoint
    count, fits, fails = 0, 0, []
    for name, text, keys in checkpoints():
        found = list(signatures(parser.from_text(text), keys))
        count, fits = count + 1, fits + sum(found)
        fails += [name] if not all(found) else []
    sys.stdout.write(f"{count} checkpoints read, {fits} signatures fit; not: {fails}\n")
    return int(fails != [IS_WRONG_ON_PURPOSE] or fits < count)


if __name__ == "__main__":
    sys.exit(main())
