"""Sources of a PostgreSQL server of a sandbox: a container, or programs on this machine.

`chosen` takes the first of these that is there:

1. what `STATEDIFF_POSTGRES` names: `docker`, or a folder with `postgres` and `initdb`;
2. a container, where an engine answers and the image is built;
3. programs of a release that is read (`RELEASES`): on the PATH, where Debian and others install
   them, of the Python package `pgserver`. Of several, those with more of `EXTENSIONS`, which see
   more; then the newer ones; then those that are named first here.

PostgreSQL refuses to run as root. Where we are root, a server has a number as its user that no
account has; `initdb`, which wants an account, runs as `nobody`. Programs that such a user cannot
reach, e.g. in an environment below root's home, are copied to where it can.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import secrets
import shutil
import subprocess
import threading
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, Protocol

from statediff_containers import recipe
from statediff_containers.box import Box, Machine
from statediff_containers.local import (
    LocalServer,
    Program,
    copy_tree,
    free_shared_memory,
    may_enter,
    place,
)

from statediff.errors import SandboxError, StatediffError
from statediff.systems.base.waiting import communicate
from statediff_postgres.wal import Dump, ReadLog, inspected

VARIABLE: Final = "STATEDIFF_POSTGRES"
DOCKER: Final = "docker"
PACKAGE: Final = "pgserver"
REQUIREMENT: Final = "statediff[postgres-server]"
RELEASES: Final = (15, 16)
EXTENSIONS: Final = ("amcheck", "pg_walinspect")
"""Which check indexes, and read the log; without the second a program does."""
SERVER_USER: Final = 65531
"""The same as in the image; the kernel tells servers who is at the other end of a socket."""
MEMORY_BYTES: Final = 1536 * 1024 * 1024
"""A limit of each process of a server, and of all together in a container."""
_STEP_SECONDS: Final = 120.0
_WITHOUT_A_SECOND_TEMPLATE: Final = """\
UPDATE pg_database SET datistemplate = false WHERE datname = 'template0'
DROP DATABASE template0
"""
"""As in the image."""
_PLACES: Final = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")


class PostgresMachine(Machine, Protocol):
    """A machine that runs PostgreSQL servers."""

    @property
    def extensions(self) -> frozenset[str]:
        """Those of `EXTENSIONS` that its servers can be given."""

    def log_of(self, box: Box) -> ReadLog:
        """The reader of the log of a server that it began."""


def chosen() -> PostgresMachine:
    """The machine that runs servers. `SandboxError` says what is missing, and how to get it."""
    return _chosen(os.environ.get(VARIABLE, ""), os.environ.get("PATH", ""), os.getpid())


@cache
def _chosen(wanted: str, _path: str, _pid: int) -> PostgresMachine:
    if wanted and wanted != DOCKER:
        found = programs_in(Path(wanted), wanted)
        if found is None:
            known = " and ".join(map(str, RELEASES))
            raise SandboxError(
                f"{VARIABLE} names {wanted}; expected `docker`, or the folder of `postgres`,"
                f" `initdb`, `pg_config` and `pg_waldump` of release {known}"
            )
        return EmbeddedPostgres(found)
    try:
        return _containers()
    except StatediffError as error:
        found = None if wanted else next(iter(programs()), None)
        if found is None:
            hint = "" if wanted else f"; without Docker: `pip install {REQUIREMENT}`"
            raise SandboxError(f"{error}{hint}") from error
        return EmbeddedPostgres(found)


def _containers() -> PostgresMachine:
    """Containers, where an engine answers that has the image. Raises `StatediffError`."""
    try:
        from statediff_containers.database import PLACE  # noqa: PLC0415 - an extra
        from statediff_containers.engine import Containers, connect  # noqa: PLC0415 - an extra
        from statediff_containers.images import (  # noqa: PLC0415 - an extra
            image_tag,
            missing_images,
        )
    except ModuleNotFoundError as error:
        raise SandboxError(
            f"containers need {error.name}: `pip install statediff[docker]`"
        ) from error

    class Contained(Containers):
        extensions = frozenset(EXTENSIONS)

        def log_of(self, _box: Box) -> ReadLog:
            return inspected

    if missing_images(connect(), ("postgres",)):
        raise SandboxError(
            "the image of PostgreSQL is not there; make it with `statediff sandbox build postgres`"
        )
    # What was written and not yet brought to disk counts as memory too, and databases are copied.
    limits = {"memory_bytes": MEMORY_BYTES, "shared_memory_bytes": 256 * 1024 * 1024}
    return Contained(image_tag("postgres"), PLACE, limits)


@dataclass(frozen=True)
class Programs:
    """The programs of a PostgreSQL on this machine."""

    folder: Path
    release: int
    version: str
    """As it says itself, e.g. `PostgreSQL 16.2`."""
    origin: str
    """Where they come from, in words."""
    extensions: frozenset[str]

    def __truediv__(self, name: str) -> Path:
        return self.folder / name


def programs() -> tuple[Programs, ...]:
    """All that are here and can be used, the best first."""
    found = [known for folder, origin in _folders() if (known := programs_in(folder, origin))]
    return tuple(sorted(found, key=lambda each: (-len(each.extensions), -each.release)))


def _folders() -> Iterator[tuple[Path, str]]:
    if (on_path := shutil.which("postgres")) is not None:
        folder = Path(on_path).resolve().parent
        yield folder, str(folder)
    for pattern in _PLACES:
        for each in sorted(Path("/").glob(pattern.removeprefix("/"))):
            yield each, str(each)
    if (package := _package()) is not None:
        try:
            yield package / "pginstall" / "bin", f"the package {PACKAGE} {version(PACKAGE)}"
        except PackageNotFoundError:
            return


def _package() -> Path | None:
    """The package's folder; it is not imported: that makes folders and locks of its own."""
    spec = importlib.util.find_spec(PACKAGE)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def programs_in(folder: Path, origin: str) -> Programs | None:
    """The programs in the folder; None where they are not whole, or of a release that is not read.

    `origin`: where they come from, in words.
    """
    if not all((folder / name).is_file() for name in ("postgres", "initdb", "pg_waldump")):
        return None
    try:
        said = subprocess.run(
            [str(folder / "pg_config"), "--version", "--sharedir"],
            capture_output=True, text=True, timeout=_STEP_SECONDS, check=True,
        ).stdout.splitlines()  # fmt: skip
        release = int(said[0].split()[1].split(".")[0])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None
    if release not in RELEASES:
        return None
    named = Path(said[1], "extension")
    has = frozenset(name for name in EXTENSIONS if (named / f"{name}.control").is_file())
    return Programs(folder, release, " ".join(said[0].split()[:2]), origin, has)


