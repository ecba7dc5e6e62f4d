"""A trial as one evaluator shows it, for measuring how soon a reader finds what is wrong [SSD §V].

Each view has the intent, and then what that evaluator keeps to point at: the final text only the
answer, raw equality every difference, the contract's diff the clauses and what stands against them,
the whole judge its report. None shows what another one shows and it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from rich.console import Group
from rich.text import Text

from statediff.contract.yaml.reader import read_document
from statediff.evidence.package import Bundle
from statediff.reports.record import Record, delta_name, reading, said
from statediff.reports.text import trial_report
from statediff_lab.reports.blind_case import answer_lines, change, hidden_lines, sections

Lines = list[Text]


def view(bundle: Bundle, evaluator: str, where: str = "the bundle") -> Group:
    """The evaluator's view of the trial; `BundleError`, `KeyError` for one without a view."""
    make = VIEWS[evaluator]
    with reading(where):
        contract = read_document(bundle.files["contract.yaml"], "contract.yaml").value
        intent = [Text(said(contract.get("intent", ""), 2000))]
        parts = {"Intent": intent, **make(Record(bundle))}
        shown = list(sections(parts))
    return Group(*shown, trial_report(bundle, where)) if evaluator == WHOLE else Group(*shown)


def _final_text(record: Record) -> Mapping[str, Lines]:
    return {"What the agent answered": list(answer_lines(record))}


def _raw_equality(record: Record) -> Mapping[str, Lines]:
    judgement = record.judgement
    hidden = [change(entry["delta"]) for entry in judgement["hidden"]]
    return {"What differs": [*map(change, judgement["deltas"]), *hidden]}


def _contract_diff(record: Record) -> Mapping[str, Lines]:
    judgement = record.judgement
    names = {delta["id"]: delta_name(delta) for delta in judgement["deltas"]}
    against = [each for each in judgement["findings"] if each["truth"] == "FAILS"]
    return {
        "What stands against it": [
            Text(f"{said(f['clause'], 100)}: {said(f['sentence'])}").append(
                "".join(f"\n  {names[d]}" for d in f["deltas"] if d in names)
            )
            for f in against
        ],
        "What changed": [change(delta) for delta in judgement["deltas"]],
        "What was left out of the comparison": list(hidden_lines(judgement["hidden"])),
    }


WHOLE: Final = "statediff"
VIEWS: Final[Mapping[str, Callable[[Record], Mapping[str, Lines]]]] = {
    "final-text": _final_text,
    "raw-equality": _raw_equality,
    "contract-diff": _contract_diff,
    WHOLE: lambda _: {},
}
"""The four evaluators of [SSD §V], and what each shows beside the intent."""
