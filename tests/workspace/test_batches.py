"""The evidence of a batch: any rollout is opened, judged again and verified, and no lie passes."""

from __future__ import annotations

import json
import shutil
import sqlite3
import struct
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statediff import Evidence, Judge, Score, Verdict, replay
from statediff.errors import BundleError, ContractError, NotReplayable, UsageError
from statediff.evidence import verify as v
from statediff.evidence.batches import records as rec
from statediff.evidence.batches import sealing as sealed
from statediff.evidence.canonical import write
from statediff.evidence.keys import SigningKey, generate, load_key
from statediff.evidence.merkle import entry_hash, log_root
from statediff.evidence.package import load, save
from statediff.evidence.seal import enveloped
from statediff.evidence.verify import Signer
from statediff.model.state import MemoryChunks
from statediff.workspace.batches import MOST_WHOLE, Opener, open_batch
from statediff.workspace.warm import keep
from tests.test_said_is_judged import files_with
from tests.tickets import CLOSE

CONTRACT = (
    CLOSE
    + """\
allow:
  - {id: noted, update: ticket, fields: [note]}
forbid:
  - {id: urgent, update: ticket, where: it.urgency > 3}
answer:
  schema: {closed: int}
  claims:
    - answer.closed == 1
"""
)
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
UNDECIDED = 11


def tickets(*closed: int, notes: int = 0, noted: int = 0) -> dict[str, Any]:
    """Five tickets; whether the last one is urgent was not known before, and decides a clause."""
    made = [
        {
            "id": at,
            "status": "closed" if at in closed else "open",
            "urgency": None if at == UNDECIDED else 1,
            "note": "seen" if at == noted else "",
        }
        for at in range(7, 12)
    ]
    return {"ticket": made, "note": [{"id": at, "text": f"note {at}"} for at in range(notes)]}


RUNS: list[Any] = [tickets(7), tickets(7, 8), tickets(7, noted=UNDECIDED), tickets(7), 5]
ANSWERS = [{"closed": 1}, {"closed": 1}, {"closed": 1}, {"closed": 2}, {"closed": 1}]


