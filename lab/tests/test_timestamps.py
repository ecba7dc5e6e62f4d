"""Time stamps of a real authority: openssl's, with a certificate made for the test."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from statediff_lab.commands.conforming import read_vectors
from statediff_lab.witnesses import ask_time

from statediff.cli.main import run
from statediff.errors import BundleError, UsageError
from statediff.evidence import verify as v
from statediff.evidence.checkpoints import Checkpoint
from statediff.evidence.seal import Sealed, load, save
from statediff.evidence.timestamps import read_roots, request, stamped_at

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl on PATH")
SEEN = Checkpoint("example.com/verdicts", 3, bytes(range(32)), datetime.now(UTC), "Ada")
CONFIG = """
[tsa]
default_tsa = own
[own]
serial = {folder}/serial
signer_cert = {folder}/signer.pem
signer_key = {folder}/signer.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
accuracy = secs:1
ess_cert_id_chain = no
ess_cert_id_alg = sha256
[usage]
extendedKeyUsage = critical,timeStamping
keyUsage = critical,digitalSignature
[root]
basicConstraints = critical,CA:true
keyUsage = critical,keyCertSign
subjectKeyIdentifier = hash
"""


class Authority:
    """An authority in a folder; `root` is its root certificate."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "root.pem"
        folder.mkdir()
        (folder / "conf").write_text(CONFIG.format(folder=folder))
        (folder / "serial").write_text("01\n")
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-sha256")
        self.openssl(
            "req", "-x509", *key, "-keyout", "root.key", "-out", "root.pem", "-subj", "/CN=root",
            "-days", "2", "-config", "conf", "-extensions", "root",
        )  # fmt: skip
        self.openssl(
            "req", *key, "-keyout", "signer.key", "-out", "signer.csr", "-subj", "/CN=signer",
            "-config", "conf",
        )  # fmt: skip
        self.openssl(
            "x509", "-req", "-in", "signer.csr", "-CA", "root.pem", "-CAkey", "root.key", "-days",
            "2", "-extfile", "conf", "-extensions", "usage", "-out", "signer.pem",
            "-CAcreateserial",
        )  # fmt: skip

    def openssl(self, *words: str) -> None:
        (self.folder / "conf").write_text(
            "[req]\ndistinguished_name = who\n[who]\n" + CONFIG.format(folder=self.folder)
        )
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)

    def answer(self, query: bytes) -> bytes:
        (self.folder / "query").write_bytes(query)
        self.openssl("ts", "-reply", "-queryfile", "query", "-config", "conf", "-out", "reply")
        return (self.folder / "reply").read_bytes()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tsa") / "own")


@contextmanager
def served(authority: Authority) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            data = authority.answer(self.rfile.read(length))
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_an_authority_says_when_a_checkpoint_was_there(
    authority: Authority, tmp_path: Path
) -> None:
    with served(authority) as url:
        token = ask_time(url, request(SEEN))
    roots = read_roots(authority.root.read_bytes(), "roots")
    at = stamped_at(token, SEEN, roots)
    assert abs(at - datetime.now(UTC)) < timedelta(minutes=5)
    assert at.tzinfo is UTC
    other = Authority(tmp_path / "other")
    strangers = read_roots(other.root.read_bytes(), "roots")
    assert stamped_at(token, SEEN, (*strangers, *roots)) == at
    with pytest.raises(BundleError, match="does not count"):
        stamped_at(token, SEEN, strangers)
    longer = Checkpoint(SEEN.origin, 4, SEEN.root, SEEN.at, SEEN.signer)
    with pytest.raises(BundleError, match="does not count"):
        stamped_at(token, longer, roots)


def test_a_stamp_travels_inside_a_copy_and_counts_by_its_authority_alone(
    authority: Authority, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, trust = next(
        (f, t) for n, f, t, _ in read_vectors() if n.endswith("auditor-public-copy")
    )
    save(Sealed(files), tmp_path / "copy.zip")
    (tmp_path / "trust.json").write_bytes(trust)
    other = Authority(tmp_path / "other")

    def said(*words: str) -> tuple[int, str]:
        code = run([*words, "--trust", str(tmp_path / "trust.json")])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    copy, stamped = str(tmp_path / "copy.zip"), str(tmp_path / "stamped.zip")
    with served(authority) as url:
        assert said("attach", copy, "--authority", url, "--out", stamped)[0] == 0
    code, text = said("verify", stamped)
    assert (code, "by whom was not checked" in text) == (3, True)
    code, text = said("verify", stamped, "--authorities", str(authority.root))
    assert (code, "time stamp: 20" in text, "not checked" in text) == (3, True, False)
    code, text = said("verify", stamped, "--authorities", str(other.root))
    assert (code, "does not count" in text) == (4, True)
    token = load(Path(stamped)).files[v.STAMP]
    for place in (len(token) - 20, len(token) - 3):  # of the authority's signature
        changed = bytearray(token)
        changed[place] ^= 1
        forged = Sealed({**files, v.STAMP: bytes(changed)})
        (tmp_path / "forged.zip").write_bytes(forged.archive())
        code, text = said(
            "verify", str(tmp_path / "forged.zip"), "--authorities", str(authority.root)
        )
        assert (code, "does not count" in text) == (4, True)
    with served(other) as url:
        (tmp_path / "b").mkdir()
        again = str(tmp_path / "b" / "again.zip")
        assert said("attach", copy, "--authority", url, "--out", again)[0] == 0
    assert said("verify", again, "--authorities", str(authority.root))[0] == 4


def test_what_is_no_token_is_refused(authority: Authority) -> None:
    roots = read_roots(authority.root.read_bytes(), "roots")
    token = authority.answer(request(SEEN))
    for data in (b"", b"nonsense", token[:-10], b"x" * 300_000, token[: len(token) // 2]):
        with pytest.raises(BundleError, match="time stamp: "):
            stamped_at(data, SEEN, roots)
    for place in (len(token) // 2, len(token) - 20):
        changed = bytearray(token)
        changed[place] ^= 1
        with pytest.raises(BundleError, match="time stamp: "):
            stamped_at(bytes(changed), SEEN, roots)
    with pytest.raises(UsageError, match="no certificates"):
        read_roots(b"nothing", "roots")


def test_an_authority_that_is_none_is_said_so() -> None:
    with pytest.raises(UsageError, match="does not answer"):
        ask_time("http://127.0.0.1:9", b"")
