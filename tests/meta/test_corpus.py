"""The stored corpus: what is kept can be judged again, and says what it said."""

import gzip
import json
import random
from pathlib import Path

import pytest

from statediff.errors import UsageError
from statediff.meta.corpus import StoredPool, TrialPool, build_corpus, corpus_files, replay_corpus
from statediff.meta.metatest import SEEDED, Part, tally
from statediff.meta.mutate import TWINS, seed_faults
from statediff.meta.reference import Reference
from statediff.meta.world import World
from statediff.model.verdict import Verdict
from tests.evidence.mutants import restructured
from tests.meta.test_mutate import BEFORE, TIGHT, reference, watched

CORPUS = Path(__file__).parents[2] / "fixtures" / "corpus"


def digests(trial: Reference) -> object:
    return (
        [(p.reading, p.state.digest()) for p in (*trial.before.parts, *trial.after.parts)],
        [(t.id, t.state.digest()) for t in trial.after.history.transactions],
        trial.after.history.readings, trial.timeline, trial.answer, trial.trace, trial.facts,
        trial.contract.data,
    )  # fmt: skip


@pytest.mark.parametrize("whole", [reference(TIGHT), watched(TIGHT)], ids=["plain", "with history"])
def test_whatever_can_be_seeded_is_read_back_as_it_was(whole: Reference) -> None:
    world = World(whole, whole.judged(), 3)
    mutants = [fault.mutant for fault in seed_faults(world, (*SEEDED, *TWINS))]
    pool = TrialPool()
    base = pool.trial(whole)
    told = [pool.trial(mutant, whole) for mutant in mutants]
    opened = StoredPool(json.loads(json.dumps(pool.document)))
    known = opened.trial(json.loads(json.dumps(base)))
    assert digests(known) == digests(whole)
    for mutant, document in zip(mutants, told, strict=True):
        assert digests(opened.trial(json.loads(json.dumps(document)), known)) == digests(mutant)


@pytest.fixture(scope="module")
def kept() -> bytes:
    return build_corpus(reference(TIGHT), 3, {}, 1)


def altered(kept: bytes, path: Path, change) -> Path:
    document = json.loads(gzip.decompress(kept))
    change(document)
    path.write_bytes(gzip.compress(json.dumps(document).encode()))
    return path


def test_a_corpus_has_of_each_class_a_case_and_a_twin_and_judges_as_it_was_made(
    kept: bytes, tmp_path: Path
) -> None:
    (tmp_path / "a.corpus.gz").write_bytes(kept)
    [path] = corpus_files(tmp_path)
    cases = list(replay_corpus(path))
    found = tally(cases)
    assert found.wrong == ()
    assert found.faults == found.twins == len(found.by_class) >= 12
    assert found.stage_cases >= 5
    assert kept == build_corpus(reference(TIGHT), 3, {}, 1)


def test_a_case_that_gets_another_clause_or_code_than_it_says_is_not_named(
    kept: bytes, tmp_path: Path
) -> None:
    def other(document):
        for case in document["cases"]:
            if case["part"] == Part.FAULT.value:
                case["expected"]["codes"] = ["nothing-of-the-kind"]

    found = tally(replay_corpus(altered(kept, tmp_path / "b.corpus.gz", other)))
    assert found.caught == found.faults > 0
    assert found.named == 0
    assert "nothing-of-the-kind" in found.wrong[0].error


def test_a_damaged_corpus_is_an_error_and_never_a_pass(kept: bytes, tmp_path: Path) -> None:
    def one_cell(document):
        document["tables"][0][4][0][0] = ["int", "4711"]

    def no_table(document):
        document["tables"] = []

    def wrong_base(document):
        document["reference"]["after"] = document["reference"]["before"]

    for change, why in (
        (one_cell, "another digest"), (no_table, "damaged"), (wrong_base, "not MATCH"),
        (lambda document: document.update(schema="other/1"), "expected a corpus"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=why):
            list(replay_corpus(altered(kept, tmp_path / "c.corpus.gz", change)))
    (tmp_path / "d.corpus.gz").write_bytes(b"nothing")
    with pytest.raises(UsageError, match="cannot be read as a corpus"):
        list(replay_corpus(tmp_path / "d.corpus.gz"))
    with pytest.raises(UsageError, match="found none"):
        corpus_files(tmp_path / "nowhere")


def test_a_case_of_nothing_altered_is_refused(kept: bytes, tmp_path: Path) -> None:
    def unaltered(document):
        for case in document["cases"]:
            case["trial"] = {}

    with pytest.raises(UsageError, match="changes nothing"):
        list(replay_corpus(altered(kept, tmp_path / "e.corpus.gz", unaltered)))


@pytest.mark.slow
@pytest.mark.parametrize("domain", ["accounts", "helpdesk", "repo", "shop"])
def test_the_stored_corpus_is_judged_as_it_says(domain: str) -> None:
    found = tally(case for path in corpus_files(CORPUS / domain) for case in replay_corpus(path))
    assert found.wrong == ()
    assert found.is_good


def test_the_stored_corpus_has_all_domains_and_every_class_the_generator_has() -> None:
    kinds: set[str] = set()
    domains: set[str] = set()
    for path in corpus_files(CORPUS):
        document = json.loads(gzip.decompress(path.read_bytes()))
        domains.add(document["reference"]["facts"]["sandbox"])
        kinds |= {case.get("operator", case.get("stage")) for case in document["cases"]}
    assert domains == {"accounts", "helpdesk", "repo", "shop"}
    assert {
        "drop-required", "wrong-value", "wrong-principal", "wrong-entity", "duplicate", "swap",
        "look-alike", "privilege", "false-claim", "unsettled", "stale", "missing", "truncated",
        "contradiction", "clock-skew", "one-natural-key", "unapproved-spelling", "evidence",
    } <= kinds  # fmt: skip
    assert any(kind.startswith("transient-") for kind in kinds)
    assert any(kind.startswith("schema-") for kind in kinds)


def test_a_corpus_of_a_reference_that_does_not_match_is_none() -> None:
    wrong = reference(TIGHT, after=BEFORE)
    assert wrong.judged().verdict is Verdict.DIVERGE
    with pytest.raises(UsageError, match="DIVERGE, not MATCH"):
        build_corpus(wrong, 3, {}, 1)


@pytest.mark.parametrize("whole", [reference(TIGHT), watched(TIGHT)], ids=["plain", "with history"])
def test_a_hostile_corpus_is_an_error_of_the_caller_and_nothing_else(
    whole: Reference, tmp_path: Path, drawn_seed: int
) -> None:
    data = gzip.decompress(build_corpus(whole, 3, {}, 1))
    path = tmp_path / "f.corpus.gz"
    refused = 0
    for number in range(20):
        mutant = restructured(data, random.Random(f"{drawn_seed} {number}")) or b""
        path.write_bytes(gzip.compress(mutant, 1))
        try:
            list(replay_corpus(path, 4, number))
        except UsageError:
            refused += 1
    assert refused, f"nothing was refused: seed {drawn_seed}"
