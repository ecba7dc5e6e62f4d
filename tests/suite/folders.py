"""Run folders of real bundles, made fast: one trial is judged, and reissued under many names."""

import json
import multiprocessing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from statediff.cli.main import run as statediff
from statediff.evidence.package import Bundle, load, make, save
from statediff.suite.indexing import index_run
from statediff.suite.records import Trial
from statediff.suite.store import Store, open_store
from statediff.trial_folder import write_run
from statediff.workspace.runfolders import run_facts
from statediff.workspace.stores import look

CONTRACT = """\
contract: {name}
version: {version}
owner: support
intent: Close ticket 7 and change nothing else.
inputs: {{ticket: 7}}
require:
  - id: closed
    update: ticket
    where: it.id == input.ticket
    set: {{status: closed}}
"""
STATES = {"MATCH": "closed", "DIVERGE": "open"}


class Folders:
    """Makes run folders under `base`; bundles of one contract and verdict are judged once."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self._bundles: dict[tuple[str, str, str], Bundle] = {}

    def bundle(self, name: str, verdict: str, version: str = "1.0.0") -> Bundle:
        key = (name, verdict, version)
        if key not in self._bundles:
            place = self.base / "judged" / f"{name.replace('/', '-')}-{verdict}-{version}"
            place.mkdir(parents=True)
            (place / "c.yaml").write_text(CONTRACT.format(name=name, version=version))
            for side, status in (("a", "open"), ("b", STATES.get(verdict, "closed"))):
                rows = [{"id": 7, "status": status}]
                (place / f"{side}.json").write_text(json.dumps({"ticket": rows}))
            statediff([
                "judge", str(place / "c.yaml"), "--before", str(place / "a.json"), "--after",
                str(place / "b.json"), "--out", str(place / "kept"),
            ])  # fmt: skip
            self._bundles[key] = load(place / "kept")
        return self._bundles[key]

    def run(
        self, name: str, ends: Mapping[str, Sequence[str]], *, version: str = "1.0.0",
        agent: str = "careful", times: int | None = None,
    ) -> Path:  # fmt: skip
        """A run: for each contract how its trials ended; `""`, and what is beyond, was not run."""
        folder = self.base / "runs" / name
        digests = {
            f"{contract}@{version}": self.bundle(contract, "MATCH", version).manifest[
                "contract_digest"
            ]
            for contract in ends
        }
        scheduled = max(map(len, ends.values())) if times is None else times
        write_run(folder, name, digests, {"trials": scheduled, "agents": [agent]})
        for contract, verdicts in ends.items():
            for number, verdict in enumerate(verdicts, 1):
                self.end(folder, contract, number, verdict, version=version, agent=agent)
        return folder

    def end(
        self, folder: Path, contract: str, number: int, verdict: str, *,
        version: str = "1.0.0", agent: str = "careful",
    ) -> None:  # fmt: skip
        """The trial ends so."""
        trial = folder / "trials" / f"{contract.replace('/', '-')}-{number}"
        if not verdict:
            return
        trial.mkdir(parents=True, exist_ok=True)
        if verdict == "fault":
            (trial / "fault.txt").write_text("the tracker did not start\n")
        elif verdict == "damaged":
            (trial / "bundle").mkdir()
        elif verdict != "unfinished":
            bundle = self.bundle(contract, verdict, version)
            save(reissued(bundle, trial.name, str(number), agent), trial / "bundle")


def remade(bundle: Bundle, **metrics: Any) -> Bundle:
    """A bundle whose judgement says other numbers; nothing else in it is changed."""
    documents = {name: bundle.document(name) for name in bundle.files if name.endswith(".json")}
    documents["judgement.json"]["metrics"] |= metrics
    manifest = {n: v for n, v in bundle.manifest.items() if n not in ("format", "files")}
    return make(documents, bundle.files["contract.yaml"], manifest)


def reissued(bundle: Bundle, trial: str, seed: str, agent: str = "careful", **facts: Any) -> Bundle:
    """The same judgement, of another trial."""
    documents = {name: bundle.document(name) for name in bundle.files if name.endswith(".json")}
    documents["trial.json"] |= {"id": trial, "seed": seed, "agent": agent}
    manifest = {n: v for n, v in bundle.manifest.items() if n not in ("format", "files")}
    return make(documents, bundle.files["contract.yaml"], {**manifest, "trial": trial, **facts})


def write_index(url: str, folder: Path) -> None:
    with open_store(url) as store:
        indexed(store, folder)


def write_at_once(url: str, runs: Sequence[Path]) -> None:
    """Three processes index two runs in one store at once."""
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_index, args=(url, runs[n % 2])) for n in range(3)]
    for each in writers:
        each.start()
    for each in writers:
        each.join(120)
    assert [each.exitcode for each in writers] == [0] * 3


def indexed(store: Store, folder: Path) -> dict[str, Trial]:
    run = index_run(store, folder, run_facts(folder), look)
    return {trial.name: trial for trial in store.trials(run.id, with_findings=True)}
