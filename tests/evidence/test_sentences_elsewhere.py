"""A bundle's content is data: no sentence is in it, and kernels are known by their releases."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from statediff._version import __version__
from statediff.kernel import KERNEL, replay
from statediff.kernel.trial import RELEASES
from statediff.model.explanation import Reason
from statediff.model.sentences import WORDED
from statediff.reports.wording.worded import worded_judgement
from tests.judging import item, run


def in_other_words(reason: Reason) -> Callable[..., str]:
    return lambda **_: f"in other words, {reason}"


def test_every_kernel_of_a_release_is_in_the_table() -> None:
    assert list(RELEASES)[-1] == KERNEL
    assert list(RELEASES) == sorted(RELEASES, key=int)


def test_the_version_under_development_is_the_release_of_its_kernel() -> None:
    assert __version__.partition("rc")[0] == RELEASES[KERNEL]


def test_a_template_that_is_worded_differently_changes_no_bundle_and_no_replay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = "require:\n  - {id: made, create: item, set: {n: 3}}\n"
    before, after = {"item": [item(1)]}, {"item": [item(1), item(2, 4)]}
    done = run(body, before, after)
    said = worded_judgement(done.bundle)
    for reason in Reason:
        monkeypatch.setitem(WORDED, reason, in_other_words(reason))  # type: ignore[index]
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
