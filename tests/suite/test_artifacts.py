"""Copies of runs at a URL: whole, checked when they are read, and without anybody's secrets."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from statediff.errors import BundleError, StorageError, UsageError
from statediff.suite.artifacts import CopyPlace, check_url, url_in_path
from tests.cli.conftest import Call
from tests.cli.conftest import statediff as statediff  # noqa: PLC0414 - a fixture
from tests.suite.folders import Folders

ENDS = {"notes/close": ["MATCH", "DIVERGE", "fault"]}


@pytest.fixture(params=["file", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place that is empty."""
    if request.param == "file":
        return f"file://{tmp_path}/copies"
    MemoryFileSystem.store.clear()
    return "memory://copies/of-runs"


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_copy_comes_back_as_it_was_and_only_what_is_new_is_sent(
    folders: Folders, url: str, tmp_path: Path
) -> None:
    run = folders.run("r", ENDS)
    chunk = run / "chunks" / "ab" / "cdef.arrow"
    chunk.parent.mkdir(parents=True)
    chunk.write_bytes(b"rows")
    (run / "chunks" / ".leases").mkdir()
    place = CopyPlace(url)
    assert place.push(run).trials == 3
    again = place.push(run)
    assert (again.trials, again.files, again.bytes) == (0, 0, 0)
    label = run / "trials" / "notes-close-1" / "labels" / "0123.json"
    label.parent.mkdir()
    label.write_bytes(b"signed")
    place.push(run)
    assert place.fetch("r", tmp_path / "back").trials == 3
    assert tree(tmp_path / "back") == tree(run)
    with pytest.raises(UsageError, match="nothing is overwritten"):
        place.fetch("r", tmp_path / "back")


def test_a_trial_that_was_made_again_takes_the_place_of_its_copy(
    folders: Folders, url: str
) -> None:
    run = folders.run("r", ENDS)
    place = CopyPlace(url)
    place.push(run)
    shutil.rmtree(run / "trials" / "notes-close-2")
    folders.end(run, "notes/close", 2, "MATCH")
    place.push(run)
    assert place.bundle("r", "trials", "notes-close-2", "bundle").manifest["verdict"] == "MATCH"


def test_another_run_of_the_same_name_is_not_written_over(folders: Folders, url: str) -> None:
    run = folders.run("r", ENDS)
    CopyPlace(url).push(run)
    (run / "run.json").write_bytes((run / "run.json").read_bytes() + b"\n")
    with pytest.raises(UsageError, match="another run"):
        CopyPlace(url).push(run)


def test_a_copy_that_was_changed_or_cut_short_is_no_bundle(
    folders: Folders, tmp_path: Path
) -> None:
    run = folders.run("r", ENDS)
    place = CopyPlace(f"file://{tmp_path}/copies")
    place.push(run)
    where = ("r", "trials", "notes-close-1", "bundle")
    copy = tmp_path.joinpath("copies", *where)
    judged = (copy / "judgement.json").read_bytes()
    (copy / "judgement.json").write_bytes(judged.replace(b"MATCH", b"DIVERGE", 1))
    with pytest.raises(BundleError, match="digest is not the one in the manifest"):
        place.bundle(*where)
    (copy / "manifest.json").unlink()
    with pytest.raises(BundleError, match="expected a bundle, found none"):
        place.bundle(*where)
    place.push(run)
    assert place.bundle(*where).manifest["verdict"] == "MATCH"


@pytest.mark.parametrize(
    "name", ["trials/..\\x", "trials/a\x1b[2J/x", "trials/.ssh/id", "a/b/c/d/e/f/g", "trials/é"]
)
def test_a_hostile_name_in_a_copy_leads_nowhere(
    folders: Folders, tmp_path: Path, name: str
) -> None:
    run = folders.run("r", ENDS)
    place = CopyPlace(f"file://{tmp_path}/copies")
    place.push(run)
    hostile = tmp_path / "copies" / "r" / name
    hostile.parent.mkdir(parents=True, exist_ok=True)
    hostile.write_bytes(b"")
    with pytest.raises(StorageError, match="is no name in a run's folder") as refused:
        place.fetch("r", tmp_path / "back")
    assert "\x1b" not in str(refused.value)
    assert not (tmp_path / "back").exists()
    with pytest.raises(StorageError, match="is no name"):
        place.bundle("r", "trials", "..", "..", "bundle")


def test_a_link_is_neither_copied_nor_read(folders: Folders, tmp_path: Path) -> None:
    run = folders.run("r", ENDS)
    secret = tmp_path / "secret"
    secret.write_text("mine")
    (run / "trials" / "notes-close-1" / "agent.json").symlink_to(secret)
    place = CopyPlace(f"file://{tmp_path}/copies")
    place.push(run)
    assert not (tmp_path / "copies/r/trials/notes-close-1/agent.json").exists()
    (tmp_path / "copies/r/trials/notes-close-1/agent.json").symlink_to(secret)
    with pytest.raises(StorageError, match="holds a link"):
        place.fetch("r", tmp_path / "back")