def recorded(folder: Path, key: Path, runs: list[Any] = RUNS, **more: Any) -> list[Score]:
    judge = Judge(CONTRACT, tickets())
    answers = more.pop("answers", ANSWERS if runs is RUNS else [{"closed": 1}] * len(runs))
    workers = more.pop("workers", 1)
    evidence = Evidence(folder=folder, key=key, at=NOON, **more)
    return judge.score_many(runs, answers=answers, workers=workers, evidence=evidence)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `key` and `batch`; nobody changes it."""
    folder = tmp_path_factory.mktemp("batch")
    generate(folder / "key")
    recorded(folder / "batch", folder / "key")
    return folder


def trusted(folder: Path) -> tuple[Signer, ...]:
    return (Signer("Ada", load_key(folder / "key").public, ("evaluator",), None, None),)


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_the_scores_are_those_without_evidence_and_every_rollout_is_judged_again(
    made: Path, tmp_path: Path
) -> None:
    judge = Judge(CONTRACT, tickets())
    plain = judge.score_many(RUNS, answers=ANSWERS)
    assert recorded(tmp_path / "batch", made / "key") == plain
    names = ["MATCH", "DIVERGE", "INCONCLUSIVE", "DIVERGE", "INCONCLUSIVE"]
    assert [score.verdict.value for score in plain] == names
    opener = open_batch(tmp_path / "batch", trusted(made))
    assert opener.batch.manifest["verdicts"] == {"MATCH": 1, "DIVERGE": 2, "INCONCLUSIVE": 2}
    for number in range(4):
        found = opener.judged(number)
        alone = judge.judge(RUNS[number], answer=ANSWERS[number])
        assert found.bundle.data("judgement.json") == alone.bundle.data("judgement.json")
        assert found.judgement.verdict is plain[number].verdict
    with pytest.raises(NotReplayable, match="rollout 4 was not read"):
        opener.judged(4)
    with pytest.raises(IndexError):
        opener.judged(5)


def test_the_same_inputs_and_key_give_the_same_bytes_by_any_number_of_processes(
    made: Path, tmp_path: Path
) -> None:
    recorded(tmp_path / "batch", made / "key", workers=2)
    assert files_of(tmp_path / "batch") == files_of(made / "batch")


def test_an_opened_rollout_is_a_bundle_under_the_state_roots_of_the_batch(made: Path) -> None:
    opener = open_batch(made / "batch", trusted(made))
    bundle = opener.judged(1).bundle
    assert replay(_saved(bundle, made / "one")) is Verdict.DIVERGE
    roots = bundle.document("captures.json")["roots"]
    record = opener.batch.records.record(1)
    assert record["roots"] == [None, roots["after"]]
    assert json.loads(opener.batch.records.befores[0])["root"] == roots["before"]
    assert (
        roots != Judge(CONTRACT, tickets()).judge(RUNS[1]).bundle.document("captures.json")["roots"]
    )


def test_an_answer_is_judged_as_it_was_and_its_secrets_are_in_one_file_alone(
    made: Path, tmp_path: Path
) -> None:
    said = "api_key=7f3kQ9zX2Lw7Bd4s"
    body = CONTRACT.replace("{closed: int}", "{note: text}")
    judge = Judge(body.replace("answer.closed == 1", f'answer.note == "{said}"'), tickets())
    answers = [{"note": said}, {"note": "nothing"}, {"note": said + "x"}]
    batch = tmp_path / "batch"
    evidence = Evidence(folder=batch, key=made / "key", at=NOON, whole={0})
    scores = judge.score_many([tickets(7)] * 3, answers=answers, evidence=evidence)
    assert [score.verdict.value for score in scores] == ["MATCH", "DIVERGE", "DIVERGE"]
    opener = open_batch(batch, trusted(made))
    shown = json.dumps([opener.batch.records.record(number) for number in range(3)])
    assert "7f3kQ9" not in shown
    found = files_with(said.partition("=")[2], batch)
    assert found == {
        "contract.yaml": 0o600, "whole/0/contract.yaml": 0o644, "undisclosed.json": 0o600,
        "whole/0.undisclosed.json": 0o600,
    }  # fmt: skip
    for number, score in enumerate(scores):
        assert opener.judged(number).judgement.verdict is score.verdict
    assert opener.judged(0).bundle == load(batch / "whole" / "0")
    path = batch / "undisclosed.json"
    document = json.loads(path.read_bytes())
    rollouts = document["rollouts"]
    document["rollouts"] = {"0": rollouts["2"], "2": rollouts["0"]}
    path.write_bytes(write(document))
    with pytest.raises(BundleError, match="rollout 0: what is not shown belongs to another"):
        open_batch(batch, trusted(made)).judged(0)
    path.write_text("[]")
    with pytest.raises(BundleError, match=r"undisclosed\.json"):
        open_batch(batch, trusted(made))
    path.unlink()
    opener = open_batch(batch, trusted(made))
    with pytest.raises(NotReplayable, match="withholds 1 value"):
        opener.judged(0)
    assert opener.judged(1).judgement.verdict is Verdict.DIVERGE


def _saved(bundle: Any, folder: Path) -> Path:
    save(bundle, folder)
    return folder


def test_what_is_surprising_sampled_or_asked_for_is_kept_whole(made: Path, tmp_path: Path) -> None:
    runs = [tickets(7)] * 20 + [tickets(7, 8), tickets(7, noted=UNDECIDED)]
    rewards = [1.0] * 19 + [0.0, None, None]
    recorded(tmp_path / "a", made / "key", runs, expected=rewards, whole={3})
    opener = open_batch(tmp_path / "a", trusted(made))
    assert [(number, why) for number, _, why in opener.batch.manifest["whole"]] == [
        (3, ["asked"]), (19, ["unexpected"]), (20, ["rare"]), (21, ["inconclusive"]),
    ]  # fmt: skip
    assert replay(tmp_path / "a" / "whole" / "20") is Verdict.DIVERGE
    assert opener.batch.records.record(0)["expected"] == "1.0"

    def wrong(_: int, score: Score) -> bool:
        return score.verdict is Verdict.DIVERGE

    for whole, least, most in ((1.0, 5, 5), (0.5, 0, 5), (wrong, 1, 1)):
        folder = tmp_path / f"w{whole}"[:20]
        recorded(folder, made / "key", runs[17:22], whole=whole)
        numbers = [n for n, _, why in _manifest(folder)["whole"] if "asked" in why]
        assert least <= len(numbers) <= most


def _manifest(folder: Path) -> Any:
    return json.loads((folder / "manifest.json").read_bytes())


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"whole": 2.0}, "a share from 0 to 1"),
        ({"at": datetime(2026, 1, 5)}, "with a zone"),  # noqa: DTZ001 - that is refused
        ({"expected": [1.0]}, "not as many rewards"),
        ({"expected": [1.0] * 6}, "not as many rewards"),
        ({"expected": [float("nan")] * 5}, "no reward"),
    ],
)
def test_what_was_asked_wrongly_is_said_and_signs_nothing(
    made: Path, tmp_path: Path, more: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        Judge(CONTRACT, tickets()).score_many(
            RUNS, evidence=Evidence(**{"folder": tmp_path / "b", "key": made / "key", **more})
        )
    assert not (tmp_path / "b" / "manifest.json").exists()


def test_nothing_is_overwritten_and_what_was_not_finished_is_no_batch(
    made: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="nothing is overwritten"):
        recorded(made / "batch", made / "key")

    def runs() -> Any:
        yield RUNS[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Judge(CONTRACT, tickets()).score_many(
            runs(), evidence=Evidence(folder=tmp_path / "b", key=made / "key")
        )
    assert (tmp_path / "b" / "rollouts").stat().st_size
    with pytest.raises(BundleError, match="cannot be read"):
        open_batch(tmp_path / "b", trusted(made))


def test_a_contract_that_does_not_fit_ends_it(made: Path, tmp_path: Path) -> None:
    evidence = Evidence(folder=tmp_path / "b", key=made / "key")
    with pytest.raises(ContractError):
        Judge(CONTRACT.replace("status", "stat"), tickets()).score_many(RUNS, evidence=evidence)


def test_where_much_differs_the_state_after_is_kept_as_chunks(made: Path, tmp_path: Path) -> None:
    flood = tickets(7, notes=300)
    recorded(tmp_path / "b", made / "key", [tickets(7), flood, tickets(7)])
    opener = open_batch(tmp_path / "b", trusted(made))
    sizes = [end - start for start, end, _ in opener.batch.records.places]
    assert "states" in opener.batch.records.record(1)["after"]
    assert max(sizes) < 1500
    assert opener.judged(1).judgement.verdict is Verdict.DIVERGE
    chunks = (tmp_path / "b" / "chunks").rglob("*.arrow")
    [chunk] = [path for path in chunks if b"note 299" in path.read_bytes()]
    chunk.unlink()
    with pytest.raises(BundleError, match="chunk"):
        open_batch(tmp_path / "b", trusted(made))
    assert opener.judged(2).judgement.verdict is Verdict.MATCH


def test_states_by_path_are_recorded_too(made: Path, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.db" for name in "abc"]
    for path, status in zip(paths, ("open", "closed", "lost"), strict=True):
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE ticket (id INTEGER PRIMARY KEY, status TEXT)")
            db.executemany("INSERT INTO ticket VALUES (?, ?)", [(7, status), (8, "open")])
        db.close()
    judge = Judge(CONTRACT.partition("allow:")[0], paths[0])
    afters = [*paths[1:], tmp_path / "none.db"]
    evidence = Evidence(folder=tmp_path / "b", key=made / "key", at=NOON)
    found = judge.score_many(afters, evidence=evidence, workers=2)
    assert [score.verdict.value for score in found] == ["MATCH", "DIVERGE", "INCONCLUSIVE"]
    opener = open_batch(tmp_path / "b", trusted(made))
    assert len(opener.batch.records.befores) == 1
    assert "rows" in opener.batch.records.record(0)["after"]
    for number in (0, 1):
        alone = judge.judge(afters[number]).bundle
        assert opener.judged(number).bundle.data("judgement.json") == alone.data("judgement.json")


# --- attacks ---


def frames(folder: Path) -> list[bytes]:
    data = (folder / "rollouts").read_bytes()
    found = []
    while data:
        end = 6 + struct.unpack(">I", data[:4])[0]
        found.append(data[:end])
        data = data[end:]
    return found


def _put(folder: Path, pieces: list[bytes]) -> None:
    (folder / "rollouts").write_bytes(b"".join(pieces))


def befores_of(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.glob("before-*.json"))]


def _changed(folder: Path, number: int, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The frame of a record with a change in it."""
    befores = befores_of(folder)
    record = json.loads(sealed.read_records(b"".join(frames(folder)), befores).text(number))
    change(record)
    return sealed.frame(record, befores)[0]


