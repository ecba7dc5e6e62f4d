"""The needs of tests beyond Python, and why one is not there."""

import hashlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

from statediff.errors import StatediffError


def chromium_path() -> str | None:
    """The Chromium that tests of pages use, if there is one."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    found = (path for name in names if (path := shutil.which(name)))
    return os.environ.get("STATEDIFF_CHROMIUM") or next(found, None)


@cache
def why_no_docker(*images: str) -> str:
    """Why tests with containers of these images cannot run; empty if they can."""
    try:
        from statediff_containers.engine import connect  # noqa: PLC0415 - an extra
        from statediff_containers.images import missing_images  # noqa: PLC0415 - an extra

        missing = missing_images(connect(), images)
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed; `pip install statediff[docker]`"
    except StatediffError as error:
        return str(error)
    return f"run `statediff sandbox build {' '.join(missing)}`" if missing else ""


def why_no_browser() -> str:
    """Why tests of pages cannot run; empty if they can."""
    return (
        ""
        if chromium_path()
        else "no Chromium on PATH; install it or name it in STATEDIFF_CHROMIUM"
    )


def why_no_node() -> str:
    """Why tests with an editor's language server cannot run; empty if they can."""
    return why_no_clients("node", "npm")


def why_no_clients(*programs: str) -> str:
    """Which of the programs is not on PATH; empty if all are."""
    missing = [program for program in programs if shutil.which(program) is None]
    return f"not on PATH: {', '.join(missing)}" if missing else ""


def why_no_postgres() -> str:
    """Why tests of PostgreSQL servers without Docker cannot run; empty if they can."""
    return (
        ""
        if package_programs()
        else "no package pgserver; `pip install statediff[postgres-server]`"
    )


@cache
def package_programs() -> Path | None:
    """The folder of the PostgreSQL programs that the package `pgserver` brings, if it is here."""
    spec = importlib.util.find_spec("pgserver")
    if spec is None or spec.origin is None or not sys.platform.startswith("linux"):
        return None
    return Path(spec.origin).parent / "pginstall" / "bin"


def hosts_folder() -> Path:
    """The folder of the environments of hosts."""
    return Path(os.environ.get("STATEDIFF_HOSTS") or Path(__file__).parents[1] / ".hosts")


def why_no_host(name: str) -> str:
    """The host, whose environment is not there; empty if it is."""
    checkout = Path(__file__).parents[1]
    needed = [checkout / "requirements" / "hosts" / f"{name}.txt", checkout / "pyproject.toml"]
    wanted = hashlib.sha256(b"".join(path.read_bytes() for path in needed)).hexdigest()
    stamp = hosts_folder() / name / "stamp"
    is_made = stamp.is_file() and stamp.read_text().strip() == wanted
    return "" if is_made else name


def why_no_pack(extra: str) -> str:
    """The extra of a pack, where not all servers of packs are installed."""
    return extra if has_no_servers() else ""


@cache
def has_no_servers() -> bool:
    """True if something that the extra `packs` brings is not installed."""
    return any(_is_missing(name) for name in _brought("statediff", "packs"))


def _brought(distribution: str, extra: str) -> set[str]:
    """The names that the extra brings; of our own distributions, those that their extras bring."""
    found: set[str] = set()
    for each in metadata.requires(distribution) or ():
        need = Requirement(each)
        if need.marker is None or not need.marker.evaluate({"extra": extra}):
            continue
        is_ours = need.name == "statediff" or need.name.startswith("statediff-")
        inside = [_brought(need.name, name) for name in need.extras] if is_ours else [{need.name}]
        found |= set().union(*inside)
    return found


def _is_missing(distribution: str) -> bool:
    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return True
    return False


def why_no_servers(*modules: str) -> str:
    """Which of the modules is not installed; empty if all are."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    return f"{', '.join(missing)} not installed; `make setup`" if missing else ""


NEEDS: Final[dict[str, tuple[str, Callable[..., str]]]] = {
    "docker": ("Docker", why_no_docker),
    "browser": ("a browser", why_no_browser),
    "node": ("Node.js", why_no_node),
    "clients": ("clients", why_no_clients),
    "postgres": ("a PostgreSQL without Docker", why_no_postgres),
    "host": ("environments of hosts, see `make hosts`", why_no_host),
    "pack": ("servers of packs, see `make packs`", why_no_pack),
    "servers": ("servers that only tests use", why_no_servers),
}
"""Mark → its name in the summary, and what says why a test with the mark's arguments cannot run."""