class EmbeddedPostgres:
    """A `PostgresMachine`: servers as processes of this machine."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._lock = threading.Lock()
        self._base: Path | None = None
        self._secret = secrets.token_urlsafe(24)

    @property
    def key(self) -> tuple[Hashable, ...]:
        return (str(self._programs.folder), self._programs.version)

    @property
    def title(self) -> str:
        return f"{self._programs.version} ({self._programs.origin}), a process of this machine"

    @property
    def secrets(self) -> dict[str, str]:
        return {"postgres": self._secret}

    @property
    def extensions(self) -> frozenset[str]:
        return self._programs.extensions

    def log_of(self, box: Box) -> ReadLog:
        if "pg_walinspect" in self.extensions or not isinstance(box, LocalServer):
            return inspected
        return Dump(self._programs / "pg_waldump", box.written / "pg_wal", box.user)

    def run(self, name: str, over: Hashable | None = None) -> LocalServer:
        with self._lock:
            if self._base is None:
                self._base = self._make_base(name)
        folder = place().new_folder(SERVER_USER)
        data = folder / "data"
        try:
            copy_tree(over if isinstance(over, Path) else self._base, data, SERVER_USER)
            command = (str(self._programs / "postgres"), "-D", str(data), "-k", str(folder))
            program = Program(
                (*command, "-c", "dynamic_shared_memory_type=mmap"),
                {"LC_ALL": "C.UTF-8"},
                SERVER_USER,
                MEMORY_BYTES,
            )
            return LocalServer(name, folder, program, data, lambda: _free_memory(data))
        except BaseException as error:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, OSError):
                raise SandboxError(f"{name}: its server's files cannot be made: {error}") from error
            raise

    def _make_base(self, name: str) -> Path:
        """A data folder that nobody has used, from which every server's begins."""
        if os.geteuid() == 0:
            self._programs = _reachable(self._programs, name)
        user = _account(name)
        folder = place().new_folder(os.geteuid() if user is None else user.pw_uid)
        data, first = folder / "data", folder / "first"
        try:
            first.write_text(self._secret, encoding="ascii")
            if user is not None:
                os.chown(first, user.pw_uid, user.pw_gid)
            made = [str(self._programs / "initdb"), "-D", str(data), "-U", "postgres"]
            made += ["-E", "UTF8", "--locale=C.UTF-8", "--auth=scram-sha-256"]
            made += [f"--pwfile={first}", "--no-sync", "--no-instructions"]
            _run(made, folder, user, name)
            shutil.copyfile(recipe("postgres") / "postgresql.conf", data / "postgresql.conf")
            alone = [str(self._programs / "postgres"), "--single", "-D", str(data), "postgres"]
            _run(alone, folder, user, name, _WITHOUT_A_SECOND_TEMPLATE)
            first.unlink()
        except (OSError, subprocess.SubprocessError) as error:
            raise SandboxError(f"{name}: no data folder can be made: {error}") from error
        return data


