"""Objects by URL: a store that speaks S3 (moto's server) and fsspec's own memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from statediff_data.objects.source import ObjectsSource

import statediff
from statediff.capture.source import SourceUnavailable
from statediff.errors import InputError, UsageError
from statediff.model.state import MemoryChunks, State
from statediff.model.values import Map, Unobserved
from statediff.systems.base.rows import source_schema
from statediff.systems.base.urls import without_passwords
from statediff.workspace.inputs import offline_clock, one_capture
from tests.lines import NOTHING, verdict_where_the_line_is_cut

fsspec = pytest.importorskip("fsspec")

SECRET = "hidden-secret"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    pytest.importorskip("s3fs")
    moto = pytest.importorskip("moto.server")
    running = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, str]:
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "k"), ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_DEFAULT_REGION", "us-east-1"), ("NO_PROXY", "127.0.0.1"), ("AWS_MAX_ATTEMPTS", "1"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
    store = fsspec.filesystem("s3", endpoint_url=server, skip_instance_cache=True)
    if store.exists("bucket"):
        store.rm("bucket", recursive=True)
    store.mkdir("bucket")
    store.pipe("bucket/in/a.txt", b"one")
    store.pipe("bucket/in/deep/b.bin", b"\x00\xff")
    store.pipe("bucket/other.txt", b"outside")
    return store, f"s3://bucket/in?endpoint_url={server}"


def rows(url: str, like: State | None = None) -> dict[Any, Any]:
    state = ObjectsSource("o", url).read(MemoryChunks(), offline_clock, like).state
    return {key: row for (key,), row in state.tables["object"].rows()}


def test_objects_of_a_store_are_read_with_their_stamps_and_headers(bucket: tuple[Any, str]) -> None:
    found = rows(bucket[1])
    assert list(found) == ["a.txt", "deep/b.bin"]
    one = found["a.txt"]
    assert (one["text"], one["size"], one["etag"]) == ("one", 3, "f97c5d29941bfb1b2fdab0874906ab82")
    assert one["attributes"].get("content_type") == "binary/octet-stream"
    assert found["deep/b.bin"]["text"] is None
    assert len(found["deep/b.bin"]["digest"]) == 64


def test_a_run_over_a_store_is_watched(bucket: tuple[Any, str]) -> None:
    store, url = bucket
    with statediff.watch(o=url, settle_seconds=0) as run:
        store.pipe("bucket/in/a.txt", b"two")
        store.pipe("bucket/in/c.txt", b"new")
        store.rm("bucket/in/deep/b.bin")
        store.setxattr("bucket/in/c.txt", copy_kwargs={}, color="red")
    ops = {(d["op"], d["key"], d["path"]) for d in run.changes}
    assert {
        ("create", "c.txt", ""),
        ("delete", "deep/b.bin", ""),
        ("update", "a.txt", "text"),
    } <= ops
    assert rows(url)["c.txt"]["attributes"].get("metadata.color") == "red"


def test_a_bucket_that_is_not_there_is_no_empty_one(bucket: tuple[Any, str]) -> None:
    with pytest.raises(InputError, match="no such place") as caught:
        one_capture([f"o={bucket[1].replace('bucket', 'nosuch')}"], lambda _: None)
    assert SECRET not in str(caught.value)
    with pytest.raises(InputError, match=r"Could not connect.*check the URL"):
        one_capture(["o=s3://bucket/in?endpoint_url=http://127.0.0.1:1"], lambda _: None)


@pytest.mark.parametrize(
    ("url", "driver", "words"),
    [
        ("sftp://ada:hidden@127.0.0.1/x", "paramiko", "pip install it where statediff runs"),
        ("gs://b/x", "gcsfs", "pip install"),
        ("az://b/x", "adlfs", "pip install"),
    ],
)  # fmt: skip
def test_a_missing_driver_is_named(
    url: str, driver: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, driver, None)  # to Python a module that cannot be imported
    monkeypatch.delitem(sys.modules, "fsspec.implementations.sftp", raising=False)
    known = sys.modules["fsspec.registry"]._registry
    monkeypatch.delitem(known, url.partition(":")[0], raising=False)
    with pytest.raises((UsageError, InputError), match=f"{driver}.*{words}") as caught:
        one_capture([f"o={url}"], lambda _: None)
    assert "hidden" not in str(caught.value)


@pytest.fixture
def memory() -> Iterator[Any]:
    store = fsspec.filesystem("memory")
    store.pipe("/place/a.txt", b"one")
    store.makedirs("/place/empty")
    yield store
    store.rm("/place", recursive=True)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (PermissionError("shut"), "a folder cannot be listed: /place/empty: shut"),
        (ConnectionResetError("the line"), None),
        (TimeoutError("the line"), None),
    ],
)
def test_a_folder_that_cannot_be_listed_is_never_an_empty_one(
    memory: Any, monkeypatch: pytest.MonkeyPatch, error: OSError, cause: str | None
) -> None:
    """Fsspec's `find` leaves such a folder out, and its `exists` says no of what fails."""
    listing = type(memory).ls

    def ls(self: Any, path: str, *arguments: Any, **options: Any) -> Any:
        if path.endswith("/empty"):
            raise error
        return listing(self, path, *arguments, **options)

    monkeypatch.setattr(type(memory), "ls", ls)
    source = ObjectsSource("o", "memory://place")
    if cause is None:
        with pytest.raises(SourceUnavailable, match="the line"):
            source.read(MemoryChunks(), offline_clock, None)
        seen = type(memory).info

        def info(self: Any, path: str, **options: Any) -> Any:
            if path.endswith("place"):
                raise error
            return seen(self, path, **options)

        monkeypatch.setattr(type(memory), "info", info)
        monkeypatch.setattr(type(memory), "ls", listing)
        with pytest.raises(SourceUnavailable, match="the line"):
            source.read(MemoryChunks(), offline_clock, State(source_schema("o", []), {}))
        return
    [table] = source.read(MemoryChunks(), offline_clock, None).state.tables.values()
    assert table.enumeration.cause == cause
    assert table.row_count == 2


