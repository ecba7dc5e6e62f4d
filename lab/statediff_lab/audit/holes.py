"""Each run on which a verifier is wrong, as a bundle that replays, beside its contract."""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path

from statediff.errors import BundleError, StatediffError, StorageError
from statediff.evidence.package import save
from statediff.kernel import evaluate
from statediff.model.verdict import Verdict
from statediff_lab.audit.tries import Exhibit, Heard, judged


class Holes:
    """The folder of one task's holes; without one, nothing is written."""

    def __init__(self, root: Path | None, task: str) -> None:
        self._root = root
        name = re.sub(r"[^A-Za-z0-9]+", "-", task).strip("-")[:80]
        # Two tasks never share a folder, however they are called.
        own = "" if name == task else f"-{hashlib.sha256(task.encode()).hexdigest()[:8]}"
        self._name = f"{name}{own}".strip("-")
        self._has_any = False

    def clear(self) -> None:
        """Remove what an audit of the task that was killed left there."""
        if self._root is not None:
            shutil.rmtree(self._root / self._name, ignore_errors=True)

    def keep(self, exhibit: Exhibit, heard: Heard, number: int) -> tuple[Verdict | None, str]:
        """The contract's verdict on the run, and the place of its bundle under the root.

        The state that the verifier was shown lies beside the bundle.
        """
        run = heard.run
        if run is None:
            return None, ""
        if self._root is None:
            return judged(run), ""
        name = f"{self._name}/{number:03d}-{re.sub(r'[^a-z-]+', '-', exhibit.kind)[:40]}"
        try:
            done = evaluate(
                run.contract,
                run.before,
                run.after,
                trace=run.trace,
                answer=run.answer,
                timeline=run.timeline,
                facts=run.facts,
            )
        except StatediffError:
            return None, ""
        try:
            save(done.bundle, self._root / name)
            for source, path in heard.files.items():
                place = self._root / f"{name}-shown"
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
                if path.is_dir():
                    shutil.copytree(path, place / source, symlinks=True)
                else:
                    shutil.copyfile(path, place / f"{source}{path.suffix}")
        except (BundleError, OSError) as error:
            raise StorageError(f"{self._root / name}: cannot be written: {error}") from error
        self._has_any = True
        return done.judgement.verdict, name

    def describe(self, contract: str, schema: str = "") -> None:
        """The contract that would have caught them, and its schema, lie beside the bundles."""
        if self._root is not None and self._has_any:
            folder = self._root / self._name
            (folder / "contract.yaml").write_text(contract, encoding="utf-8")
            if schema:
                (folder / "schema.yaml").write_text(schema, encoding="utf-8")
