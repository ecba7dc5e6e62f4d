"""Containers for servers that agents use: shut in, owned, and gone when their owner is.

A container has no network. Its server listens on a Unix socket in a folder that it shares with
this machine (`Container.socket`); for agents `Container.forward` opens a port on loopback that
leads there. So nothing in it reaches this machine's listeners or the internet, whatever an agent
makes the server do. Its files are read-only but for what `Spec` names, it has no capability but
those that `Spec` names, gains no privilege, and its memory and processes are bounded.

Everything made here carries a label that names the evaluator's process (`owner`). `connect`
removes what dead owners left; a reaper outlives this process and removes its things even after
`kill -9`.

A plain volume begins as what its image has in that place. An overlay volume begins as another
volume: what is written goes beside that one, file by file when it is first opened for writing. So
many begin as the same at no cost, none sees another, and the first is never written again. Nothing
waits for the disk, so such a volume is not mounted a second time: nobody can start a container
again that uses one.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import socket
import sys
import tarfile
import tempfile
import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import docker
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.types import LogConfig, Mount

from statediff.errors import SandboxError
from statediff.systems.base.folders import remove
from statediff.systems.base.owner import Owner
from statediff.systems.base.reaper import Reaper, attempts
from statediff_containers.box import END_SECONDS, Box
from statediff_containers.processes import Life, await_known, await_told

OVER: Final = "lowerdir={base},upperdir={written},workdir={work},volatile"


@dataclass(frozen=True)
class Volume:
    """A volume of the engine's."""

    name: str
    path: str
    """Where it lies on the engine's machine, for the engine only."""


def plain_volume(api: docker.APIClient, labels: Mapping[str, str]) -> Volume:
    """A new volume. Raises `DockerException`."""
    made = api.create_volume(labels=dict(labels))
    return Volume(made["Name"], made["Mountpoint"])


def overlay_volume(
    api: docker.APIClient, labels: Mapping[str, str], base: Volume, made: list[Volume]
) -> Volume:
    """A new volume over `base`; what was made for it stands in `made`, in the order to remove.

    Whether the engine's kernel can mount it shows when a container that uses it is started.
    """
    for _ in ("what is written", "where the kernel works"):
        made.insert(0, plain_volume(api, labels))
    options = OVER.format(base=base.path, written=made[0].path, work=made[1].path)
    whole = api.create_volume(
        labels=dict(labels),
        driver="local",
        driver_opts={"type": "overlay", "device": "overlay", "o": options},
    )
    made.insert(0, Volume(whole["Name"], whole["Mountpoint"]))
    return made[0]


MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True)
class Shared:
    """A folder of this machine that a container sees too."""

    folder: Path
    at: str
    is_read_only: bool = True


@dataclass(frozen=True)
class Spec:
    """The recipe of a container. Unless said here: no network, no capability, no writing."""

    image: str
    name: str
    """How messages call it, e.g. the source's name."""
    command: tuple[str, ...] = ()
    """In place of the image's own."""
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    """In place of the image's own, e.g. `65532:65532`."""
    memory_folders: Mapping[str, str] = field(default_factory=lambda: {"/tmp": "size=64m"})  # noqa: S108 - a place inside
    """Place → options of a `tmpfs`: empty at first, counted against `memory_bytes`."""
    volumes: tuple[str, ...] = ()
    """Places that may be written on disk; each begins as what the image has there."""
    over: Mapping[str, Volume] = field(default_factory=dict)
    """Place → what it begins as; it may be written on disk too, and the volume stays as it is."""
    shared: tuple[Shared, ...] = ()
    capabilities: tuple[str, ...] = ()
    memory_bytes: int = 512 * MEBIBYTE
    processes: int = 256
    shared_memory_bytes: int = 64 * MEBIBYTE
    loopback_of: str = ""
    """The id of a container whose loopback it shares, and no other network either."""
    folder: str = ""  # where its program starts


@dataclass(frozen=True)
class Ran:
    """The result of a program in a container."""

    code: int
    output: bytes
    """Standard output; standard error is `errors`."""
    errors: bytes

    @property
    def text(self) -> str:
        return self.output.decode(errors="replace")


LABEL: Final = "statediff.owner"
HOST: Final = "server"
"""What every container is called inside, or two servers of one image would differ in that."""
SOCKETS: Final = "/run/statediff"  # the folder of sockets, inside every container
ENGINE_SOCKET: Final = "/var/run/docker.sock"
_PREFIX: Final = "statediff-"
_LOG: Final = LogConfig(type="json-file", config={"max-size": "1m", "max-file": "1"})
NEXT_STEP: Final = "`statediff doctor` says what is missing and how to get it"