Attack: TypeAlias = Callable[[Path], object]


def _bomb() -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    packed = packer.compress(bytes(sealed.MAX_RECORD_BYTES + 1)) + packer.flush()
    return struct.pack(">IH", len(packed), 0) + packed


def of_another(folder: Path) -> bytes:
    recorded(folder.parent / "other", folder.parent / "key", [tickets(7, 9)] * 5)
    return frames(folder.parent / "other")[1]


def framed(other: Callable[[list[bytes]], list[bytes]]) -> Attack:
    """The records are others, made of those that there are."""
    return lambda folder: _put(folder, other(frames(folder)))


def second(other: Callable[[Path], bytes]) -> Attack:
    """The second record is another one."""

    def attack(folder: Path) -> None:
        first, _, *rest = frames(folder)
        _put(folder, [first, other(folder), *rest])

    return attack


def edited(pattern: str, old: bytes, new: bytes, most: int = -1) -> Attack:
    """In the one file that has them, these bytes are others."""

    def attack(folder: Path) -> None:
        [path] = [each for each in folder.glob(pattern) if old in each.read_bytes()]
        path.write_bytes(path.read_bytes().replace(old, new, most))

    return attack


BETTER = {"verdict": "MATCH", "reward": 1}
ATTACKS: dict[str, Attack] = {
    "one is left out": framed(lambda pieces: pieces[:1] + pieces[2:]),
    "the last is left out": framed(lambda pieces: pieces[:-1]),
    "one is there again": framed(lambda pieces: [*pieces, pieces[0]]),
    "two are swapped": framed(lambda pieces: [pieces[1], pieces[0], *pieces[2:]]),
    "another verdict": second(lambda folder: _changed(folder, 1, lambda r: r.update(BETTER))),
    "a row less": second(
        lambda folder: _changed(folder, 1, lambda r: r["after"]["rows"][0][2].pop())
    ),
    "one of another batch": second(of_another),
    "the last is cut": framed(lambda pieces: [*pieces[:-1], pieces[-1][:-3]]),
    "bytes beyond": framed(lambda pieces: [*pieces, b"\0\0\0"]),
    "none at all": framed(lambda _: []),
    "a huge frame": framed(lambda pieces: [b"\xff" * 4 + pieces[0][4:], *pieces[1:]]),
    "a bomb": framed(lambda pieces: [_bomb(), *pieces[1:]]),
    "another state before": framed(
        lambda pieces: [pieces[0][:4] + b"\0\x07" + pieces[0][6:], *pieces[1:]]
    ),
    "the manifest": edited("manifest.json", b'"MATCH":1', b'"MATCH":9'),
    "the contract": edited("contract.yaml", b"7", b"8"),
    "the secret": lambda folder: (folder / "secret").write_bytes(bytes(32)),
    "the state before": edited("before-0.json", b'"root":"', b'"root":"0', 1),
    "a chunk": edited("chunks/**/*.arrow", b"openopen", b"openopem"),
    "a rollout kept whole": lambda folder: (folder / "whole" / "2").rename(folder / "whole" / "x"),
}


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_batch_that_was_changed_is_refused(copy: Path, attack: str) -> None:
    trust = trusted(copy)
    open_batch(copy / "batch", trust)
    ATTACKS[attack](copy / "batch")
    with pytest.raises(BundleError):
        open_batch(copy / "batch", trust)


