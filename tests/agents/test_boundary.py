"""An isolated program finds nothing of the machine, of the evaluator or of another trial.

As root and as an ordinary user; each test sets up what there would be to find, and shows that it is
found without isolation where that is cheap.
"""

import contextlib
import ctypes
import http.server
import json
import os
import shlex
import smtplib
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from statediff.agents import isolation as isolating
from statediff.agents.command import CommandAgent
from statediff.agents.isolation import NONE, boundary, isolation
from statediff.agents.trial import AgentRun, Trial
from statediff.capture.source import clock
from statediff.errors import UsageError
from statediff.evidence.package import load
from statediff.harness import Hooks
from statediff.kernel import replay
from statediff.model.verdict import Verdict
from statediff.packs import sandbox_pack
from statediff.reports.line import trial_line
from statediff.systems.base.sandbox import EmbeddedSandbox
from tests.agents.test_isolation import CONTRACT, judged, receipt
from tests.tasks import live_trial
from tests.tasks import running as running  # noqa: PLC0414 - a fixture
from tests.tasks import shop as shop  # noqa: PLC0414 - a fixture

BEST = isolation()
pytestmark = pytest.mark.skipif("namespaces" not in BEST, reason="no namespaces here")
FOUND = """
import contextlib, ctypes, os, pathlib, socket, sys
found = []
def tried(name, act):
    with contextlib.suppress(OSError):
        if act():
            found.append(name)
"""


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    folder = tmp_path / "agent"
    folder.mkdir()
    return Trial("do it", {}, {}, folder, folder / "answer.json", folder / "trace.jsonl")


def run(trial: Trial, code: str, kind: str = BEST, **known: object) -> AgentRun:
    program = (sys.executable, "-S", "-c", FOUND + textwrap.dedent(code) + "\nprint(*found)")
    return CommandAgent(program, 60.0, isolation=kind, **known).run(trial, clock)  # type: ignore[arg-type]


