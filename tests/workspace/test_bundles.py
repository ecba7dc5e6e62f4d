"""Bundles by a name, copies of runs, and the samples that reviewers get."""

import os
from pathlib import Path

import pytest
from statediff_lab.samples import draw_trials

from statediff.errors import BundleError, UsageError
from statediff.evidence.package import save
from statediff.workspace.bundles import load_bundle
from tests.reports.test_html import BUNDLES


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of three trials with different verdicts."""
    for name in ("match", "forbidden", "unknown"):
        save(BUNDLES[name], tmp_path / "r" / "trials" / name / "bundle")
    (tmp_path / "r" / "run.json").write_bytes(b'{"form":"x"}')
    return tmp_path


def test_a_seed_draws_the_same_trials_in_the_same_order(run: Path) -> None:
    def order(seed: int, size: int | None = None) -> list[str]:
        return [each.folder.name for each in draw_trials([run / "r"], size, seed)]

    assert order(1) == order(1)
    assert sorted(order(1)) == ["forbidden", "match", "unknown"]
    assert len({tuple(order(seed)) for seed in range(20)}) > 1
    assert order(1, 2) == [name for name in order(1) if name in order(1, 2)]


def test_a_bundle_is_named_by_its_folder_or_its_trials(run: Path) -> None:
    trial = run / "r" / "trials" / "match"
    bundle, folder = load_bundle(trial)
    assert (bundle.digest, folder) == (BUNDLES["match"].digest, trial / "bundle")
    assert load_bundle(folder)[0].digest == bundle.digest
    with pytest.raises(UsageError, match="found nothing"):
        load_bundle(run / "nowhere")
    with pytest.raises(UsageError, match="is not sealed"):
        load_bundle(trial, trust=run / "trust.json")
    with pytest.raises(UsageError, match=r"a run; name one of its trials: .*forbidden, .*match, "):
        load_bundle(run / "r")
    (folder / "manifest.json").rename(folder / "elsewhere")
    with pytest.raises(BundleError, match=r"no bundle; its manifest\.json is missing"):
        load_bundle(folder)
    (folder / "elsewhere").rename(folder / "manifest.json")
    (folder / "judgement.json").write_bytes(b"{}")
    with pytest.raises(BundleError, match="judgement"):
        load_bundle(trial)


def test_a_folder_with_bundles_below_names_the_newest_and_one_without_says_so(run: Path) -> None:
    newest = run / "r" / "trials" / "unknown" / "bundle" / "manifest.json"
    os.utime(newest, (2_000_000_000, 2_000_000_000))
    (run / "r" / "run.json").unlink()
    for folder in (run, run / "r"):
        with pytest.raises(UsageError, match=r"the newest of 3 below it: \S*/trials/unknown$"):
            load_bundle(folder)
    (run / "task").mkdir()
    (run / "task" / "contract.yaml").write_text("contract: a/b")
    with pytest.raises(UsageError, match="not a bundle, and none is in it"):
        load_bundle(run / "task")