def _run(
    command: list[str], folder: Path, user: pwd.struct_passwd | None, name: str, text: str = ""
) -> None:
    """The program has ended well. Raises `SandboxError` with what it said, `OSError` and the like.

    `user`: who runs it; None for ourselves. `text`: its standard input.
    """
    with subprocess.Popen(
        command,
        env={"LC_ALL": "C.UTF-8", "PATH": os.defpath, "HOME": str(folder)},
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        user=None if user is None else user.pw_uid,
        group=None if user is None else user.pw_gid,
        extra_groups=None if user is None else [],
    ) as process:
        _, errors, why = communicate(process, text.encode())
    if why or process.returncode != 0:
        said = errors.decode(errors="replace").strip()[-400:]
        ended = f"was ended: {why}" if why else f"ended with {process.returncode}"
        raise SandboxError(f"{name}: {command[0]} {ended}: {said}")


def _account(name: str) -> pwd.struct_passwd | None:
    """Who makes a data folder; None for ourselves. `SandboxError` where nobody here can."""
    if os.geteuid() != 0:
        try:
            pwd.getpwuid(os.geteuid())
        except KeyError:
            raise SandboxError(
                f"{name}: PostgreSQL's initdb wants a user with an account, and {os.geteuid()} has"
                " none here; run statediff as another user, or use Docker"
            ) from None
        return None
    try:
        account = pwd.getpwnam("nobody")
        probe = place().new_folder(account.pw_uid)
        os.chown(probe, SERVER_USER, SERVER_USER)
        probe.rmdir()
    except (KeyError, OSError) as error:
        raise SandboxError(
            f"{name}: PostgreSQL refuses to run as root, and this root can become nobody else"
            f" ({error}); run statediff as another user, or use Docker"
        ) from error
    return account


def _reachable(found: Programs, name: str) -> Programs:
    """The programs, where any user can run them. Raises `SandboxError`."""
    if may_enter(found / "postgres"):
        return found
    package = _package()
    if package is None or not found.folder.is_relative_to(package):
        raise SandboxError(
            f"{name}: PostgreSQL refuses to run as root, and no other user can run"
            f" {found / 'postgres'}; let others enter its folders, or run as another user"
        )
    target = place().new_folder(0)
    left_out = shutil.ignore_patterns("include", "*.a", "pgxs")
    for part in (package / "pginstall", package.with_name(f"{PACKAGE}.libs")):
        if part.is_dir():
            copy = target / part.relative_to(package.parent)
            shutil.copytree(part, copy, symlinks=True, ignore=left_out)
    for each in (target, *target.rglob("*")):
        each.chmod(0o755)  # nothing of it is a secret, and only we write it
    at = target / found.folder.relative_to(package.parent)
    return Programs(at, found.release, found.version, found.origin, found.extensions)


def _free_memory(data: Path) -> None:
    """Give back the memory that a killed server's processes shared."""
    try:
        lines = (data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        free_shared_memory(int(lines[6].split()[1]))
    except (OSError, IndexError, ValueError):
        return  # it ended well, or never began
