"""A bundle of an older kernel: it verifies, opens and is shown, and a replay says what it needs.

`fixtures/bundles/kernel-6/` was sealed by kernel 6, whose findings and clauses held sentences.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from statediff._version import __version__
from statediff.errors import NotReplayable
from statediff.evidence import verify as v
from statediff.evidence.package import Bundle
from statediff.evidence.seal import opened
from statediff.kernel import KERNEL, replay
from statediff.kernel.trial import RELEASES
from statediff.model.sentences import TEMPLATES
from statediff.reports.wording.worded import worded_judgement
from tests.judging import item, run

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "bundles" / "kernel-6"
SEALED, TRUST = FOLDER / "sealed", FOLDER / "trust.json"


def bundle() -> Bundle:
    files = {path.name: path.read_bytes() for path in SEALED.iterdir()}
    return opened(v.verify(files, v.read_trust(TRUST.read_bytes())))


def test_it_verifies_and_opens_with_the_counterexample_that_was_sealed() -> None:
    found = bundle()
    assert (found.manifest["kernel"], found.manifest["verdict"]) == ("6", "DIVERGE")
    judged = found.document("judgement.json")
    assert all(each["sentence"] for each in (*judged["clauses"], *judged["findings"]))


def test_it_is_shown_in_the_words_that_it_holds() -> None:
    found = bundle()
    judged = found.document("judgement.json")
    worded = worded_judgement(found)
    for finding in worded["findings"]:
        assert finding.pop("origin") is None  # nothing was left open
    assert worded == judged


def test_a_replay_names_the_kernel_and_the_release_that_has_it() -> None:
    needed = rf"kernel 6, this is kernel {KERNEL}; install statediff 0\.1\.0"
    with pytest.raises(NotReplayable, match=needed):
        replay(bundle())


def test_every_kernel_of_a_release_is_in_the_table() -> None:
    assert list(RELEASES)[-1] == KERNEL
    assert list(RELEASES) == sorted(RELEASES, key=int)


def test_the_version_under_development_is_the_release_of_its_kernel() -> None:
    assert __version__.partition(".dev")[0] == RELEASES[KERNEL]


def test_a_template_that_is_worded_differently_changes_no_bundle_and_no_replay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = "require:\n  - {id: made, create: item, set: {n: 3}}\n"
    before, after = {"item": [item(1)]}, {"item": [item(1), item(2, 4)]}
    done = run(body, before, after)
    said = worded_judgement(done.bundle)
    for reason in TEMPLATES:
        monkeypatch.setitem(TEMPLATES, reason, f"in other words, {reason}")  # type: ignore[index]
    again = run(body, before, after)
    assert again.bundle == done.bundle
    assert replay(done.bundle) == done.judgement
    other = worded_judgement(done.bundle)
    assert [f["sentence"] for f in other["findings"]] == [
        "in other words, changes", "in other words, too-few",
    ]  # fmt: skip
    assert other["findings"] != said["findings"]
    assert other["deltas"] == said["deltas"]


def test_no_file_of_a_bundle_holds_a_sentence() -> None:
    after = {"item": [item(1), item(2, 4)]}
    done = run("require: [{id: made, create: item, set: {n: 3}}]\n", {"item": [item(1)]}, after)
    texts = json.dumps(done.bundle.document("judgement.json"))
    for finding in done.judgement.findings:
        assert finding.sentence not in texts
    assert '"sentence"' not in texts
