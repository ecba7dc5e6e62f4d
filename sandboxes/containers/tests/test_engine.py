"""Containers are shut in and owned: each test tries to get out, to take more, or to stay."""

import contextlib
import hashlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from docker.errors import DockerException
from statediff_containers.engine import (
    LABEL,
    MEBIBYTE,
    SOCKETS,
    Container,
    Engine,
    Shared,
    Spec,
    connect,
    plain_volume,
)
from statediff_containers.images import image_tag
from statediff_containers.processes import Life

from statediff.errors import SandboxError
from statediff.systems.base.owner import Owner

pytestmark = pytest.mark.docker("git")

PATIENCE_SECONDS = 20.0
SERVER = f"""
use IO::Socket::UNIX;
my $server = IO::Socket::UNIX->new(Local => "{SOCKETS}/echo", Listen => 9) or die $!;
chmod 0777, "{SOCKETS}/echo";
$SIG{{CHLD}} = "IGNORE";
while (my $client = $server->accept) {{
    next if fork;
    while (<$client>) {{ print $client "heard $_"; }}
    exit;
}}
"""


def echo(**more: object) -> Spec:
    return Spec(image_tag("git"), "echo", ("perl", "-e", SERVER), **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def engine() -> Engine:
    return connect()


@pytest.fixture
def run(engine: Engine) -> Iterator[Callable[[Spec], Container]]:
    made: list[Container] = []

    def start(spec: Spec) -> Container:
        made.append(engine.run(spec))
        made[-1].await_ready(lambda: made[-1].socket("echo").exists())
        return made[-1]

    yield start
    for container in made:
        container.remove()


@pytest.fixture(scope="module")
def server(engine: Engine) -> Iterator[Container]:
    container = engine.run(echo())
    try:
        container.await_ready(lambda: container.socket("echo").exists())
        yield container
    finally:
        container.remove()


def asked(port: int, text: str = "hello") -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(f"{text}\n".encode())
        connection.shutdown(socket.SHUT_WR)
        return connection.makefile().read()


def things_of(engine: Engine, owner: str) -> list[str]:
    wanted = {"label": f"{LABEL}={owner}"}
    return [
        *(found["Id"] for found in engine.api.containers(all=True, filters=wanted)),
        *(found["Name"] for found in engine.api.volumes(filters=wanted)["Volumes"] or ()),
        *(found["Id"] for found in engine.api.networks(filters=wanted)),
        *(str(path) for path in Path("/dev/shm").glob(f"*{owner}*")),
    ]


def left_of(engine: Engine, image: str) -> list[str]:
    """Containers of one image, and volumes in no container, that this process made.

    Its other sandboxes exchange theirs in the background, whatever a test does.
    """
    own = {"label": f"{LABEL}={engine.owner.label}"}
    made = engine.api.containers(all=True, filters={**own, "ancestor": image})
    loose = engine.api.volumes(filters={**own, "dangling": "true"})["Volumes"] or ()
    return sorted([*(found["Id"] for found in made), *(found["Name"] for found in loose)])


def awaited(condition: Callable[[], object]) -> bool:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


# ---------------------------------------------------------------- what agents get


def test_a_server_without_a_network_is_reached_through_a_port_on_loopback(
    server: Container,
) -> None:
    assert asked(server.forward("echo")) == "heard hello\n"
    with socket.socket(socket.AF_UNIX) as direct:
        direct.connect(str(server.socket("echo")))
        direct.sendall(b"it is me\n")
        assert direct.recv(100) == b"heard it is me\n"


def test_large_answers_and_many_at_once_arrive_whole(server: Container) -> None:
    port, text = server.forward("echo"), "x" * 300_000
    with ThreadPoolExecutor(16) as several:
        assert set(several.map(lambda _: asked(port, text), range(48))) == {f"heard {text}\n"}


def test_the_port_is_closed_when_the_container_is_removed(
    run: Callable[[Spec], Container],
) -> None:
    container = run(echo())
    port = container.forward("echo")
    with socket.create_connection(("127.0.0.1", port), timeout=5) as held:
        held.sendall(b"first\n")
        assert held.recv(100)
        container.remove()
        assert held.recv(100) == b""
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_connections_left_open_by_an_agent_are_cut_and_new_ones_served(server: Container) -> None:
    port = server.forward("echo")
    with socket.create_connection(("127.0.0.1", port), timeout=5) as held:
        held.sendall(b"first\n")
        assert held.recv(100)
        server.cut()
        assert held.recv(100) == b""
    assert asked(port) == "heard hello\n"


# ---------------------------------------------------------------- out of the container


def reached(server: Container, host: str, port: int) -> str:
    program = (
        "use IO::Socket::INET; my $s = IO::Socket::INET->new("
        f'PeerAddr => "{host}", PeerPort => {port}, Timeout => 2); print $s ? "in" : $!;'
    )
    return server.check("perl", "-e", program).decode()


def test_no_listener_of_this_machine_can_be_reached(server: Container) -> None:
    addresses = {"127.0.0.1", "172.17.0.1"}
    addresses |= {
        found[4][0] for found in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
    }
    with socket.create_server(("0.0.0.0", 0)) as listener:
        port = listener.getsockname()[1]
        for host in sorted(addresses):
            assert reached(server, host, port) != "in", host
        with socket.create_connection(("127.0.0.1", port), timeout=2):
            pass  # it does listen


def test_there_is_no_interface_but_loopback(server: Container) -> None:
    interfaces = server.check("cat", "/proc/net/dev").decode().splitlines()[2:]
    assert [line.split(":")[0].strip() for line in interfaces] == ["lo"]


def test_its_own_files_cannot_be_written_not_even_by_root(server: Container) -> None:
    for place in ("/etc/passwd", "/usr/bin/git", "/new"):
        ran = server.exec("sh", "-c", f"echo x >> {place}", user="0:0")
        assert ran.code != 0, place
        assert b"Read-only file system" in ran.errors


def test_root_inside_has_no_capability_and_gains_none(server: Container) -> None:
    status = server.exec("cat", "/proc/self/status", user="0:0").text
    found = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(found[name], 16) == 0, name
    assert found["NoNewPrivs"] == "1"
    assert found["Seccomp"] == "2"


@pytest.mark.parametrize(
    "attempt",
    [
        "mount -t tmpfs none /tmp",
        "mknod /tmp/disk b 254 0",
        "chroot / true",
        "ip link add x type dummy || unshare -n true",
        "kill -9 1; chown 1:1 /tmp; false",
        "dmesg",
        "echo 1 > /proc/sys/kernel/panic",
    ],
)
def test_what_needs_a_privilege_is_refused(server: Container, attempt: str) -> None:
    assert server.exec("sh", "-c", attempt, user="0:0").code != 0
    assert not server.has_ended()


def test_a_server_that_was_taken_over_cannot_lead_its_port_to_the_engine(
    run: Callable[[Spec], Container],
) -> None:
    container = run(echo())
    port = container.forward("echo")
    container.check("ln", "-sf", "/var/run/docker.sock", f"{SOCKETS}/echo")
    assert container.socket("echo").is_socket()  # on this machine it is the engine's
    with (
        socket.create_connection(("127.0.0.1", port), timeout=5) as connection,
        contextlib.suppress(OSError),
    ):
        connection.sendall(b"GET /version HTTP/1.0\r\n\r\n")
        assert connection.recv(100) == b""
    with pytest.raises(OSError, match="not a socket"):
        container.connect("echo")


def test_there_is_no_way_to_the_engine_nor_to_this_machines_files(server: Container) -> None:
    found = server.exec("sh", "-c", "find / -xdev -type s 2>/dev/null; find /run -type s").text
    assert set(found.split()) == {f"{SOCKETS}/echo"}
    mounts = server.check("cat", "/proc/self/mountinfo").decode().splitlines()
    bound = {line.split()[4] for line in mounts if "/var/lib/docker" not in line.split(" - ")[0]}
    assert not {
        place for place in bound if place.startswith(("/home", "/root", "/srv", "/var/run"))
    }


def test_a_folder_shared_for_reading_cannot_be_written(
    run: Callable[[Spec], Container], tmp_path: Path
) -> None:
    (tmp_path / "seed").write_text("as it was")
    container = run(echo(shared=(Shared(tmp_path, "/seed"),)))
    assert container.check("cat", "/seed/seed") == b"as it was"
    assert container.exec("sh", "-c", "echo x > /seed/seed", user="0:0").code != 0
    assert (tmp_path / "seed").read_text() == "as it was"


# ---------------------------------------------------------------- more than its share


def test_a_fork_bomb_stays_within_the_limit_of_processes(run: Callable[[Spec], Container]) -> None:
    container = run(echo(processes=32))
    ran = container.exec(
        "perl",
        "-e",
        "my $n = 0; while (defined(my $p = fork)) { $n++; $p or sleep 5, exit } print $n",
    )
    assert ran.code == 0
    assert int(ran.text) < 32
    assert len(container.processes() or ()) <= 32


def test_a_memory_hog_is_killed_and_the_server_is_not(run: Callable[[Spec], Container]) -> None:
    container = run(echo(memory_bytes=48 * MEBIBYTE))
    ran = container.exec("perl", "-e", 'my $x = "x" x (512 * 1024 * 1024); print length $x')
    assert ran.code == 137
    assert asked(container.forward("echo")) == "heard hello\n"


def test_what_is_written_in_memory_is_bounded(run: Callable[[Spec], Container]) -> None:
    container = run(echo(memory_folders={"/tmp": "size=4m"}, memory_bytes=48 * MEBIBYTE))
    ran = container.exec("sh", "-c", "head -c 200000000 /dev/zero > /tmp/flood")
    assert b"No space left" in ran.errors
    # The folder of sockets is this machine's; what is written there counts against the container.
    container.exec("sh", "-c", f"head -c 200000000 /dev/zero > {SOCKETS}/flood")
    assert container.socket("flood").stat().st_size < 48 * MEBIBYTE


# ---------------------------------------------------------------- nothing stays


def test_removing_leaves_no_volume_no_folder_and_may_be_done_again(engine: Engine) -> None:
    container = engine.run(echo(volumes=("/srv/kept",)))
    container.check("ls", "/srv/kept")
    [volume] = container._volumes
    folder = container.socket("x").parent
    container.remove()
    container.remove()
    assert not folder.exists()
    assert volume.name not in {v["Name"] for v in engine.api.volumes()["Volumes"] or ()}


def test_a_container_that_cannot_start_leaves_nothing_and_says_why(engine: Engine) -> None:
    before = left_of(engine, image_tag("git"))
    with pytest.raises(SandboxError, match=r"echo: the container cannot be started: .*no-such"):
        engine.run(Spec(image_tag("git"), "echo", ("no-such-program",), volumes=("/srv/kept",)))
    with pytest.raises(SandboxError, match="image statediff-none:0 is not there; make it with"):
        engine.run(Spec("statediff-none:0", "echo", volumes=("/srv/kept",)))
    assert left_of(engine, image_tag("git")) == before


def test_a_server_that_ends_at_once_is_told_with_its_last_words(engine: Engine) -> None:
    container = engine.run(Spec(image_tag("git"), "broken", ("sh", "-c", "echo no disk; exit 3")))
    try:
        with pytest.raises(SandboxError, match="broken: its server ended: no disk"):
            container.await_ready(lambda: False, 10.0)
    finally:
        container.remove()


@pytest.mark.parametrize("code", [0, 3])
def test_what_a_server_wrote_is_kept_only_if_it_ended_well(engine: Engine, code: int) -> None:
    wait = f"touch {SOCKETS}/up; while :; do sleep 0.1; done"
    program = f"trap 'echo whole > /srv/kept/it; exit {code}' TERM; {wait}"
    container = engine.run(
        Spec(image_tag("git"), "server", ("sh", "-c", program), volumes=("/srv/kept",))
    )
    try:
        container.await_ready(container.socket("up").exists)
        volume = container.ended()
    finally:
        container.remove()
    assert (volume is not None) == (code == 0)
    if volume is None:
        return
    try:
        for _ in range(2):  # what one writes the next does not see
            other = engine.run(
                Spec(image_tag("git"), "other", ("sleep", "600"), over={"/srv/kept": volume})
            )
            try:
                assert other.check("cat", "/srv/kept/it") == b"whole\n"
                other.check("sh", "-c", "echo mine > /srv/kept/it", user="0")
            finally:
                other.remove()
    finally:
        engine.api.remove_volume(volume.name)


def test_a_server_over_a_volume_that_somebody_starts_again_was_ended_by_others(
    engine: Engine,
) -> None:
    base = plain_volume(engine.api, engine.labels)
    try:
        program = f"trap 'exit 0' TERM; touch {SOCKETS}/up; while :; do sleep 0.1; done"
        container = engine.run(
            Spec(image_tag("git"), "server", ("sh", "-c", program), over={"/srv/kept": base})
        )
        try:
            container.await_ready(container.socket("up").exists)
            with pytest.raises(DockerException):
                engine.api.restart(container.id, timeout=5)
            assert container.has_ended()
            assert "could not be started again" in str(container.ended_by_others())
        finally:
            container.remove()
    finally:
        engine.api.remove_volume(base.name)


EVALUATOR = textwrap.dedent("""
    import sys, time
    from statediff_containers.engine import connect, Spec
    from statediff_containers.engine import plain_volume
    engine = connect()
    engine.run(Spec(sys.argv[1], "left", ("sleep", "600"), volumes=("/srv/kept",)))
    base = plain_volume(engine.api, engine.labels)
    engine.run(Spec(sys.argv[1], "left", ("sleep", "600"), over={"/srv/kept": base}))
    engine.api.create_network("left-" + str(engine.owner.pid), internal=True, labels=engine.labels)
    print(engine.owner.label, flush=True)
    time.sleep(600)
""")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_nothing_outlives_an_evaluator(engine: Engine, number: signal.Signals) -> None:
    with evaluator() as process:
        assert process.stdout is not None
        owner = process.stdout.readline().strip()
        # Two containers, the volume of one, the other's three and the one below, network, folder.
        assert len(things_of(engine, owner)) == 9
        process.send_signal(number)
        process.wait()
    assert awaited(lambda: not things_of(engine, owner)), things_of(engine, owner)


def evaluator() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", EVALUATOR, image_tag("git")], stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip


def test_the_reaper_removes_what_a_dead_owner_left_and_nothing_else(engine: Engine) -> None:
    alive = engine.run(echo())
    with subprocess.Popen(["/bin/true"]) as gone:
        dead = Owner(gone.pid, 1, engine.owner.namespace, engine.owner.boot)
    left = Engine(dead)
    left._watch = lambda: None  # type: ignore[method-assign]  # nobody waits for it
    foreign = engine.api.create_container(image_tag("git"), ["true"], labels={"someone": "else"})
    try:
        left.run(echo(volumes=("/srv/kept",)))
        assert len(things_of(engine, dead.label)) == 3
        with ThreadPoolExecutor(4) as several:  # evaluators that start at the same time
            found = [labels for labels in several.map(lambda _: engine.reap(), range(4)) if labels]
        assert (dead.label,) in found or any(dead.label in labels for labels in found)
        assert things_of(engine, dead.label) == []
        assert not alive.has_ended()
        assert engine.api.inspect_container(foreign["Id"])
    finally:
        left.remove_of(dead.label)
        engine.api.remove_container(foreign["Id"], force=True)
        alive.remove()


def test_twenty_containers_run_at_once_and_keep_apart(engine: Engine) -> None:
    made: list[Container] = []
    networks = {str(Path("/proc/self/ns/net").readlink())}
    lock = threading.Lock()

    def one(number: int) -> str:
        container = engine.run(echo())
        with lock:
            made.append(container)
        container.await_ready(lambda: container.socket("echo").exists())
        container.check("sh", "-c", f"test ! -e /tmp/mine && echo {number} > /tmp/mine")
        assert said(container, "cat", "/tmp/mine") == str(number)
        with lock:
            networks.add(said(container, "readlink", "/proc/1/ns/net"))
        return asked(container.forward("echo"), str(number))

    try:
        with ThreadPoolExecutor(20) as several:
            assert list(several.map(one, range(20))) == [f"heard {n}\n" for n in range(20)]
        assert len({container.id for container in made}) == 20
        assert len(networks) == 21, "each its own, and none this machine's"
    finally:
        with ThreadPoolExecutor(20) as several:
            list(several.map(Container.remove, made))


def said(container: Container, *command: str) -> str:
    """The output of a program; asked again where the engine, with much to do, has lost it."""
    for _ in range(5):
        if output := container.check(*command).decode().strip():
            return output
    raise AssertionError(f"{command[0]} printed nothing")


def test_a_file_of_the_image_is_read_whole_and_what_is_none_is_refused(engine: Engine) -> None:
    container = engine.run(echo())
    try:
        content = container.read("/usr/bin/perl")
        told = said(container, "sha256sum", "/usr/bin/perl").split()[0]
        assert hashlib.sha256(content).hexdigest() == told
        for path in ("/etc", "/no-such-file"):
            with pytest.raises(SandboxError, match=f"{path} cannot be read"):
                container.read(path)
    finally:
        container.remove()


def test_a_reaper_that_was_killed_is_replaced(engine: Engine) -> None:
    engine.run(echo()).remove()
    first = engine._reaper
    assert first is not None
    os.kill(first.pid, signal.SIGKILL)
    os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)
    engine.run(echo()).remove()
    second = engine._reaper
    assert second is not None
    assert second.pid != first.pid
    assert Path(f"/proc/{second.pid}/cmdline").read_bytes().count(b"reaper.py") == 1


