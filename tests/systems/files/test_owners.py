"""Owner, group, access lists, capabilities and attributes of files are state."""

import hashlib
import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from statediff.packs import PackSource
from statediff.systems.base.folders import AGENT_USER, SERVICE_USER
from statediff.systems.files.sandbox import EmbeddedDirectory
from tests.systems.files.test_source import rows

CAPABILITY = struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)


def acl(*entries: tuple[int, int, int]) -> bytes:
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *each) for each in entries)


NOBODY = 0xFFFFFFFF
OTHERS = ((2, 6, 33), (4, 4, NOBODY), (16, 6, NOBODY), (32, 0, NOBODY))
TOLD = "user:rwx,user:33:rw-,group:r--,mask:rw-,other:---"
LIST = acl((1, 7, NOBODY), *OTHERS)
OF_FILES = acl((1, 6, NOBODY), *OTHERS)
"""What a file gets that is made in a folder with this default list."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("hello\n")
    (folder / "link").symlink_to("a.txt")
    os.mkfifo(folder / "pipe")
    return folder


def attach(path: Path, name: str, value: bytes) -> None:
    try:
        os.setxattr(path, name, value, follow_symlinks=False)
    except OSError as error:
        pytest.skip(f"this file system or user cannot: {error}")


def as_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")


def test_what_the_evaluator_made_is_its_own_and_has_nothing_beside(root):
    for row in rows(root).values():
        assert (row["owner"], row["group"], row["attributes"].items) == ("own", "own", ())


@pytest.mark.parametrize("name", [".", "sub", "a.txt", "link", "pipe"])
def test_an_entry_that_is_given_away_says_to_whom(root, name):
    as_root()
    before = rows(root)
    os.chown(root / name, 1234, -1, follow_symlinks=False)
    os.chown(root / name, -1, 4321, follow_symlinks=False)
    after = rows(root)
    assert (after[name]["owner"], after[name]["group"]) == ("1234", "4321")
    assert {k: v for k, v in after.items() if k != name} == {
        k: v for k, v in before.items() if k != name
    }


@pytest.mark.parametrize("user", [AGENT_USER, SERVICE_USER])
def test_what_the_harness_hands_to_a_container_is_its_own(root, user):
    as_root()
    before = rows(root)
    for path in (root, *root.iterdir()):
        os.chown(path, user, user, follow_symlinks=False)
    assert rows(root) == before


@pytest.mark.parametrize("name", [".", "sub", "a.txt"])
@pytest.mark.parametrize(
    ("attribute", "value", "told"),
    [
        ("user.note", b"hi", "hi"),
        ("user.note", b"\xff", "0xff"),
        ("user.note", b"x" * 300, "sha256:" + hashlib.sha256(b"x" * 300).hexdigest()),
        ("security.capability", CAPABILITY, "0x" + CAPABILITY.hex()),
        ("system.posix_acl_access", LIST, TOLD),
    ],
)
def test_an_attribute_is_told_by_its_name(root, name, attribute, value, told):
    if attribute == "security.capability" and name != "a.txt":
        pytest.skip("of files only")
    attach(root / name, attribute, value)
    assert dict(rows(root)[name]["attributes"].items) == {attribute: told}


def test_a_default_list_of_a_folder_is_told(root):
    attach(root / "sub", "system.posix_acl_default", LIST)
    assert dict(rows(root)["sub"]["attributes"].items) == {"system.posix_acl_default": TOLD}


def test_a_file_that_its_owner_writes_again_keeps_what_it_is(root):
    before = rows(root)
    (root / "b").write_text("hello\n")
    (root / "b").replace(root / "a.txt")
    assert rows(root) == before


def test_a_reset_takes_back_what_an_agent_gave_the_folder_and_a_look_finds_it(root, tmp_path):
    tree = tmp_path / "tree"
    shutil.copytree(root / "sub", tree)
    (tree / "a.txt").write_text("hello\n")
    pack = PackSource(name="files", kind="files", files={"tree": tree})
    system = EmbeddedDirectory(pack, (), tmp_path / "place")
    system.reset()
    assert system.verify()[1] == ()
    attach(system.folder, "user.note", b"hi")
    attach(system.folder / "a.txt", "user.note", b"hi")
    proof, drift = system.verify()
    assert [each.what for each in drift] == ["file .", "file a.txt"]
    assert proof.expected != proof.found
    system.reset()
    assert system.verify()[1] == ()


def test_a_name_that_leads_to_the_same_file_as_an_earlier_one_says_so(root):
    (root / "b.txt").write_text("hello\n")
    before = rows(root)
    (root / "b.txt").unlink()
    os.link(root / "a.txt", root / "b.txt")
    after = rows(root)
    assert dict(after["b.txt"]["attributes"].items) == {"hard link": "a.txt"}
    assert {**after, "b.txt": before["b.txt"]} == before
    os.link(root / "a.txt", root.parent / "kept")  # what else leads there is none of the folder's
    assert rows(root) == after


def test_a_file_that_can_be_changed_by_nobody_says_so(root):
    as_root()
    change = shutil.which("chattr")
    flagged = [change or "", "+i", root / "a.txt"]
    if change is None or subprocess.run(flagged, check=False, capture_output=True).returncode:
        pytest.skip("nobody sets flags of files here")
    try:
        found = rows(root)
    finally:
        subprocess.run([change, "-i", root / "a.txt"], check=True)
    assert dict(found["a.txt"]["attributes"].items) == {"flags": "immutable"}


def test_a_long_path_of_a_file_with_two_names_is_whole(tmp_path: Path) -> None:
    far = tmp_path / ("a" * 120) / ("b" * 120)
    far.mkdir(parents=True)
    for name in ("one", "two"):
        (far / name).write_text("same", encoding="utf-8")
    near = tmp_path / "z.txt"
    near.hardlink_to(far / "one")
    before = dict(rows(tmp_path)["z.txt"]["attributes"].items)
    near.unlink()
    near.hardlink_to(far / "two")
    assert dict(rows(tmp_path)["z.txt"]["attributes"].items) != before
