"""A trust file that is published under The Update Framework, read from a folder.

The folder has `root.json`, the root metadata that its reader was given by a way of its own;
`metadata` and `targets`, which are copied from the publisher as they are, `targets/trust.json`
among them; and `.seen`, which remembers the newest versions that were read. python-tuf checks
signatures, thresholds, expiry, rotation of keys, and that no version goes back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from statediff.errors import UsageError
from statediff.evidence.verify import MAX_HEAD_BYTES, Rejected, Signer, read_trust
from statediff.extras import extra_module

TARGET: Final = "trust.json"
SEEN: Final = ".seen"
_FILE: Final = re.compile(r"(?:metadata|targets)/[0-9A-Za-z][0-9A-Za-z._-]*")


def published_trust(folder: Path) -> tuple[Signer, ...]:
    """The keys of the trust file that the folder's metadata vouches for now. `UsageError`."""
    wanted = f"{folder}: is a folder: trust of The Update Framework is read with python-tuf"
    client = extra_module("tuf.ngclient", "tuf", wanted)
    errors = extra_module("tuf.api.exceptions", "tuf", wanted)
    try:
        seen = folder / SEEN
        seen.mkdir(mode=0o700, exist_ok=True)
        updater = client.Updater(
            str(seen), "metadata/", target_base_url="targets/",
            fetcher=_fetcher(client, errors, folder), bootstrap=(folder / "root.json").read_bytes(),
        )  # fmt: skip
        updater.refresh()
        found = updater.get_targetinfo(TARGET)
        if found is None or found.length > MAX_HEAD_BYTES:
            raise UsageError(f"{folder}: its metadata names no {TARGET} that can be one")
        copy = Path(updater.download_target(found, str(seen / TARGET)))
        return read_trust(copy.read_bytes())
    except (errors.RepositoryError, errors.DownloadError, Rejected) as error:
        raise UsageError(f"{folder}: this trust does not count: {error}") from error
    except OSError as error:
        raise UsageError(f"{folder}: cannot be read, or .seen not written: {error}") from error


def _fetcher(client: ModuleType, errors: ModuleType, folder: Path) -> Any:
    """The fetcher with which python-tuf reads the folder, as if it were a server."""

    def fetch(_self: object, url: str) -> Iterator[bytes]:
        if not _FILE.fullmatch(url) or not (folder / url).is_file():
            raise errors.DownloadHTTPError(f"there is no {url}", 404)
        return iter([(folder / url).read_bytes()])

    return type("Folder", (client.FetcherInterface,), {"_fetch": fetch})()
