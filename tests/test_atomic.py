import errno
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time

import pytest

from statediff.atomic import PART, write_atomically


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def bits(path):
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def umask():
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


@pytest.mark.parametrize("content", [b"", b"x", os.urandom(3_000_000)])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("durable", [False, True])
def test_the_file_holds_the_content_and_nothing_lies_beside_it(
    tmp_path, content, exclusive, durable
):
    file = tmp_path / "a.json"
    write_atomically(file, memoryview(content), exclusive=exclusive, durable=durable)
    assert file.read_bytes() == content
    assert names(tmp_path) == ["a.json"]


def test_a_name_in_the_current_folder_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_atomically("a", b"1", durable=True)
    write_atomically("b", b"2", exclusive=True, durable=True)
    assert ((tmp_path / "a").read_bytes(), (tmp_path / "b").read_bytes()) == (b"1", b"2")


def test_a_name_as_long_as_the_file_system_takes_works(tmp_path):
    file = tmp_path / ("n" * 255)
    write_atomically(file, b"1")
    write_atomically(file, b"2")
    assert file.read_bytes() == b"2"


def test_an_exclusive_write_never_overwrites(tmp_path):
    file, link = tmp_path / "a", tmp_path / "link"
    file.write_bytes(b"old")
    link.symlink_to(tmp_path / "nowhere")
    for taken in (file, link, tmp_path):
        with pytest.raises(FileExistsError):
            write_atomically(taken, b"new", exclusive=True)
    assert file.read_bytes() == b"old"
    assert names(tmp_path) == ["a", "link"]


def test_of_several_exclusive_writers_exactly_one_wins(tmp_path):
    script = textwrap.dedent("""
        import sys
        from statediff.atomic import write_atomically
        won = 0
        for number in range(200):
            try:
                write_atomically(f"{sys.argv[1]}/{number}", sys.argv[2].encode(), exclusive=True)
                won += 1
            except FileExistsError:
                pass
        print(won)
    """)
    running = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path), who], stdout=subprocess.PIPE, text=True
        )
        for who in ("one", "two")
    ]
    won = [int(process.communicate()[0]) for process in running]
    assert sum(won) == 200
    held = [(tmp_path / str(number)).read_text() for number in range(200)]
    assert [held.count("one"), held.count("two")] == won
    assert len(names(tmp_path)) == 200


@pytest.mark.parametrize("without", ["EPERM", "ENOTSUP", "ENOSYS"])
def test_an_exclusive_write_works_where_the_file_system_has_no_hard_links(
    tmp_path, monkeypatch, without
):
    def no_links(*_):
        raise OSError(getattr(errno, without), "no hard links here")

    monkeypatch.setattr(os, "link", no_links)
    file = tmp_path / "a"
    write_atomically(file, b"1", exclusive=True, mode=0o640)
    assert (file.read_bytes(), bits(file), names(tmp_path)) == (b"1", 0o640, ["a"])
    # Somebody takes the name after the first look at it.
    monkeypatch.setattr(os.path, "lexists", lambda _: False)
    with pytest.raises(FileExistsError):
        write_atomically(file, b"2", exclusive=True)
    assert (file.read_bytes(), names(tmp_path)) == (b"1", ["a"])


@pytest.mark.parametrize("mask", [0, 0o022, 0o077, 0o277, 0o777])
@pytest.mark.parametrize("exclusive", [False, True])
def test_the_mode_bits_are_those_asked_for_under_any_umask(tmp_path, umask, mask, exclusive):
    umask(mask)
    file = tmp_path / "key"
    for mode in (0o600, 0o644, 0o400):
        write_atomically(file, b"secret", mode=mode, exclusive=exclusive)
        assert bits(file) == mode
        file.unlink()
    write_atomically(file, b"plain")
    assert bits(file) == 0o666 & ~mask