def test_a_batch_by_another_key_or_out_of_its_time_is_refused(made: Path, tmp_path: Path) -> None:
    other = generate(tmp_path / "key").public
    with pytest.raises(BundleError, match="not trusted"):
        open_batch(made / "batch", (Signer("Eve", other, ("evaluator",), None, None),))
    [ada] = trusted(made)
    with pytest.raises(BundleError, match="not valid at"):
        open_batch(made / "batch", (Signer("Ada", ada.key, ada.roles, None, NOON),))
    with pytest.raises(BundleError, match="not trusted as evaluator"):
        open_batch(made / "batch", (Signer("Ada", ada.key, ("reviewer",), None, None),))


def signed_again(folder: Path, pieces: list[bytes], **facts: Any) -> Opener:
    """The batch of other records, signed by who holds the key."""
    batch, key = folder / "batch", load_key(folder / "key")
    _put(batch, pieces)
    befores = befores_of(batch)
    records = sealed.read_records(b"".join(pieces), befores)
    texts = [records.text(number) for number in range(len(records))]
    verdicts: dict[str, int] = {}
    for text in texts:
        name = json.loads(text)["verdict"]
        verdicts[name] = verdicts.get(name, 0) + 1
    manifest = _manifest(batch)
    manifest |= {
        "root": log_root([entry_hash(text) for text in texts]).hex(), "size": len(texts),
        "verdicts": verdicts,
    }  # fmt: skip
    _write(batch, {**manifest, **facts}, key)
    return open_batch(batch, trusted(folder))


def _write(batch: Path, manifest: Any, key: SigningKey) -> None:
    for name, data in sealed.sign_batch(manifest, key).items():
        (batch / name).write_bytes(data)


