"""Results of long work are kept piece by piece, and nothing else is ever taken for them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from statediff.errors import StorageError, UsageError
from statediff.meta.checkpoint import Form, checkpoint, contract_digest, digest_of, require_folder
from statediff.meta.metatest import MetaCase, case_of, metatest
from tests.meta.test_mutate import TIGHT, reference

CASES: Form[MetaCase] = Form("metatest", case_of)


@pytest.fixture(scope="module")
def cases() -> tuple[MetaCase, ...]:
    return metatest([reference(TIGHT)], 3, {}, sample=6)


def never() -> Iterator[MetaCase]:
    raise AssertionError("this piece is kept")


def test_a_piece_is_made_once_and_then_read_just_as_it_was(
    cases: tuple[MetaCase, ...], tmp_path: Path
):
    assert checkpoint(tmp_path, "a b/c", [7, "x"], lambda: cases, CASES) == cases
    assert checkpoint(tmp_path, "a b/c", [7, "x"], never, CASES) == cases
    [path] = tmp_path.iterdir()
    assert path.name.startswith("a-b-c-")


def test_what_was_asked_otherwise_is_another_piece(cases: tuple[MetaCase, ...], tmp_path: Path):
    checkpoint(tmp_path, "a", [7], lambda: cases, CASES)
    assert checkpoint(tmp_path, "a", [8], lambda: cases[:1], CASES) == cases[:1]
    assert checkpoint(tmp_path, "a", [7], lambda: cases[:2], Form("other", case_of)) == cases[:2]
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize(
    "damage",
    [
        b"", b"{", b"[]", b"null", b'{"identity": []}', b"\xff", b"[" * 100_000,
        '"verdict": "MATCH"→"verdict": "PASS"', '"codes"→"code"', '"sample"→"simple"', "7→8",
    ],
)  # fmt: skip
def test_a_file_that_is_no_such_piece_is_made_anew(
    cases: tuple[MetaCase, ...], tmp_path: Path, damage: bytes | str
):
    def make() -> tuple[MetaCase, ...]:
        return checkpoint(tmp_path, "a", [7, "sample"], lambda: cases, CASES)

    make()
    [path] = tmp_path.iterdir()
    whole = path.read_bytes()
    if isinstance(damage, str):
        old, new = damage.split("→")
        assert old in whole.decode()
        damage = whole.decode().replace(old, new, 1).encode()
    path.write_bytes(damage)
    assert make() == cases
    assert path.read_bytes() == whole
    assert list(tmp_path.iterdir()) == [path]


def test_what_was_not_finished_is_not_kept(cases: tuple[MetaCase, ...], tmp_path: Path):
    def broken() -> Iterator[MetaCase]:
        yield cases[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        checkpoint(tmp_path, "a", [7], broken, CASES)
    assert not list(tmp_path.iterdir())


def test_where_nothing_can_be_kept_it_is_said(cases: tuple[MetaCase, ...], tmp_path: Path):
    with pytest.raises(StorageError, match="cannot be kept"):
        checkpoint(tmp_path / "gone", "a", [7], lambda: cases, CASES)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="choose another folder"):
        require_folder(tmp_path / "file")
    require_folder(tmp_path / "new" / "folder")


def test_a_change_beside_the_contract_is_seen_and_what_else_lies_there_is_not(tmp_path: Path):
    contract, agents = tmp_path / "contract.yaml", tmp_path / "agents.py"
    contract.write_text("a")
    agents.write_text("b")
    was = contract_digest(contract)
    (tmp_path / "huge.bin").write_text("c")
    assert contract_digest(contract) == was
    agents.write_text("c")
    assert contract_digest(contract) != was
    assert digest_of([contract]) != digest_of([agents])


def test_a_kept_piece_is_plain_json_that_says_what_made_it(
    cases: tuple[MetaCase, ...], tmp_path: Path
):
    checkpoint(tmp_path, "a", [7, "x"], lambda: cases, CASES)
    [path] = tmp_path.iterdir()
    document = json.loads(path.read_text())
    assert document["identity"][-2:] == [7, "x"]
    assert len(document["results"]) == len(cases)
