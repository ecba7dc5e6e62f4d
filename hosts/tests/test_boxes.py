"""States in the sandbox of a host: copied as they are, and whatever an agent leaves is judged."""

from __future__ import annotations

import asyncio
import io
import os
import sqlite3
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statediff_hosts import boxes
from statediff_hosts.boxes import BoxedRun, unpack

from statediff.api import Judged, Score, changes
from statediff.errors import AdapterError, InputError, UsageError
from statediff.integrations.verdicts import NoReward, decided, rewards_of
from statediff.model.verdict import Verdict
from tests.integrations.conftest import AFTER, BEFORE, UNDECIDED
from tests.tickets import CLOSE

FILES = """contract: t/files
version: 1.0.0
owner: t
intent: Write done.txt and nothing else.
require:
  - id: done
    create: file
    where: it.path == "done.txt"
"""


class Folder:
    """A box that is a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def run(self, *command: str) -> tuple[int, str]:
        return self.ran(command)

    def ran(self, command: tuple[str, ...]) -> tuple[int, str]:
        done = subprocess.run(command, cwd=self.folder, check=False, capture_output=True, text=True)
        return done.returncode, done.stdout

    async def read(self, path: str) -> bytes:
        return (self.folder / path).read_bytes()


class Gone(Folder):
    async def run(self, *command: str) -> tuple[int, str]:
        return 137, ""


def verdict(contract: str, states: dict[str, str], folder: Path, act: str) -> Verdict:
    async def lives() -> Verdict:
        run, box = BoxedRun(contract, states), Folder(folder)
        await run.before(box)
        assert box.ran(("sh", "-ec", act))[0] == 0
        await run.after(box)
        score = await run.score()
        assert (await run.judge()).verdict is score.verdict
        return score.verdict

    return asyncio.run(lives())


@pytest.mark.parametrize("expected", ["match", "diverge", "inconclusive"])
def test_a_state_in_a_box_is_judged_and_only_a_decided_run_has_a_reward(
    tmp_path: Path, expected: str
) -> None:
    (tmp_path / "app.json").write_text(BEFORE)

    async def lives() -> None:
        contract = UNDECIDED if expected == "inconclusive" else CLOSE
        run, box = BoxedRun(contract, {"tables": "app.json"}), Folder(tmp_path)
        await run.before(box)
        (tmp_path / "app.json").write_text(AFTER[expected])
        await run.after(box)
        score = await run.score()
        assert score.verdict.value == expected.upper()
        if expected == "inconclusive":
            with pytest.raises(NoReward, match="INCONCLUSIVE, left out: environment"):
                decided(score)
            with pytest.raises(NoReward):
                rewards_of(score)
        else:
            assert rewards_of(score) == {"reward": float(expected == "match"), **score.parts}

    asyncio.run(lives())


def test_a_run_that_goes_on_is_judged_again(tmp_path: Path) -> None:
    (tmp_path / "app.json").write_text(BEFORE)

    async def lives() -> list[str]:
        run, box = BoxedRun(CLOSE, {"tables": "app.json"}), Folder(tmp_path)
        await run.before(box)
        found = []
        for verdict in ("diverge", "match"):
            (tmp_path / "app.json").write_text(AFTER[verdict])
            await run.after(box)
            found.append((await run.score()).verdict.value)
        return found

    assert asyncio.run(lives()) == ["DIVERGE", "MATCH"]


@pytest.mark.parametrize(
    ("form", "reply", "expected"),
    [
        ("{closed: int}", '{"closed": 1}', "MATCH"),
        ("{closed: int}", 'Done.\n```json\n{"closed": 1}\n```\n', "MATCH"),
        ("{closed: int}", '{"closed": 2}', "DIVERGE"),
        ("{closed: int}", "I closed one \ud800", "DIVERGE"),
        ("{closed: int}", None, "DIVERGE"),
    ],
)
def test_the_last_message_holds_the_answer(
    tmp_path: Path, form: str, reply: str | None, expected: str
) -> None:
    answer = f"answer:\n  schema: {form}\n  claims:\n    - answer.closed == 1\n"
    (tmp_path / "app.json").write_text(BEFORE)

    async def lives() -> str:
        run, box = BoxedRun(CLOSE + answer, {"tables": "app.json"}), Folder(tmp_path)
        await run.before(box)
        (tmp_path / "app.json").write_text(AFTER["match"])
        await run.after(box)
        return (await run.score(reply)).verdict.value

    assert asyncio.run(lives()) == expected


def test_what_sqlite_has_not_checkpointed_is_copied_too(tmp_path: Path) -> None:
    app = sqlite3.connect(tmp_path / "app.db")
    app.execute("pragma journal_mode = wal")
    app.execute("create table ticket (id integer primary key, status text)")
    app.executemany("insert into ticket values (?, 'open')", [(7,), (8,)])
    app.commit()
    app.close()
    close = (
        "import sqlite3, os; app = sqlite3.connect('app.db'); app.execute('{}'); app.commit(); "
        "os._exit(0)"
    )
    one = 'update ticket set status = \\"closed\\" where id = 7'
    act = f'python3 -c "{close.format(one)}"; test -s app.db-wal'
    assert verdict(CLOSE, {"db": "app.db"}, tmp_path, act) is Verdict.MATCH
    act = f'python3 -c "{close.format("delete from ticket where id = 8")}"'
    assert verdict(CLOSE, {"db": "app.db"}, tmp_path, act) is Verdict.DIVERGE


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        ("touch work/done.txt", "MATCH"),
        ("touch work/done.txt; chmod 600 work/kept", "DIVERGE"),
        ("touch work/done.txt; ln -s /etc/passwd work/link", "DIVERGE"),
        ("touch work/done.txt; mkfifo work/pipe", "DIVERGE"),
        ("touch work/done.txt; ln work/kept work/twin", "DIVERGE"),
        ("rm -r work", "DIVERGE"),
        ("mv work there; touch there/done.txt; ln -s there work", "DIVERGE"),
        ("rm -r work; echo done.txt > work", "DIVERGE"),
    ],
)
def test_whatever_an_agent_leaves_of_a_folder_is_judged(
    tmp_path: Path, act: str, expected: str
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "kept").write_text("x")
    (tmp_path / "work" / "kept").chmod(0o640)
    assert verdict(FILES, {"files": "work"}, tmp_path, act).value == expected


@pytest.mark.parametrize("act", ["rm app.json", "rm app.json; mkdir app.json", "ln -sf b app.json"])
def test_a_file_that_is_gone_is_judged_as_empty(tmp_path: Path, act: str) -> None:
    (tmp_path / "app.json").write_text(BEFORE)
    (tmp_path / "b").write_text(AFTER["match"])
    assert verdict(CLOSE, {"tables": "app.json"}, tmp_path, act) is Verdict.DIVERGE


def test_what_is_not_there_before_and_a_box_that_does_not_answer_raise(tmp_path: Path) -> None:
    async def kept(box: Folder) -> BoxedRun:
        run = BoxedRun(CLOSE, {"tables": "app.json"})
        await run.before(box)
        return run

    with pytest.raises(InputError, match=r"app\.json is not in the sandbox before the run"):
        asyncio.run(kept(Folder(tmp_path)))
    (tmp_path / "app.json").write_text(BEFORE)
    with pytest.raises(AdapterError, match="exit code 137"):
        asyncio.run(kept(Gone(tmp_path)))
    run = asyncio.run(kept(Folder(tmp_path)))
    with pytest.raises(UsageError, match="await `before` and `after`"):
        asyncio.run(run.score())
    with pytest.raises(AdapterError, match="exit code 137"):
        asyncio.run(run.after(Gone(tmp_path)))


@pytest.mark.parametrize(
    ("name", "act"), [("app.json", "head -c 2000 /dev/zero > app.json"), ("work", "cp big work")]
)
def test_a_state_that_becomes_too_large_to_copy_is_a_change_and_no_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, act: str
) -> None:
    (tmp_path / "app.json").write_text(BEFORE)
    (tmp_path / "big").write_bytes(bytes(200_000))
    (tmp_path / "work").mkdir()
    monkeypatch.setattr(boxes, "MAX_BYTES", 1000 if name == "app.json" else 100_000)
    contract = CLOSE if name == "app.json" else FILES

    async def lives() -> tuple[Score, Judged]:
        run, box = BoxedRun(contract, {"state": name}), Folder(tmp_path)
        await run.before(box)
        box.ran(("sh", "-ec", act))
        await run.after(box)
        return await run.score(), await run.judge()

    score, judged = asyncio.run(lives())
    assert score.verdict is judged.verdict is Verdict.DIVERGE
    assert score.reward == 0.0
    assert f"{name} in the sandbox: at most 1" in judged.text()
    monkeypatch.setattr(boxes, "MAX_BYTES", 10)
    with pytest.raises(InputError, match="at most 10 bytes of a state are copied"):
        asyncio.run(lives())


def test_findings_name_the_place_in_the_box_and_no_copy_of_ours(tmp_path: Path) -> None:
    async def lives() -> Judged:
        (tmp_path / "app.json").write_text(BEFORE)
        run, box = BoxedRun(CLOSE, {"tables": "app.json"}), Folder(tmp_path)
        await run.before(box)
        (tmp_path / "app.json").write_text("{no json")
        await run.after(box)
        return await run.judge()

    judged = asyncio.run(lives())
    assert judged.verdict is Verdict.DIVERGE
    assert "app.json in the sandbox:1:2: not JSON" in judged.text()
    ours = Path(tempfile.gettempdir(), "statediff-box").as_posix()
    assert not [name for name, part in judged.bundle.files.items() if ours.encode() in part]
    assert asyncio.run(lives()).bundle.digest == judged.bundle.digest


def test_a_state_is_read_as_what_it_was_whatever_it_looks_like_now(tmp_path: Path) -> None:
    app = sqlite3.connect(tmp_path / "app")
    app.execute("create table ticket (id integer primary key, status text)")
    app.execute("insert into ticket values (7, 'open')")
    app.commit()
    app.close()
    act = f"echo '{AFTER['match']}' > app"
    assert verdict(CLOSE, {"db": "app"}, tmp_path, act) is Verdict.DIVERGE


def test_a_url_is_read_without_a_box_and_is_no_copy(tmp_path: Path) -> None:
    app = sqlite3.connect(tmp_path / "app.db")
    app.execute("create table ticket (id integer primary key, status text)")
    app.execute("insert into ticket values (7, 'open')")
    app.commit()

    async def lives() -> Verdict:
        run = BoxedRun(CLOSE, {"db": f"sqlite:///{tmp_path}/app.db"})
        await run.before(None)
        app.execute("update ticket set status = 'closed'")
        app.commit()
        await run.after(Gone(tmp_path))
        return (await run.score()).verdict

    assert asyncio.run(lives()) is Verdict.MATCH
    app.close()


def packed(*members: tarfile.TarInfo) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size))
    return raw.getvalue()


def entry(
    name: str, kind: bytes = tarfile.REGTYPE, target: str = "", size: int = 0
) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.size = kind, target, size
    member.uid, member.gid = os.getuid(), os.getgid()
    return member


@pytest.mark.parametrize(
    "members",
    [
        [entry("../outside", size=1)],
        [entry("/outside", size=1)],
        [entry("link", tarfile.SYMTYPE, ".."), entry("link/outside", size=1)],
        [entry("a", size=1), entry("a/b", size=1)],
        [entry("twin", tarfile.LNKTYPE, "../outside")],
    ],
)
def test_nothing_is_unpacked_outside_the_folder(
    tmp_path: Path, members: list[tarfile.TarInfo]
) -> None:
    with pytest.raises(InputError):
        unpack(packed(*members), tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_damaged_archive_is_an_input_error(tmp_path: Path) -> None:
    whole = packed(entry("a", size=2000))
    with pytest.raises(InputError):
        unpack(whole[:600], tmp_path / "short")
    with pytest.raises(InputError):
        unpack(b"no archive" * 100, tmp_path / "none")


names = st.text("ab.-é ", min_size=1, max_size=3).filter(lambda n: n.strip(".") and n == n.strip())
contents = st.binary(max_size=20) | st.sampled_from(["..", "/etc", "nowhere"])
trees = st.recursive(
    contents, lambda below: st.dictionaries(names, below, max_size=3), max_leaves=6
)


@settings(max_examples=25)
@given(st.dictionaries(names, trees, max_size=3))
def test_an_unpacked_folder_is_the_folder_that_was_packed(tree: dict[str, object]) -> None:
    def put(place: Path, content: object) -> None:
        if isinstance(content, dict):
            place.mkdir()
            for name, below in content.items():
                put(place / name, below)
        elif isinstance(content, str):
            place.symlink_to(content)
        else:
            place.write_bytes(content)

    with tempfile.TemporaryDirectory() as folder:
        one, two = Path(folder, "one"), Path(folder, "two")
        put(one, tree)
        tar = subprocess.run(["tar", "-cf", "-", "-C", one, "."], check=True, capture_output=True)
        unpack(tar.stdout, two)
        assert changes(f"files={one}", f"files={two}") == ()
