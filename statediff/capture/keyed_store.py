"""Chunks that can be forgotten: encrypted as they are written, under a key of one source and trial.

A contract says with `retain` how long the values of a source are kept. What is captured of such a
source never is in the run's folder in the clear: to destroy the key is to erase the chunks,
and every copy of them.

A chunk's name and its own key are keyed hashes of its digest, and its nonce one of its bytes. So
names say nothing of the content, and the same chunk is written once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa

from statediff.capture.store import KEYED, DiskChunks
from statediff.model.state import ChunkRef, ChunkStore, LayeredChunks

KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12


class KeyedChunks(DiskChunks):
    """The chunks of one source and trial, in a folder of chunks, under a key that is elsewhere.

    `name` is what the key is called where it is kept, `retain` how long, as the contract says it.
    """

    def __init__(self, folder: Path | str, name: str, key: bytes, retain: str) -> None:
        super().__init__(folder)
        self.name, self.retain = name, retain
        self._key = key

    def encrypt(self, data: bytes, about: str) -> bytes:
        """The bytes of a file other than a chunk; one for each `about`, which it is bound to."""
        return self._encrypt(self._derived(b"file", about), data)

    def decrypt(self, data: bytes, about: str) -> bytes:
        """The content that was encrypted so. `ValueError` for everything else."""
        return self._decrypt(self._derived(b"file", about), data)

    def has(self, digest: str) -> bool:
        """True if the chunk is there."""
        return Path(self._path(digest)).exists()

    def _path(self, digest: str) -> str:
        super()._path(digest)  # it is the name of a chunk
        name = self._derived(b"name", digest).hex()
        return f"{self._root}/{name[:2]}/{name[2:]}{KEYED}"

    def _encoded(self, digest: str, batch: pa.RecordBatch) -> memoryview:
        plain = super()._encoded(digest, batch)
        return memoryview(self._encrypt(self._derived(b"chunk", digest), bytes(plain)))

    def _opened(self, digest: str, path: str) -> pa.RecordBatch:
        plain = self._decrypt(self._derived(b"chunk", digest), Path(path).read_bytes())
        return self._only_batch(digest, path, pa.BufferReader(plain))

    def _encrypt(self, key: bytes, data: bytes) -> bytes:
        from cryptography.hazmat.primitives.ciphers.aead import (  # noqa: PLC0415 - few runs need it
            ChaCha20Poly1305,
        )

        nonce = hashlib.blake2b(data, key=key, person=b"nonce", digest_size=_NONCE_BYTES).digest()
        return nonce + ChaCha20Poly1305(key).encrypt(nonce, data, None)

    def _decrypt(self, key: bytes, data: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - as above
        from cryptography.hazmat.primitives.ciphers.aead import (  # noqa: PLC0415 - as above
            ChaCha20Poly1305,
        )

        nonce, rest = data[:_NONCE_BYTES], data[_NONCE_BYTES:]
        try:
            return ChaCha20Poly1305(key).decrypt(nonce, rest, None)
        except (InvalidTag, ValueError) as error:
            raise ValueError(f"it is not what was encrypted under the key {self.name}") from error

    def _derived(self, purpose: bytes, about: str) -> bytes:
        return hashlib.blake2b(
            about.encode(), key=self._key, person=purpose, digest_size=KEY_BYTES
        ).digest()


class SourceChunks(LayeredChunks):
    """A trial's chunks: those of a source with a key of its own go there, all others to `plain`.

    What is put without saying of which source it is stays in memory; it gets what any of them has.
    """

    def __init__(self, plain: ChunkStore, keyed: Mapping[str, KeyedChunks]) -> None:
        super().__init__(plain)
        self.plain, self.keyed = plain, keyed

    def get(self, ref: ChunkRef) -> pa.RecordBatch:
        if ref.digest not in self._batches:
            for store in self.keyed.values():
                if store.has(ref.digest):
                    return store.get(ref)
        return super().get(ref)