class Container(Box):
    """A container that runs until `remove`; made by `Engine.run` only."""

    pid = 1  # in a process namespace of its own

    def __init__(self, engine: Engine, spec: Spec, sockets: Path) -> None:
        super().__init__(spec.name, sockets)
        self.spec = spec
        self.id = ""
        self._engine = engine
        self._volumes: list[Volume] = []
        self._life: Life | None = None

    def has_ended(self) -> bool:
        """True if it is certain that what was started in it runs no more."""
        return self._life is not None and self._life.has_ended(self._engine.api)

    def pids(self) -> list[int]:
        life = self._life
        return [] if life is None or life.started is None else [life.pid]

    def ended_by_others(
        self, door: str = "", call: bytes = b"", was_asked: Callable[[], bool] = lambda: False
    ) -> str | None:
        """How it ended, where it did and nothing says so of itself; None else.

        Asked once nothing in it dies any more. `door`: a socket whose server answers `call`;
        `was_asked`: whether its server has noted that it was asked to end.
        """
        if self._life is None:
            return None
        if door:
            await_told(self._life, self._engine.api, lambda: self.connect(door), call)
        else:
            await_known(self._life)
        return self._life.ended_by_others(self._engine.api, was_asked)

    def is_starved(self) -> bool:
        """True if something in it has ever been killed because its memory was used up."""
        return self._life is not None and self._life.is_starved()

    def processes(self) -> list[str] | None:
        """The programs that run in it, by name; None where it does not run."""
        try:
            if self._life is not None and (listed := self._life.names()):
                return listed
        except (OSError, ValueError):
            pass  # one of them ended meanwhile, or this is not ours to see: the engine knows
        try:
            rows = self._engine.api.top(self.id, ps_args="-eo pid,comm")["Processes"]
        except DockerException:
            return None
        return [str(row[-1]) for row in rows or ()]

    def exec(
        self, *command: str, user: str = "", environment: Mapping[str, str] | None = None
    ) -> Ran:
        """A program's result; `SandboxError` if none could run. A busy engine may lose output."""
        api = self._engine.api
        try:
            made = api.exec_create(
                self.id, list(command), user=user, environment=dict(environment or {})
            )
            output, errors = api.exec_start(made["Id"], demux=True)
            code = api.exec_inspect(made["Id"])["ExitCode"]
        except DockerException as error:
            raise self._failure(f"{command[0]} cannot be run", error) from error
        return Ran(-1 if code is None else code, output or b"", errors or b"")

    def check(self, *command: str, user: str = "") -> bytes:
        """The output of a program that ended well. Raises `SandboxError` with what it said."""
        ran = self.exec(*command, user=user)
        if ran.code != 0:
            said = (ran.errors or ran.output).decode(errors="replace").strip()[-400:]
            raise SandboxError(f"{self.spec.name}: {command[0]} ended with {ran.code}: {said}")
        return ran.output

    def read(self, path: str) -> bytes:
        """The content of a file of its image. Raises `SandboxError`."""
        try:
            parts, _ = self._engine.api.get_archive(self.id, path)
            with tarfile.open(fileobj=io.BytesIO(b"".join(parts))) as archive:
                if (held := archive.extractfile(archive.getmembers()[0])) is None:
                    raise tarfile.ReadError("it is no file")
                return held.read()
        except (DockerException, tarfile.TarError) as error:
            raise self._failure(f"{path} cannot be read", error) from error

    def log(self, lines: int = 0) -> str:
        """The last lines of what its server printed; by default a few, cut to be shown."""
        try:
            said = self._engine.api.logs(self.id, tail=lines or 12).decode(errors="replace")
        except DockerException as error:
            return f"(no log: {engine_message(error)})"
        return said if lines else said.strip()[-1200:] or "(it printed nothing)"

    def remove(self) -> None:
        """Nothing of it is left: no process, no volume, no folder, no port; may be called again."""
        self._close_ports()
        api = self._engine.api
        try:
            if self.id:
                gone(lambda: api.remove_container(self.id, force=True, v=True))
            for volume in self._volumes:
                gone(lambda: api.remove_volume(volume.name, force=True))  # noqa: B023 - called at once
        except DockerException as error:
            raise self._failure("it cannot be removed", error) from error
        remove(self._sockets)

    def ended(self, seconds: float = END_SECONDS) -> Volume | None:
        """End its server and return its one volume, which stays when the container is removed.

        None where the server did not end well when it was asked to. Raises `SandboxError`.
        """
        api = self._engine.api
        try:
            api.stop(self.id, timeout=round(seconds))
            has_failed = api.inspect_container(self.id)["State"]["ExitCode"] != 0
        except DockerException as error:
            raise self._failure("it cannot be stopped", error) from error
        return None if has_failed else self._volumes.pop()

    def _start(self) -> None:
        """Made and started; what a caller must `remove` is known even if this fails half-way."""
        spec, api, labels = self.spec, self._engine.api, self._engine.labels
        mounts = [Mount(SOCKETS, str(self._sockets), "bind")]
        mounts += [Mount(s.at, str(s.folder), "bind", s.is_read_only) for s in spec.shared]
        for place in spec.volumes:
            self._volumes.append(plain_volume(api, labels))
            mounts.append(Mount(place, self._volumes[-1].name, "volume"))
        for place, base in spec.over.items():
            whole = overlay_volume(api, labels, base, self._volumes)
            mounts.append(Mount(place, whole.name, "volume", no_copy=True))
        limits = api.create_host_config(
            network_mode=f"container:{spec.loopback_of}" if spec.loopback_of else "none",
            read_only=True,
            tmpfs=dict(spec.memory_folders),
            mounts=mounts,
            cap_drop=["ALL"],
            cap_add=list(spec.capabilities),
            security_opt=["no-new-privileges"],
            pids_limit=spec.processes,
            mem_limit=spec.memory_bytes,
            memswap_limit=spec.memory_bytes,
            shm_size=spec.shared_memory_bytes,
            log_config=_LOG,
        )
        self.id = api.create_container(
            spec.image,
            list(spec.command) or None,
            user=spec.user or None,
            labels=labels,
            environment=dict(spec.environment),
            host_config=limits,
            working_dir=spec.folder or None,
            hostname=None if spec.loopback_of else HOST,
            # Else the engine makes and wires up a network of nothing, which costs more than all
            # else it does; so the runtime makes the namespace, with nothing in it but loopback.
            network_disabled=not spec.loopback_of,
        )["Id"]
        api.start(self.id)
        self._life = Life.of(api, self.id)

    def _failure(self, what: str, error: Exception) -> SandboxError:
        return SandboxError(f"{self.spec.name}: {what}: {engine_message(error)}")