@pytest.mark.parametrize(
    "wrong",
    [
        "s3://AKIA:hidden@bucket/runs", "https://host/runs?X-Amz-Signature=hidden", "hidden",
        "simplecache::s3://hidden/x", "file:///a/../hidden", "s3://hidden/*", "s3://", "://hidden",
        "file:///a/hidden\x1b[2J",
    ],
)  # fmt: skip
def test_a_url_that_holds_a_secret_or_is_none_is_refused_and_not_shown(wrong: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_url(wrong)
    assert "hidden" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_what_a_driver_says_is_told_without_what_the_environment_keeps(
    monkeypatch: pytest.MonkeyPatch, folders: Folders
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")

    def refuses(*_: object, **__: object) -> None:
        raise RuntimeError("signed with wJalrXUtnFEMI:\x1b[2J no")

    run = folders.run("r", ENDS)
    monkeypatch.setattr(MemoryFileSystem, "pipe", refuses)
    with pytest.raises(StorageError, match="RuntimeError") as told:
        CopyPlace("memory://copies/refusing").push(run)
    assert "wJalr" not in str(told.value)
    assert "\x1b" not in str(told.value)


def test_an_unknown_kind_of_place_says_what_is_missing() -> None:
    with pytest.raises(UsageError, match="nowhere"):
        CopyPlace("nowhere://bucket/x")


def test_a_folder_needs_no_fsspec_and_what_brings_it_is_named(
    monkeypatch: pytest.MonkeyPatch, folders: Folders, tmp_path: Path
) -> None:
    run = folders.run("r", ENDS)
    for name in [name for name in sys.modules if name.partition(".")[0] == "fsspec"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fsspec", None)
    place = CopyPlace(f"file://{tmp_path}/copies")
    place.push(run)
    place.fetch("r", tmp_path / "back")
    assert tree(tmp_path / "back") == tree(run)
    with pytest.raises(UsageError, match=r"pip install statediff\[data\]"):
        CopyPlace("s3://bucket/runs")


def test_only_what_begins_like_a_url_is_taken_for_one() -> None:
    assert url_in_path("s3:/bucket/x") == "s3://bucket/x"
    assert url_in_path("file:/srv/x") == "file:///srv/x"
    assert [url_in_path(each) for each in ("runs/x", "/srv/x", "c:/x", "a b:/x")] == [None] * 4


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The secret key that a store of S3 wants, which has a bucket; the environment holds it."""
    s3fs, moto = pytest.importorskip("s3fs"), pytest.importorskip("moto.server")
    running = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    for name, value in (
        ("AWS_ENDPOINT_URL", f"http://{host}:{port}"), ("AWS_ACCESS_KEY_ID", "k"),
        ("AWS_SECRET_ACCESS_KEY", "k"), ("AWS_DEFAULT_REGION", "us-east-1"),
        ("NO_PROXY", "127.0.0.1"), ("AWS_MAX_ATTEMPTS", "1"), ("AWS_EC2_METADATA_DISABLED", "true"),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
    session = pytest.importorskip("botocore.session").Session()
    iam = session.create_client("iam")
    iam.create_user(UserName="runner")
    key = iam.create_access_key(UserName="runner")["AccessKey"]
    every = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    allowed = json.dumps({"Version": "2012-10-17", "Statement": every})
    iam.put_user_policy(UserName="runner", PolicyName="all", PolicyDocument=allowed)
    session.create_client("s3").create_bucket(Bucket="bucket")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
    monkeypatch.setattr("moto.settings.INITIAL_NO_AUTH_ACTION_COUNT", 0)  # each is checked
    s3fs.S3FileSystem.clear_instance_cache()
    yield key["SecretAccessKey"]
    running.stop()


def test_a_run_is_copied_to_an_s3_compatible_store_as_it_goes_on(
    statediff: Call, secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = "def nothing(trial):\n    return None\n"
    (tmp_path / "an_idle_agent.py").write_text(agent)
    monkeypatch.syspath_prepend(str(tmp_path))
    made = statediff(
        "run", "shop/notify-once", "--agent", "an_idle_agent:nothing", "--artifacts",
        "s3://bucket/runs", "--json",
    )  # fmt: skip
    assert (made.code, made.err) == (1, "")
    (run,) = (tmp_path / "runs").glob("run-*")
    trial = f"s3://bucket/runs/{run.name}/trials/shop-notify-once-1/bundle"
    assert statediff("replay", trial).code == 1
    back = statediff("store", "fetch", f"s3://bucket/runs/{run.name}", "back")
    assert back.code == 0, back.err
    said = {k: v for k, v in tree(run).items() if "/." not in f"/{k}"}
    assert tree(tmp_path / "back") == said
    assert secret.encode() not in (tmp_path / ".statediff" / "store.sqlite").read_bytes()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret")
    pytest.importorskip("s3fs").S3FileSystem.clear_instance_cache()
    refused = statediff("store", "push", str(run), "s3://bucket/runs")
    assert (refused.code, "another-secret" in refused.err + refused.out) == (4, False)