@pytest.mark.parametrize(
    ("program", "strike", "told"),
    [
        ("sleep 600", "kill", "its server ended"),
        ("sleep 600", "restart", "its server ended and was started again"),
        ("sleep 600", "remove", "its container was removed"),
        ("$SIG{TERM} = sub { exit 0 }; sleep 600", "term", "its server ended"),
        ('unpack("p", pack("J", 8))', "", None),  # a fault of memory
        ("exit 3", "", None),
        ('$n = 1e9; $x = "x" x $n', "", None),  # more memory than there is
    ],
)
def test_who_ended_a_server_is_told_from_a_server_that_ended_itself(
    engine: Engine, program: str, strike: str, told: str | None
) -> None:
    up = f'open my $up, ">", "{SOCKETS}/up"; close $up; {program};'
    container = engine.run(
        Spec(image_tag("git"), "server", ("perl", "-e", up), memory_bytes=32 * MEBIBYTE)
    )
    try:
        container.await_ready(container.socket("up").exists)
        if strike:
            assert container.ended_by_others() is None
        match strike:
            case "kill":
                engine.api.kill(container.id)
            case "term":
                container.exec("sh", "-c", "kill -TERM 1")
            case "restart":
                engine.api.restart(container.id, timeout=0)
            case "remove":
                engine.api.remove_container(container.id, force=True)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not container.has_ended():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert container.ended_by_others() == told
    finally:
        container.remove()


