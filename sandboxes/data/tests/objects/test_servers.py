"""Remote places by URL, read from real servers: SFTP, FTP and Google Cloud Storage's protocol."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote, unquote

import pytest
from statediff_data.objects.source import ObjectsSource

import statediff
from sandboxes.data.tests.objects import servers
from sandboxes.data.tests.objects.servers import SECRET, Place
from statediff.errors import InputError
from statediff.model.state import MemoryChunks
from statediff.model.values import Unobserved
from statediff.workspace.inputs import offline_clock, one_capture
from tests.lines import NOTHING, verdict_where_the_line_is_cut

SFTP = pytest.param("sftp", marks=pytest.mark.servers("paramiko", "asyncssh"))
FTP = pytest.param("ftp", marks=pytest.mark.servers("pyftpdlib"))
GS = pytest.param("gs", marks=pytest.mark.servers("gcsfs", "gcp_storage_emulator"))
AZ = pytest.param(
    "az",
    marks=[
        pytest.mark.servers("adlfs"), pytest.mark.node, pytest.mark.slow,
        pytest.mark.timeout(700),  # npm may install the emulator first
    ],
)  # fmt: skip


async def _at_once(*_: object) -> None:
    await asyncio.sleep(0)


@pytest.fixture
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Place]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    # The driver asks Google over gRPC of which kind a bucket is; the emulator has no answer.
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    if request.param == "gs":  # what is gone is asked for six times, after a second and more each
        monkeypatch.setattr("gcsfs.retry.asyncio", SimpleNamespace(sleep=_at_once))
    if request.param == "az":  # the same: 80 seconds
        retrying = "azure.storage.blob._shared.policies_async.AsyncStorageRetryPolicy.sleep"
        monkeypatch.setattr(retrying, _at_once)
    with getattr(servers, request.param)(tmp_path) as running:
        running.write("in/a.txt", b"one")
        running.write("in/deep/b.bin", b"\x00\xff")
        running.write("other.txt", b"outside")
        yield running


def everywhere(*places: object) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("place", places, indirect=True)


def rows(url: str) -> dict[object, dict[str, object]]:
    capture = ObjectsSource("o", url).read(MemoryChunks(), offline_clock, None)
    return {key: dict(row) for (key,), row in capture.state.tables["object"].rows()}


@everywhere(SFTP, FTP, GS, AZ)
def test_what_is_there_is_read_with_its_content(place: Place) -> None:
    found = rows(place.url)
    folders = {"deep"} if place.folder else set()
    assert set(found) == {"a.txt", "deep/b.bin"} | folders
    assert {path for path, row in found.items() if row["kind"] == "directory"} == folders
    assert (found["a.txt"]["text"], found["a.txt"]["size"]) == ("one", 3)
    assert (found["deep/b.bin"]["text"], found["deep/b.bin"]["size"]) == (None, 2)
    stamps = found["a.txt"]["etag"], found["a.txt"]["version"]
    assert (stamps == (None, None)) == (place.folder is not None)


@everywhere(SFTP, FTP, GS, AZ)
def test_a_run_over_it_is_watched_and_one_that_did_nothing_matches(place: Place) -> None:
    with statediff.watch(NOTHING, o=place.url, settle_seconds=0) as idle:
        pass
    assert idle.judged is not None
    assert idle.judged.verdict.value == "MATCH", idle.judged.text()
    with statediff.watch(NOTHING, o=place.url, settle_seconds=0) as run:
        place.write("in/a.txt", b"two")  # of the same size, within the same second
        place.write("in/c.txt", b"new")
        place.remove("in/deep/b.bin")
    assert run.judged is not None
    assert run.judged.verdict.value == "DIVERGE"
    ops = {(d["op"], d["key"]) for d in run.changes}
    assert ops == {("update", "a.txt"), ("create", "c.txt"), ("delete", "deep/b.bin")}


@everywhere(SFTP, FTP, GS, AZ)
def test_a_place_that_is_not_there_and_a_server_that_is_not_are_no_empty_ones(place: Place) -> None:
    gone = place.url.replace("/in" if place.folder else "//bucket", "//nosuch", 1)
    for url in (gone, re.sub(r"127\.0\.0\.1(:|%3A)\d+", r"127.0.0.1\g<1>1", place.url)):
        with pytest.raises(InputError) as caught:
            one_capture([f"o={url}"], lambda _: None)
        assert not any(word in str(caught.value) for word in (SECRET, servers.AZURITE_KEY))
        assert ("no such place" in str(caught.value)) == (url is gone), caught.value


@everywhere(SFTP, FTP)
def test_a_wrong_password_is_said_and_none_is_shown(place: Place) -> None:
    with pytest.raises(InputError, match=r"(?i)auth") as caught:
        one_capture([f"o={place.url.replace(SECRET, 'wrong-secret')}"], lambda _: None)
    assert "wrong-secret" not in str(caught.value)


@everywhere(SFTP)
def test_a_link_has_no_known_content_and_a_shut_folder_no_known_entries(place: Place) -> None:
    assert place.folder is not None
    (place.folder / "in" / "l").symlink_to("a.txt")
    found = rows(place.url)["l"]
    assert found["kind"] == "link"
    assert isinstance(found["digest"], Unobserved)
    (place.folder / "in" / "shut").mkdir()
    capture = ObjectsSource("o", place.url).read(MemoryChunks(), offline_clock, None)
    assert not capture.reading.is_complete
    assert "/in/shut" in str(capture.reading.cause)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cut", "verdict"), [(None, "MATCH"), (0, "INCONCLUSIVE"), (700, "INCONCLUSIVE")]
)
@everywhere(SFTP, FTP, GS, AZ)
def test_a_line_that_breaks_is_never_a_match(place: Place, cut: int | None, verdict: str) -> None:
    if place.folder is not None:
        assert verdict_where_the_line_is_cut(place.url, cut) == verdict
        return
    [root] = re.findall(r"http://127\.0\.0\.1:\d+", unquote(place.url))
    written = root if root in place.url else quote(root, safe="")
    assert (
        verdict_where_the_line_is_cut(root, cut, lambda line: place.url.replace(written, line))
        == verdict
    )