@contextlib.contextmanager
def served() -> Iterator[int]:
    """The port of an HTTP server that says `hello`."""

    class Hello(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 200

    with Server(("127.0.0.1", 0), Hello) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_a_program_that_scans_this_machines_ports_finds_the_trials_own(trial: Trial) -> None:
    with served() as own, served() as other:
        trial.urls["api"] = f"http://127.0.0.1:{own}/"  # type: ignore[index]
        code = """
        for port in range(1, 1 << 16):
            with socket.socket() as probe:
                is_there = probe.connect_ex(("127.0.0.1", port)) == 0
                if is_there and probe.getsockname() != probe.getpeername():  # not itself
                    found.append(port)
        """
        scanned = run(trial, code)
        assert scanned.stdout.text == f"{own}\n", scanned.stderr.text
        assert scanned.endpoints == (f"127.0.0.1:{own}",)
        code = f"tried({other}, lambda: socket.create_connection(('127.0.0.1', {other})))"
        bare = run(trial, code, NONE)
        assert bare.stdout.text == f"{other}\n"


def test_what_leads_outside_carries_bytes_as_they_are_both_ways(trial: Trial) -> None:
    code = """
    import urllib.request
    body = os.urandom(3_000_000)
    with urllib.request.urlopen(os.environ["STATEDIFF_API_URL"], body) as answer:
        assert answer.read() == body
    with urllib.request.urlopen(f"http://localhost:{os.environ['OTHER']}/") as answer:
        found.append(answer.read().decode())
    """
    with served() as own, served() as other:
        trial.urls["api"] = f"http://127.0.0.1:{own}/"  # type: ignore[index]
        done = run(
            trial, code, network=(f"localhost:{other}",), environment=(("OTHER", str(other)),)
        )
        assert (done.stdout.text, done.error) == ("hello\n", None), done.stderr.text
        assert set(done.endpoints) == {f"127.0.0.1:{own}", f"localhost:{other}"}
        for _ in range(3):  # nothing of a connection is left that many of them would fill
            many = run(
                trial,
                f"""
                lines = [socket.create_connection(("127.0.0.1", {own})) for _ in range(150)]
                for line in lines:
                    line.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
                found.append(sum(line.recv(9) == b"HTTP/1.0 " for line in lines))
                """,
            )
            assert many.stdout.text == "150\n", many.stderr.text


def test_a_name_leads_to_the_host_that_the_machine_knows(trial: Trial) -> None:
    name = socket.gethostname()
    try:
        with socket.create_server((name, 0)) as server:
            port = server.getsockname()[1]
            code = f"tried('reached', lambda: socket.create_connection(({name!r}, {port})))"
            done = run(trial, code, network=(f"{name}:{port}",))
            assert done.stdout.text == "reached\n", done.stderr.text
            assert run(trial, code).stdout.text == "\n"
    except OSError:
        pytest.skip("this machine does not know its own name")


def test_what_is_asked_for_in_vain_is_named(trial: Trial) -> None:
    code = """
    def vain(*where):
        with contextlib.suppress(OSError):
            socket.create_connection(where, timeout=5)
            found.append(where)
    vain("api.example.com", 443)
    vain("192.0.2.7", 8080)
    vain("127.0.0.1", 9)
    vain("no\\nname\\x1b[2J.example", 1)
    with socket.create_server(("127.0.0.1", 8080)) as own:  # its own are no matter of ours
        socket.create_connection(("127.0.0.1", 8080)).close()
    """
    done = run(trial, code)
    assert (done.error, done.stdout.text) == (None, "\n"), done.stderr.text
    assert done.refused[:2] == ("api.example.com", "192.0.2.7:8080")
    assert all(each.isprintable() and "127" not in each for each in done.refused)
    failed = run(trial, code + "raise SystemExit(3)")
    assert "127.0.0.1:9" in failed.refused
    with pytest.raises(UsageError, match="expected HOST:PORT"):
        run(trial, "", network=("api.example.com",))


def test_no_terminal_of_anybody_is_reached(trial: Trial) -> None:
    ours, theirs = os.openpty()
    try:
        done = run(
            trial,
            f"""
            tried("terminal", lambda: open({os.ttyname(theirs)!r}, "w").write("MATCH 11 of 11"))
            found += [n for n in os.listdir("/dev/pts") if n != "ptmx"]
            master, slave = os.openpty()
            found.append(os.ttyname(slave))  # one of its own works
            tried("typed", lambda: __import__("fcntl").ioctl(slave, 0x5412, b"x") or True)
            """,
        )
        assert done.stdout.text == "/dev/pts/0\n", done.stderr.text
        os.set_blocking(ours, False)
        with pytest.raises(BlockingIOError):
            os.read(ours, 100)
    finally:
        os.close(ours)
        os.close(theirs)


def test_an_isolated_program_that_is_watched_has_no_terminal(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"t": [{"id": 1}]}')
    ours, theirs = os.openpty()
    program = "import os; print('terminal', *map(os.isatty, range(3)))"
    done = subprocess.run(
        (sys.executable, "-m", "statediff", "watch", "--state", "a.json", "--isolate", "--settle",
         "0", "--", sys.executable, "-S", "-c", program),
        stdin=theirs, capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    os.close(ours)
    os.close(theirs)
    assert "terminal False False False" in done.stderr


def test_shared_memory_queues_and_sockets_without_a_file_are_not_seen(trial: Trial) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    segment = libc.shmget(0x5D1FF, 4096, 0o1666)
    file = Path(f"/dev/shm/statediff-test-{os.getpid()}")
    file.write_text("x")
    code = f"""
    libc = ctypes.CDLL(None)
    def reached(place):
        socket.socket(socket.AF_UNIX).connect(place)
        return True
    tried("segment", lambda: libc.shmget(0x5D1FF, 4096, 0) >= 0)
    tried("memory", lambda: any("statediff" in n for n in os.listdir("/dev/shm")))
    tried("abstract", lambda: reached("\\0statediff-{os.getpid()}"))
    tried("path", lambda: reached({str(trial.folder.parent / "s")!r}))
    tried("listed", lambda: "statediff-{os.getpid()}" in open("/proc/net/unix").read())
    """
    try:
        with socket.socket(socket.AF_UNIX) as abstract, socket.socket(socket.AF_UNIX) as named:
            abstract.bind(f"\0statediff-{os.getpid()}")
            abstract.listen()
            named.bind(str(trial.folder.parent / "s"))
            named.listen()
            done, bare = run(trial, code), run(trial, code, NONE)
    finally:
        file.unlink()
        libc.shmctl(segment, 0, None)
    assert done.stdout.text == "\n", done.stderr.text
    assert bare.stdout.text == "segment memory abstract path listed\n"


def test_the_kernels_keys_are_no_memory_between_trials(trial: Trial) -> None:
    if boundary(BEST)["keyring"] != "held":
        pytest.skip("the calls of this machine are not known")
    code = """
    libc = ctypes.CDLL(None)
    numbers = (248, 249, 250) if os.uname().machine == "x86_64" else (217, 218, 219)
    for keyring in (-3, -4, -5):
        if libc.syscall(numbers[0], b"user", b"statediff", b"x", 1, keyring) >= 0:
            found.append("kept")
    if libc.syscall(numbers[1], b"user", b"statediff", None, -4) >= 0:
        found.append("had")
    tried("listed", lambda: open("/proc/keys").read())
    """
    done = run(trial, code)
    assert (done.stdout.text, done.error) == ("\n", None), done.stderr.text


def test_the_kernels_own_machinery_is_out_of_reach(trial: Trial) -> None:
    done = run(
        trial,
        """
        libc = ctypes.CDLL(None, use_errno=True)
        for name, act in {
            "namespace": lambda: libc.unshare(0x10000000),
            "mount": lambda: libc.mount(b"x", b"/tmp", b"tmpfs", 0, None),
            "ring": lambda: libc.syscall(425, 8, ctypes.create_string_buffer(512)),
            "root": lambda: libc.prctl(22, 2, None, 0, 0),
        }.items():
            if act() >= 0:
                found.append(name)
        for place in ("sys/kernel/panic", "sys/vm/drop_caches", "sysrq-trigger", "1/mem", "kcore"):
            tried(place, lambda: open(f"/proc/{place}", "r+b").close() or True)
        tried("disk", lambda: [n for n in os.listdir("/dev") if n.startswith(("sd", "vd", "nvme"))])
        for family in (16, 17, 38, 40):
            tried(family, lambda: socket.socket(family, socket.SOCK_RAW, 15))
        import subprocess, threading  # what programs do need goes on
        subprocess.run(["true"], check=True)
        thread = threading.Thread(target=found.append, args=("thread",))
        thread.start()
        thread.join()
        """,
    )
    assert done.stdout.text == "thread\n", done.stderr.text


def test_parents_and_what_they_have_open_are_not_seen(trial: Trial) -> None:
    with (trial.folder.parent / "open").open("w") as file:
        done = run(
            trial,
            f"""
            for pid in [n for n in os.listdir("/proc") if n.isdigit()]:
                tried(pid, lambda: int(pid) not in (1, os.getpid()))
                if int(pid) != os.getpid():
                    with contextlib.suppress(OSError):
                        for number in os.listdir(f"/proc/{{pid}}/fd"):
                            tried(number, lambda: os.readlink(f"/proc/{{pid}}/fd/{{number}}"))
                    tried("root", lambda: os.listdir(f"/proc/{{pid}}/root"))
            tried("inherited", lambda: len(os.listdir("/proc/self/fd")) > 4)
            tried("file", lambda: os.readlink("/proc/self/fd/{file.fileno()}") == {file.name!r})
            """,
        )
    assert done.stdout.text == "\n", done.stderr.text


def limited(monkeypatch: pytest.MonkeyPatch, **most: int) -> None:
    monkeypatch.setattr(isolating, "_LIMITS", {**isolating._LIMITS, **most})


def test_memory_processes_and_files_have_a_limit(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(monkeypatch, memory=256 << 20, processes=100, open_files=64, file_size=1 << 20)
    alone = run(
        trial,
        """
        def grown():
            try:
                return bytearray(300 << 20)
            except MemoryError:
                return None
        tried("memory", grown)
        tried("files", lambda: [open("/dev/null") for _ in range(100)])
        tried("size", lambda: pathlib.Path("big").write_bytes(bytes(2 << 20)))
        tried("at once", lambda: os.posix_fallocate(os.open("big", os.O_RDWR), 0, 2 << 20) or True)
        """,
    )
    assert (alone.stdout.text, alone.error) == ("\n", None), alone.stderr.text
    together = run(
        trial,
        """
        import mmap, time
        for _ in range(4):
            if os.fork() == 0:
                shared = mmap.mmap(-1, 100 << 20)  # no process has more than it may
                for at in range(0, 100 << 20, 4096):
                    shared[at] = 1
                time.sleep(60)
        time.sleep(60)
        """,
    )
    assert together.error == "the agent took more than 256 MiB of memory and was stopped"
    crowd = run(
        trial,
        """
        import time
        with contextlib.suppress(OSError):
            for _ in range(200):
                if os.fork() == 0:
                    time.sleep(60)
        time.sleep(2)
        """,
    )
    if os.geteuid() == 0:  # the kernel's own limit does not bind root
        assert crowd.error == (
            "the agent ran more than 100 processes and threads at once and was stopped"
        )
    assert not crowd.is_at_large


FILLING = """
import itertools, os, sqlite3, sys
with sqlite3.connect(os.environ["STATEDIFF_SHOP_DB_URL"].removeprefix("sqlite:///")) as database:
    database.execute("DELETE FROM notes WHERE id = 901")
database.close()
file = os.open("big", os.O_CREAT | os.O_WRONLY)
act = {
    "at-once": lambda n: os.posix_fallocate(file, n << 20, 1 << 20),
    "many": lambda n: open(str(n), "w").close(),
}.get(sys.argv[1], lambda _: os.write(file, bytes(1 << 16)))
if sys.argv[1] == "nameless":
    os.unlink("big")
for number in itertools.count():  # as fast as it can, whatever fails
    try:
        act(number)
    except OSError:
        if sys.argv[1] == "ends":
            break
"""
SMALL_DISK = """
mount -t tmpfs -o size=96m,nr_inodes=4000 x disk && mkdir disk/tmp && cd disk && "$@"
cp -r out/*/trials ..
"""


@pytest.mark.slow
@pytest.mark.timeout(600)  # five trials, also on a busy machine
def test_who_fills_the_disk_is_stopped_and_keeps_no_verdict_from_anybody(tmp_path: Path) -> None:
    apart = ("unshare", "--user", "--map-root-user", "--mount")
    if subprocess.run((*apart, "true"), check=False, capture_output=True).returncode:
        pytest.skip("no disk can be made here")
    (tmp_path / "disk").mkdir()
    (tmp_path / "fill.py").write_text(FILLING)
    program = shlex.join((sys.executable, "-S", str(tmp_path / "fill.py")))
    ways = ("writes", "at-once", "nameless", "many", "ends")
    done = subprocess.run(
        (*apart, "sh", "-c", SMALL_DISK, "sh", sys.executable, "-m", "statediff", "run",
         "shop/refund-returned-order", "--out", "out", "--json",
         *(word for each in ways for word in ("--agent-cmd", f"{each}={program} {each}"))),
        capture_output=True, text=True, check=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
             "TMPDIR": str(tmp_path / "disk" / "tmp")},
    )  # fmt: skip
    *trials, _ = map(json.loads, done.stdout.splitlines())
    assert {each["agent"]: each["verdict"] for each in trials} == dict.fromkeys(ways, "DIVERGE")
    errors = [each["agent_error"] for each in trials if each["agent"] != "ends"]
    assert errors == ["the agent filled the disk and was stopped"] * 4, done.stderr
    assert not any("not_kept" in each for each in trials)
    for bundle in (tmp_path / "trials").glob("*/bundle"):
        assert replay(load(bundle)).verdict is Verdict.DIVERGE


def mailing(port: int) -> CommandAgent:
    """An agent that writes to whoever takes mail at the port."""
    code = f"""
    import contextlib, smtplib
    with contextlib.suppress(OSError), smtplib.SMTP("127.0.0.1", {port}) as other:
        other.sendmail("a@example.com", ["b@example.com"], "Subject: x\\n\\nx")
    open(__import__("os").environ["STATEDIFF_TRACE"], "w")
    """
    return CommandAgent((sys.executable, "-c", textwrap.dedent(code)), 60.0, isolation=BEST)


def test_what_one_trial_sends_to_anothers_mail_by_a_guessed_port_does_not_arrive(
    shop: EmbeddedSandbox, tmp_path: Path
) -> None:
    """Both verdicts are as alone."""
    with EmbeddedSandbox(sandbox_pack("shop"), tmp_path / "other") as other:
        ports = [
            int(each.access().urls["outbox"].rpartition(":")[2].strip("/"))
            for each in (shop, other)
        ]
        verdicts = []

        def meanwhile(_: object) -> None:
            mean = judged(other, mailing(ports[0]), tmp_path / "mean")
            verdicts.append(mean.evaluated.judgement)

        idle = CommandAgent((sys.executable, "-c", "pass"), 60.0, isolation=BEST)
        hooks = Hooks(before_capture_after=meanwhile)
        honest = live_trial(shop, CONTRACT, idle, tmp_path / "honest", hooks=hooks)
        verdicts.append(honest.evaluated.judgement)
        found = [finding for each in verdicts for finding in each.findings if finding.deltas]
        assert not found
        own = judged(other, mailing(ports[1]), tmp_path / "own")
        assert own.evaluated.judgement.verdict is Verdict.DIVERGE  # the trial's own is reached
        with smtplib.SMTP("127.0.0.1", ports[0]) as line:  # and the other's was open all the time
            assert line.noop()[0] == 250


SCANNING = """
import contextlib, os, re, smtplib, socket, time
own = {int(port) for name, url in os.environ.items() if name.endswith("_URL")
       for port in re.findall(r"://[^/]*:([0-9]+)", url)}
until, found = time.monotonic() + 3, set()
while not found or time.monotonic() < until:
    for port in range(1, 1 << 16):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) or probe.getsockname() == probe.getpeername():
                continue
        found.add(port)
        with contextlib.suppress(OSError), smtplib.SMTP("127.0.0.1", port, timeout=5) as sink:
            if port not in own:
                sink.sendmail("a@example.com", ["b@example.com"], "Subject: x\\n\\nx")
print("own", own == found, "others", *sorted(found - own))
"""
QUIET = """
contract: notes/send-nothing
version: 1.0.0
owner: support
sandbox: shop
intent: Do nothing.
noop: true
forbid: [{id: kept, delete: note}]
"""


@pytest.mark.slow
@pytest.mark.parametrize("ways", [("-j", "2"), ("-j", "2", "--scheduler", "local")], ids=" ".join)
def test_two_trials_at_once_that_write_to_any_port_they_find_end_as_alone(
    ways: tuple[str, ...], tmp_path: Path
) -> None:
    """Neither finds the other's mail sink, nor a worker or the scheduler of a cluster."""
    if "--scheduler" in ways:
        pytest.importorskip("distributed")
    (tmp_path / "quiet.yaml").write_text(QUIET)
    (tmp_path / "scan.py").write_text(SCANNING)
    command = shlex.join((sys.executable, "scan.py"))
    done = subprocess.run(
        (sys.executable, "-m", "statediff", "run", "quiet.yaml", "--agent-cmd", command, "-k", "2",
         "--out", "out", *ways),
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    assert "2 trials: 2 MATCH" in done.stdout, done.stdout + done.stderr
    trials = list(tmp_path.glob("out/*/trials/*"))
    said = [json.loads((each / "agent.json").read_text())["stdout"]["text"] for each in trials]
    assert said == ["own True others\n"] * 2
    times = [json.loads((each / "timeline.json").read_text()) for each in trials]
    assert max(each["agent_started_at"] for each in times) < min(
        each["agent_finished_at"] for each in times
    )


def test_the_receipt_says_what_was_kept_apart_reached_and_asked_for(
    shop: EmbeddedSandbox, tmp_path: Path
) -> None:
    code = (
        "import socket\ntry: socket.create_connection(('api.example.com', 443))\nexcept OSError: 0"
    )
    done = judged(shop, CommandAgent((sys.executable, "-c", code), 60.0, isolation=BEST), tmp_path)
    said = receipt(done)
    assert said["boundary"] == boundary(BEST)
    assert said["boundary"]["network"] == "held"  # type: ignore[index]
    assert said["endpoints"] == ["the trial's own servers"]
    assert said["refused"] == ["api.example.com"]
    line = trial_line(done.evaluated.bundle)
    assert "the agent asked for api.example.com, which `network` does not name" in line
    bare = judged(shop, CommandAgent((sys.executable, "-c", "0"), 60.0), tmp_path / "bare")
    assert not {"boundary", "endpoints", "refused"} & receipt(bare).keys()


def test_without_namespaces_the_receipt_says_what_is_not_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    causes = {"namespaces": "refused", "landlock": None, "filter": "unknown machine"}
    monkeypatch.setattr(isolating, "_causes", lambda: causes)
    found = boundary("landlock")
    assert (found["files"], found["network"]) == ("held", "not held: refused")
    assert found["system calls"] == "not held: unknown machine"
    causes["namespaces"] = None
    assert boundary("landlock")["network"] == "not held: it was not asked for"
    assert boundary(NONE) == {}