def test_a_server_that_ends_slowly_is_waited_for(engine: Engine) -> None:
    program = (
        "use IO::Socket::UNIX;"
        f'my $door = IO::Socket::UNIX->new(Local => "{SOCKETS}/up", Listen => 9);'
        "$SIG{TERM} = sub { close $door; sleep 2; exit 1 };"
        f'while (my $client = $door->accept) {{ print $client "heard"; }}'
    )
    container = engine.run(Spec(image_tag("git"), "server", ("perl", "-e", program)))
    try:
        container.await_ready(container.socket("up").exists)
        assert container.ended_by_others("up") is None
        container.exec("sh", "-c", "kill -TERM 1")
        assert container.ended_by_others("up") is None, "it ended itself, as its code says"
        assert container.has_ended()
    finally:
        container.remove()


def test_what_died_in_it_is_dying_until_its_parent_knows(engine: Engine) -> None:
    program = (
        "$SIG{USR1} = sub { wait }; fork or sleep 600;"
        f'open my $up, ">", "{SOCKETS}/up"; close $up; sleep 1 while 1'
    )
    container = engine.run(Spec(image_tag("git"), "server", ("perl", "-e", program)))
    try:
        container.await_ready(container.socket("up").exists)
        life = Life.of(engine.api, container.id)
        assert not life.has_dying()
        container.exec("sh", "-c", "kill -9 -1")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not life.has_dying():  # it dies as soon as it is given the processor
            assert time.monotonic() < deadline
            time.sleep(0.01)
        container.exec("sh", "-c", "kill -USR1 1")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while life.has_dying():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert not container.has_ended()
    finally:
        container.remove()