@dataclass(frozen=True)
class Containers:
    """A `Machine`: servers of one image in containers, each over a volume of its own."""

    image: str
    """Its tag."""
    place: str
    """All that a server may write, but for /tmp."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """What a container gets beyond the usual, as `Spec` names it."""

    @property
    def key(self) -> tuple[Hashable, ...]:
        return (self.image,)

    @property
    def title(self) -> str:
        return f"a container of the image {self.image}"

    @property
    def secrets(self) -> dict[str, str]:
        return {}

    def run(self, name: str, over: Hashable | None = None) -> Container:
        if isinstance(over, Volume):
            return connect().run(Spec(self.image, name, over={self.place: over}, **self.limits))
        return connect().run(Spec(self.image, name, volumes=(self.place,), **self.limits))


class Engine:
    """The Docker engine of this machine, on behalf of this process; got by `connect`."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self._clients = threading.local()
        self._version: str | None = None
        self._lock = threading.Lock()
        self._reaper: Reaper | None = None

    @property
    def api(self) -> docker.APIClient:
        """The engine's own interface, by this thread's client."""
        return self.client.api

    @property
    def client(self) -> docker.DockerClient:
        """This thread's client: one that several threads use drops connections still in use."""
        client: docker.DockerClient | None = getattr(self._clients, "client", None)
        if client is None:
            client = docker.from_env(version=self._version)
            self._clients.client = client
            self._version = client.api.api_version  # the next one need not ask
        return client

    @property
    def labels(self) -> dict[str, str]:
        """The labels that everything made for this process carries."""
        return {LABEL: self.owner.label}

    def run(self, spec: Spec) -> Container:
        """The container runs; whether its server answers is `await_ready`'s to say."""
        self._watch()
        container = Container(self, spec, self._sockets_folder())
        try:
            container._start()  # noqa: SLF001 - only here
        except BaseException as error:
            container.remove()
            if isinstance(error, ImageNotFound):
                raise SandboxError(
                    f"{spec.name}: the image {spec.image} is not there; "
                    "make it with `statediff sandbox build`"
                ) from error
            if isinstance(error, DockerException):
                raise SandboxError(
                    f"{spec.name}: the container cannot be started: {engine_message(error)}"
                ) from error
            raise
        return container

    def remove_of(self, label: str) -> None:
        """Nothing that carries this owner's label is left: containers, volumes, networks, folders.

        What somebody else removes meanwhile is no error.
        """
        api, wanted = self.api, {"label": f"{LABEL}={label}"}
        for found in api.containers(all=True, filters=wanted):
            gone(lambda: api.remove_container(found["Id"], force=True, v=True))  # noqa: B023 - called at once
        for found in api.volumes(filters=wanted)["Volumes"] or ():
            gone(lambda: api.remove_volume(found["Name"], force=True))  # noqa: B023 - called at once
        for found in api.networks(filters=wanted):
            gone(lambda: api.remove_network(found["Id"]))  # noqa: B023 - called at once
        while _folder(label).exists():
            try:
                remove(_folder(label))
            except OSError as error:  # somebody else is removing it
                if error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
                    raise

    def reap(self) -> tuple[str, ...]:
        """Nothing of a dead owner is left; the labels of those whose things were removed."""
        api, wanted = self.api, {"label": LABEL}
        labels = {entry.name.removeprefix(_PREFIX) for entry in _root().glob(f"{_PREFIX}*-*-*-*")}
        made = [
            *api.containers(all=True, filters=wanted),
            *(api.volumes(filters=wanted)["Volumes"] or ()),
            *api.networks(filters=wanted),
        ]
        labels |= {found["Labels"][LABEL] for found in made}
        owners = {label: Owner.parse(label) for label in labels}
        dead = tuple(sorted(label for label, owner in owners.items() if owner and owner.is_dead()))
        for label in dead:
            self.remove_of(label)
        return dead

    def folder(self) -> Path:
        """A new folder in memory that is gone with this process, however that ends."""
        home = _folder(self.owner.label)
        home.mkdir(mode=0o700, exist_ok=True)
        return Path(tempfile.mkdtemp(dir=home, prefix=""))

    def _sockets_folder(self) -> Path:
        # Who is let in is the container's mount and this folder's parent; the server's user is
        # anybody. In memory: what a server writes there counts against its own limit.
        folder = self.folder()
        folder.chmod(0o777)
        return folder

    def _watch(self) -> None:
        """A process waits for the end of this one, to remove what is left of it."""
        with self._lock:
            if self._reaper is None or not self._reaper.is_running():
                self._reaper = Reaper(remove_left, self.owner.label)