def test_who_holds_the_key_cannot_sign_another_verdict_or_leave_a_row_out(copy: Path) -> None:
    pieces = frames(copy / "batch")

    def better(record: dict[str, Any]) -> None:
        record |= {"verdict": "MATCH", "reward": 1, "parts": {"frame": [1, 1], "require": [1, 1]}}

    def without(record: dict[str, Any]) -> None:
        record["after"]["rows"][0][2].pop()

    def as_before(record: dict[str, Any]) -> None:
        without(record)
        state = json.loads(sealed.read_records(b"".join(pieces), befores).text(0))["after"]
        record["after"] = state

    befores = befores_of(copy / "batch")
    for change, said in (
        (better, "its verdict is another"),
        (without, "do not make the state"),
        (as_before, "do not give its state roots"),
        (lambda record: record["parts"].update(require=[0, 1]), "its parts is another"),
        (lambda record: record.update(answer={"answer": 5}), "rollout 1"),
        (lambda record: record["after"].update(more=1), "in another way"),
        (lambda record: record.update(after=[]), "the state after"),
    ):
        changed = [pieces[0], _changed(copy / "batch", 1, change), *pieces[2:]]
        opener = signed_again(copy, changed)
        assert opener.judged(0).judgement.verdict is Verdict.MATCH
        with pytest.raises(BundleError, match=said):
            opener.judged(1)
        _put(copy / "batch", pieces)


@pytest.mark.parametrize(
    "facts",
    [
        {"size": 10**15},
        {"size": True},
        {"root": "0"},
        {"whole": [[10**9, "0" * 64, []]]},
        {"whole": [[0, "0" * 64]]},
        {"files": {"../key": "0" * 64}},
        {"files": {}},
        {"at": "2026-01-05"},
        {"format": "statediff/sealed/1"},
        {"more": 1},
    ],
)
def test_a_signed_manifest_of_another_form_is_refused(copy: Path, facts: dict[str, Any]) -> None:
    with pytest.raises(BundleError):
        signed_again(copy, frames(copy / "batch"), **facts)


def test_a_batch_is_no_sealed_bundle_and_no_sealed_bundle_a_batch(copy: Path) -> None:
    """One envelope counts for one kind of manifest."""
    data = (copy / "batch" / "manifest.json").read_bytes()
    key = load_key(copy / "key")
    (copy / "batch" / "envelope.json").write_bytes(
        enveloped(v.statement(data, {}), key.public, key.sign)
    )
    with pytest.raises(BundleError, match="another manifest"):
        open_batch(copy / "batch", trusted(copy))


def test_no_hash_beside_a_record_says_what_it_is_of(made: Path, tmp_path: Path) -> None:
    """Equal runs have different leaves, and another key has other roots of the same state."""
    generate(tmp_path / "key")
    recorded(tmp_path / "b", tmp_path / "key")
    ours = open_batch(made / "batch", trusted(made)).batch
    theirs = open_batch(tmp_path / "b", trusted(tmp_path)).batch
    assert not set(ours.hashes) & set(theirs.hashes)
    assert ours.records.record(0)["roots"] != theirs.records.record(0)["roots"]
    again = {**ours.records.record(0), "salt": "0" * 32}
    assert entry_hash(write(again)) not in ours.hashes


# --- the law: a record makes the capture after again ---

CELLS = st.one_of(
    st.integers(-3, 3), st.booleans(), st.none(), st.sampled_from(["", "a", "ä\u2028", "7"]),
    st.lists(st.integers(0, 1), max_size=2), st.sampled_from([0.5, -0.0, 1e300]),
)  # fmt: skip
KEYED = st.dictionaries(st.integers(0, 5), st.fixed_dictionaries({"v": CELLS, "w": CELLS}))
KEYLESS = st.lists(st.fixed_dictionaries({"v": CELLS}), max_size=4)
STATES = st.builds(
    lambda keyed, rows: {"a": [{"id": k, **row} for k, row in keyed.items()], "b": rows},
    KEYED,
    KEYLESS,
)


@given(STATES, STATES)
def test_a_record_makes_the_capture_after_again(one: Any, two: Any) -> None:
    kept = keep(one, None, None)
    before, after = kept.captures(two)
    store = MemoryChunks()
    rec.put_states(before, store)
    document = json.loads(write(rec.before_document(before, "")))
    base = rec.before_from(document, store)
    assert base == before
    told = json.loads(write(rec.after_document(before, after, store)))
    again = rec.after_from(told, base, store)
    assert rec.after_document(base, again, None) == told
    assert [part.reading for part in again.parts] == [part.reading for part in after.parts]
    for found, part in zip(again.parts, after.parts, strict=True):
        assert found.state.digest() == part.state.digest()
        assert found.state.schema == part.state.schema


def test_the_bounds_are_those_that_the_documents_say() -> None:
    assert (rec.FEW_ROWS, rec.INLINE_BYTES, MOST_WHOLE) == (64, 16 * 1024, 1000)