def test_a_secret_is_never_in_a_file_that_others_may_read(tmp_path, monkeypatch, umask):
    umask(0)
    seen = []
    really = os.open

    def opened(path, flags, mode=0o777, **more):
        descriptor = really(path, flags, mode, **more)
        seen.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return descriptor

    monkeypatch.setattr(os, "open", opened)
    write_atomically(tmp_path / "key", b"secret", mode=0o600, exclusive=True)
    assert seen == [0o600]


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_link_planted_at_the_temporary_name_is_never_followed(tmp_path, monkeypatch, exclusive):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    monkeypatch.setattr(os, "urandom", lambda count: b"\xab" * count)
    planted = tmp_path / f".{'ab' * 8}.part"
    assert PART.fullmatch(planted.name)
    planted.symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_atomically(tmp_path / "a", b"evil", exclusive=exclusive)
    assert victim.read_bytes() == b"precious"
    assert names(tmp_path) == [planted.name, "victim"]


def test_a_link_at_the_target_is_replaced_and_not_followed(tmp_path):
    victim, link = tmp_path / "victim", tmp_path / "link"
    victim.write_bytes(b"precious")
    link.symlink_to(victim)
    write_atomically(link, b"new")
    assert (victim.read_bytes(), link.read_bytes(), link.is_symlink()) == (
        b"precious",
        b"new",
        False,
    )


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"old")
    for target in ("folder", "missing/a", "file/a", "nul\0byte"):
        with pytest.raises((OSError, ValueError)):
            write_atomically(tmp_path / target, b"new")
    assert names(tmp_path) == ["file", "folder"]


@pytest.mark.parametrize("exclusive", [False, True])
def test_a_full_disk_leaves_the_old_content_and_no_temporary_file(tmp_path, exclusive):
    script = textwrap.dedent("""
        import errno, resource, sys
        from statediff.atomic import write_atomically
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            write_atomically(sys.argv[1], bytes(100_000), exclusive=sys.argv[2] == "True")
        except OSError as error:
            print(errno.errorcode[error.errno])
    """)
    file = tmp_path / "a"
    if not exclusive:
        file.write_bytes(b"old")
    ended = subprocess.run(
        [sys.executable, "-c", script, str(file), str(exclusive)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ended.stdout == "EFBIG\n"
    assert names(tmp_path) == ([] if exclusive else ["a"])
    assert exclusive or file.read_bytes() == b"old"


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_an_interruption_leaves_the_old_content_and_no_temporary_file(tmp_path, monkeypatch, call):
    file = tmp_path / "a"
    file.write_bytes(b"old")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, call, interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(file, b"new", durable=True)
    assert (file.read_bytes(), names(tmp_path)) == (b"old", ["a"])


def test_a_killed_writer_leaves_the_old_content_or_the_new(tmp_path):
    script = textwrap.dedent("""
        import itertools, sys
        from statediff.atomic import write_atomically
        print("begun", flush=True)
        for turn in itertools.cycle(b"ab"):
            write_atomically(sys.argv[1], bytes([turn]) * 2_000_000)
    """)
    file = tmp_path / "target"
    write_atomically(file, b"a" * 2_000_000)
    reads = 0
    for round_ in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(file)], stdout=subprocess.PIPE
        )
        process.stdout.readline()
        until = time.monotonic() + 0.02 + 0.013 * round_
        while time.monotonic() < until:
            content = file.read_bytes()
            assert content in (b"a" * 2_000_000, b"b" * 2_000_000)
            reads += 1
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert file.read_bytes() in (b"a" * 2_000_000, b"b" * 2_000_000)
        left = [path for path in tmp_path.iterdir() if path != file]
        assert len(left) <= 1
        for path in left:
            assert PART.fullmatch(path.name)
            path.unlink()
    assert reads > 8


def test_a_durable_file_is_synced_before_it_has_its_name_and_its_folder_after(
    tmp_path, monkeypatch
):
    file = tmp_path / "a"
    synced = []
    really = os.fsync

    def fsync(descriptor):
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        synced.append((kind, file.exists()))
        really(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(file, b"1")
    assert synced == []
    file.unlink()
    write_atomically(file, b"1", durable=True)
    assert synced == [("file", False), ("folder", True)]