def remove_left(label: str) -> None:
    """Nothing that names a dead owner is left; what the living have stays.

    What a dying process had asked the engine for may appear a moment after its death. If the
    engine is gone too, the next `connect` removes what is left.
    """
    owner = Owner.parse(label)
    if owner is None:
        return
    engine = Engine(owner)
    for _ in attempts():
        if owner.is_dead():
            with contextlib.suppress(DockerException):
                engine.remove_of(label)


def connect() -> Engine:
    """This machine's engine, with nothing left of dead owners. `SandboxError` if there is none."""
    return _new_engine(os.getpid())


@cache
def _new_engine(_pid: int) -> Engine:
    if not sys.platform.startswith("linux"):
        raise SandboxError(
            f"sandboxes in containers need Linux, found {sys.platform}; "
            "the embedded variants run anywhere"
        )
    _require_engine()
    try:
        engine = Engine(Owner.current())
        engine.api.ping()
        engine.reap()
    except DockerException as error:
        raise SandboxError(
            f"no Docker engine answers: {engine_message(error)}; {NEXT_STEP}"
        ) from error
    return engine


def _require_engine() -> None:
    """Somebody listens where the engine should; its sockets are files of this machine."""
    address = os.environ.get("DOCKER_HOST") or f"unix://{ENGINE_SOCKET}"
    kind, _, path = address.partition("://")
    if kind != "unix":
        raise SandboxError(
            f"DOCKER_HOST names {address}; sandboxes need an engine on this machine, by its socket"
        )
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.connect(path)
    except OSError as error:
        raise SandboxError(
            f"no Docker engine answers at {path}: {error.strerror or error}; {NEXT_STEP}"
        ) from error


def _root() -> Path:
    memory = Path("/dev/shm")  # noqa: S108 - each owner's folder is its own, mode 0700
    return memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())


def _folder(label: str) -> Path:
    return _root() / f"{_PREFIX}{label}"


def gone(removal: Callable[[], object]) -> None:
    """Remove it: it is gone, or somebody else is removing it."""
    with contextlib.suppress(NotFound):
        try:
            removal()
        except APIError as error:
            if error.status_code != 409:  # somebody else is removing it
                raise


def engine_message(error: Exception) -> str:
    """The engine's message, fit for a message of ours."""
    message = getattr(error, "explanation", None) or str(error)
    return str(message).strip().rstrip(".")[:600]
