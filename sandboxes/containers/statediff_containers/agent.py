"""`image`: an agent's program in a container of its own, which reaches the systems only.

It has no network. The ports that its URLs name lead, on a loopback that it shares with nothing but
a relay of ours, to those systems and nowhere else. Of this machine's files it sees its own folder
and the folders of systems that are files, at the same places as without a container. All else is
as for the systems' containers: read-only, no capability, no new privilege, bounded memory and
processes, no engine; and gone when the run ends, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Event
from typing import Final
from urllib.parse import urlsplit

from docker.errors import DockerException, ImageNotFound

from statediff.agents.command import (
    LOOK_SECONDS,
    StreamHead,
    agent_environment,
    program_ending,
    require_going,
)
from statediff.agents.commandline import program_name
from statediff.agents.handover import read_answer, read_trace
from statediff.agents.trial import AgentRun, Trial, place_of
from statediff.capture.source import Clock
from statediff.errors import AdapterError, SandboxError, UsageError
from statediff.systems.base.folders import AGENT_USER, give
from statediff_containers.engine import MEBIBYTE, Container, Shared, Spec, connect
from statediff_containers.forward import Entrance
from statediff_containers.images import image_tag

ISOLATION: Final = "container"
MEMORY_BYTES: Final = 2048 * MEBIBYTE
PROCESSES: Final = 512
_SIGNALED: Final = 128


@dataclass(frozen=True)
class ImageAgent:
    """An agent that is an image. `UsageError` at once if this machine does not have it."""

    image: str
    command: tuple[str, ...] = ()
    """In place of the image's own."""
    timeout_seconds: float = 600.0
    name: str = ""
    halted: Event = field(default_factory=Event, compare=False, repr=False)
    isolation: str = ISOLATION

    def __post_init__(self) -> None:
        if not self.timeout_seconds > 0:
            raise UsageError(f"an agent needs a timeout above 0 s, found {self.timeout_seconds}")
        try:
            connect().client.images.get(self.image)
        except ImageNotFound as error:
            raise UsageError(
                f"the agent's image {self.image!r} is not on this machine; get it with "
                "`docker pull` or `docker build` first"
            ) from error
        except DockerException as error:
            raise UsageError(f"the agent's image {self.image!r} is no image: {error}") from error
        if not self.name:
            short = self.image.rpartition("/")[2]
            object.__setattr__(self, "name", program_name(self.command) if self.command else short)

    def run(self, trial: Trial, clock: Clock) -> AgentRun:
        started_at = clock()
        require_going(self.halted)
        with self._container(trial) as container:
            in_time = self._attend(container)
            code, streams, complaint = _outcome(container)
        finished_at = clock()
        if not in_time:
            complaint = f"the agent did not end within {self.timeout_seconds:g} s and was stopped"
        return AgentRun(
            answer=read_answer(trial.answer_path, trial.answer_form),
            trace=read_trace(trial.trace_path),
            started_at=started_at,
            finished_at=finished_at,
            exit_code=code if in_time else None,
            error=complaint,
            command=(self.image, *self.command),
            # An engine writes a signal as 128 and its number.
            ending=program_ending(-1 if code is None or code > _SIGNALED else code, in_time),
            stdout=streams[0].output(),
            stderr=streams[1].output(),
        )

    @contextlib.contextmanager
    def _container(self, trial: Trial) -> Iterator[Container]:
        """It runs, and nothing of it is left afterwards. Raises `AdapterError`."""
        user = os.geteuid() or AGENT_USER
        places = [trial.folder, *filter(None, map(place_of, trial.urls.values()))]
        environment = agent_environment(trial)
        del environment["PATH"]  # the image knows where its programs are
        with contextlib.ExitStack() as stack:
            try:
                relay = _relay(sorted({*filter(None, map(_port_of, trial.urls.values()))}), stack)
                for place in places:
                    give(place, user)
                container = connect().run(
                    Spec(
                        self.image,
                        f"the agent {self.name!r}",
                        self.command,
                        environment=environment,
                        user=f"{user}:{os.getegid() or AGENT_USER}",
                        shared=tuple(Shared(p, str(p), is_read_only=False) for p in places),
                        memory_bytes=MEMORY_BYTES,
                        processes=PROCESSES,
                        loopback_of=relay.id,
                        folder=str(trial.folder),
                    )
                )
            except (SandboxError, OSError) as error:
                raise AdapterError(
                    f"the agent {self.name!r} could not be started: {error}"
                ) from error
            stack.callback(container.remove)
            yield container

    def _attend(self, container: Container) -> bool:
        """Waits until the program has ended (True) or its time is over (False)."""
        deadline = time.monotonic() + self.timeout_seconds
        while not container.has_ended():
            require_going(self.halted)
            if time.monotonic() >= deadline:
                with contextlib.suppress(DockerException):  # it ended by itself
                    connect().api.kill(container.id)
                return False
            time.sleep(LOOK_SECONDS)
        return True


def _relay(ports: list[int], stack: contextlib.ExitStack) -> Container:
    """A container whose loopback has those ports of this machine, and no others."""
    relay = connect().run(
        Spec(
            image_tag("relay"),
            "the agent's relay",
            tuple(map(str, ports)),
            user=f"{os.geteuid() or AGENT_USER}:{os.getegid() or AGENT_USER}",
            memory_bytes=64 * MEBIBYTE,
        )
    )
    stack.callback(relay.remove)
    for port in ports:
        stack.callback(Entrance(relay.socket(str(port)), port).close)
    relay.await_ready(relay.socket("ready").exists)
    return relay


def _port_of(url: str) -> int | None:
    """The port of this machine that a URL leads to."""
    parts = urlsplit(url)
    return parts.port if parts.hostname in ("127.0.0.1", "localhost") else None


def _outcome(container: Container) -> tuple[int | None, tuple[StreamHead, StreamHead], str | None]:
    """The exit code, what it printed, and why it did not end well. Raises `AdapterError`."""
    api, streams = connect().api, (StreamHead(), StreamHead())
    try:
        for kept, is_error in zip(streams, (False, True), strict=True):
            kept.take(api.logs(container.id, stdout=not is_error, stderr=is_error))
        state = api.inspect_container(container.id)["State"]
    except DockerException as error:
        raise AdapterError(f"{container.spec.name}: how it ended is not known: {error}") from error
    code = int(state["ExitCode"])
    if state["OOMKilled"]:
        return code, streams, "the agent took more memory than it may, and was ended"
    return code, streams, f"the agent ended with exit code {code}" if code else None