def test_a_driver_that_fails_is_named_with_what_to_do(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def info(*_: Any, **__: Any) -> Any:
        raise KeyError("adaptive")

    monkeypatch.setattr(type(memory), "info", info)
    said = "the driver failed: KeyError: 'adaptive'; install the version that fits"
    with pytest.raises(SourceUnavailable, match=said):
        ObjectsSource("o", "memory://place").schema()


def test_a_driver_is_given_the_parameters_of_its_url_and_no_other(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of SFTP hands all that it is given to its library."""

    class Strict(type(memory)):  # type: ignore[misc]  # the class of a third party
        protocol = "ssh"

        def __init__(self, host: str, username: str, *, key_filename: str) -> None:
            assert (host, username, key_filename) == ("h", "ada", "k")
            super().__init__()

        @staticmethod
        def _get_kwargs_from_urls(_: str) -> dict[str, str]:
            return {"host": "h", "username": "ada"}

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return "/" + path.removeprefix("ssh://ada@h").strip("/")

    monkeypatch.setitem(sys.modules["fsspec.registry"]._registry, "ssh", Strict)
    assert set(rows("ssh://ada@h/place?key_filename=k")) == {"a.txt", "empty"}


def test_what_is_no_file_and_no_folder_has_a_kind_and_an_unknown_content(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = type(memory).ls

    def ls(self: Any, path: str, *arguments: Any, **options: Any) -> Any:
        link = {"name": "/place/l", "size": 1, "type": "link"}
        return [*listing(self, path, *arguments, **options), *([link] if path == "/place" else [])]

    monkeypatch.setattr(type(memory), "ls", ls)
    found = rows("memory://place")
    assert (found["l"]["kind"], found["l"]["size"]) == ("link", None)
    assert isinstance(found["l"]["digest"], Unobserved)
    assert found["a.txt"]["text"] == "one"
    before = ObjectsSource("o", "memory://place").read(MemoryChunks(), offline_clock, None)
    assert before.reading.is_complete, "the other objects are known"


@pytest.mark.usefixtures("memory")
def test_folders_are_seen_where_the_place_has_them() -> None:
    found = rows("memory://place")
    assert {path: row["kind"] for path, row in found.items()} == {
        "a.txt": "file", "empty": "directory",
    }  # fmt: skip
    assert found["empty"]["attributes"] == Map(())


@pytest.mark.parametrize(
    "write",
    [lambda s, n: s.pipe("/place/a.txt", b"%03d" % n), lambda s, n: s.pipe(f"/place/{n}", b"")],
)
def test_what_is_written_during_the_reading_is_not_known(
    memory: Any, monkeypatch: pytest.MonkeyPatch, write: Callable[[Any, int], None]
) -> None:
    """The size and the second stay the same: memory has no stamp, so the content is read twice."""
    count = iter(range(1000))
    listing = ObjectsSource._listing

    def listed(source: ObjectsSource, *arguments: Any) -> Any:
        found = listing(source, *arguments)
        write(memory, next(count))
        return found

    monkeypatch.setattr(ObjectsSource, "_listing", listed)
    capture = ObjectsSource("o", "memory://place").read(MemoryChunks(), offline_clock, None)
    assert not capture.reading.is_complete
    assert "written while it was read" in str(capture.reading.cause)
    cells = [c for _, row in capture.state.tables["object"].rows() for c in row.values()]
    assert any(isinstance(c, Unobserved) for c in cells) or len(cells) > 8


def test_a_write_to_a_store_during_the_reading_is_never_a_match(
    bucket: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer, between the listing and the content, over the store's own protocol."""
    store, url = bucket
    listing = ObjectsSource._listing
    count = iter(range(1000))

    def listed(source: ObjectsSource, *arguments: Any) -> Any:
        found = listing(source, *arguments)
        store.pipe("bucket/in/a.txt", b"%03d" % next(count))
        return found

    with statediff.watch(NOTHING, o=url, settle_seconds=0) as run:
        monkeypatch.setattr(ObjectsSource, "_listing", listed)
    assert run.judged is not None
    assert run.judged.verdict.value == "INCONCLUSIVE"
    assert "written while it was read" in run.judged.text()


def test_a_place_that_is_gone_after_the_run_has_no_objects(memory: Any) -> None:
    source = ObjectsSource("o", "memory://place")
    before = source.read(MemoryChunks(), offline_clock, None).state
    memory.rm("/place", recursive=True)
    assert rows("memory://place", before) == {}
    with pytest.raises(SourceUnavailable):
        source.schema()
    memory.pipe("/place/a.txt", b"")


@pytest.mark.parametrize(
    ("cut", "verdict"), [(None, "MATCH"), (0, "INCONCLUSIVE"), (700, "INCONCLUSIVE")]
)
def test_a_line_that_breaks_is_never_a_match(
    server: str, bucket: tuple[Any, str], cut: int | None, verdict: str
) -> None:
    assert (
        verdict_where_the_line_is_cut(server, cut, lambda line: bucket[1].replace(server, line))
        == verdict
    )


def test_the_key_in_a_connection_string_is_in_no_message() -> None:
    url = "az://b/x?connection_string=AccountName%3Dada%3BAccountKey%3Dhidden%2Fkey%3D%3D%3B"
    said = "no AccountKey=hidden/key== of ada; hidden/key=="
    assert "hidden" not in without_passwords(said, [url])
    assert "ada" in without_passwords(said, [url])
