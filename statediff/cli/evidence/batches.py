"""`batch`, and `verify` of one: what a folder of evidence says of many rollouts, and of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from statediff.cli.options import JsonFlag, TrustOption, argument, flag, opt, option
from statediff.cli.output import emit, print_result
from statediff.errors import BundleError, NotReplayable, UsageError
from statediff.evidence.keys import load_trust
from statediff.model.values import printable
from statediff.workspace.batches import Opener, open_batch
from statediff.workspace.folders import keep_bundle, shown

VERIFICATION: Final = "statediff/batch-verification/1"
OPENED: Final = "statediff/batch-opened/1"
WITHHELD: Final = 3


@dataclass(frozen=True, kw_only=True)
class RolloutOptions:
    """The rollouts of a batch that are judged again."""

    rollout: list[int] | None = opt("N", "Of a batch: judge this one again; repeatable.")
    every: bool = flag("Of a batch: judge every rollout again.")

    def require_none(self) -> None:
        """`UsageError` where rollouts are named of what is no batch."""
        if self.rollout or self.every:
            raise UsageError("--rollout and --every are for a batch of `score_many`")

    def of(self, size: int) -> list[int]:
        """The numbers of the rollouts. `UsageError` where there is no such one."""
        numbers = list(range(size)) if self.every else self.rollout or []
        for number in numbers:
            require_rollout(number, size)
        return numbers


LIMITS: Final = (
    "not shown by this: that every rollout was recorded, and that who captured and signed said "
    "the truth"
)
"""The limits of a signature over a batch; docs/trust.md has all of it."""


def require_rollout(number: int, size: int) -> None:
    """The batch has a rollout of that number. `UsageError`."""
    if not 0 <= number < size:
        raise UsageError(f"there is no rollout {number} in a batch of {size}; they begin with 0")


def verify_batch(folder: Path, trust: Path, asked: RolloutOptions, *, as_json: bool) -> int:
    """Check a batch, and judge what was asked for again; the exit code of `verify`."""
    try:
        opener = _opener(folder, trust)
        again = {
            number: _again(opener, number) for number in asked.of(opener.batch.manifest["size"])
        }
    except BundleError as error:
        if as_json:
            emit({"schema": VERIFICATION, "status": "INVALID", "why": str(error)})
            return 4
        raise BundleError(printable(f"INVALID: {shown(folder)}: {error}")) from error
    manifest = opener.batch.manifest
    unread = [number for number, (verdict, _) in again.items() if verdict is None]
    status = "NOT_REPLAYABLE" if unread else "VALID"
    counts = ", ".join(f"{name} {count}" for name, count in sorted(manifest["verdicts"].items()))
    lines = [
        f"{status}  {shown(folder)}",
        f"signed by {opener.batch.signer}; sealed {manifest['at']}",
        f"{manifest['contract']}@{manifest['contract_version']}, kernel {manifest['kernel']}",
        f"rollouts: {manifest['size']}; {counts or 'no verdict'}",
        f"root {manifest['root']}; whole bundles: {len(manifest['whole'])}",
        *(line for _, line in again.values()),
        f"judged again: {len(again) - len(unread)} of {manifest['size']}",
        LIMITS,
    ]
    document = {
        "schema": VERIFICATION,
        "status": status,
        "signers": [opener.batch.signer],
        **{name: manifest[name] for name in _SAID},
        "rollouts": [
            {"rollout": number, "verdict": verdict} for number, (verdict, _) in again.items()
        ],
    }
    print_result(document, "\n".join(map(printable, lines)), as_json=as_json)
    return WITHHELD if unread else 0


_SAID: Final = (
    "at", "contract", "contract_version", "kernel", "root", "size", "verdicts", "whole",
)  # fmt: skip


def _opener(folder: Path, trust: Path) -> Opener:
    return open_batch(folder, load_trust(trust))


def _again(opener: Opener, number: int) -> tuple[str | None, str]:
    """The verdict and a line about it; None where what it was judged from is not at hand."""
    try:
        verdict = opener.judged(number).judgement.verdict.value
    except NotReplayable as error:
        return None, str(error)
    return verdict, f"rollout {number}: {verdict}, judged again from its record"


def open_rollout(
    batch: Annotated[Path, argument("BATCH", "The folder that `score_many` wrote.")],
    rollout: Annotated[int, argument("N", "Which rollout; the first is 0.")],
    trust: TrustOption,
    out: Annotated[Path, option("BUNDLE", "The new folder of its bundle.", "--out")],
    as_json: JsonFlag = False,
) -> None:
    """Make the whole bundle of one rollout, for `show`, `replay` and `sign`.

    The batch is verified first, and the rollout is judged again.
    """
    opener = _opener(batch, trust)
    require_rollout(rollout, opener.batch.manifest["size"])
    try:
        bundle = opener.judged(rollout).bundle
    except NotReplayable as error:
        raise NotReplayable(printable(f"{shown(batch)}: {error}")) from error
    keep_bundle(bundle, out)
    document: dict[str, Any] = {
        "schema": OPENED,
        "bundle": shown(out),
        "rollout": rollout,
        "verdict": bundle.manifest["verdict"],
        "digest": bundle.digest,
    }
    text = f"{shown(out)}: rollout {rollout}, {bundle.manifest['verdict']}"
    print_result(document, text, as_json=as_json)


COMMANDS: Final[tuple[tuple[str, Callable[..., object]], ...]] = (("open", open_rollout),)
