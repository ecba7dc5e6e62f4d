"""A help desk's agent in three cases, each with tickets of its own."""

from typing import Any

from pydantic_evals import Case, Dataset
from statediff_hosts.pydantic_evals import ContractVerdict, judged_by

DESKS: dict[str, Any] = {
    name: {"ticket": [{"id": number, "status": "open"} for number in (7, 8)]}
    for name in ("careful", "careless", "cut off")
}


async def agent(name: str) -> str:
    """Closes ticket 7, or both, or the application goes down meanwhile."""
    for ticket in DESKS[name]["ticket"]:
        if ticket["id"] == 7 or name == "careless":
            ticket["status"] = "closed"
    if name == "cut off":
        DESKS[name] = {"user": []}
    return "done"


dataset = Dataset(
    name="desk",
    cases=[Case(name=name, inputs=name) for name in DESKS],
    evaluators=[ContractVerdict()],
)
report = dataset.evaluate_sync(
    agent,
    progress=False,
    lifecycle=judged_by("close-ticket.yaml", lambda case: DESKS[case.inputs]),
)
for case in report.cases:
    scores = {name: result.value for name, result in case.scores.items()}
    print(case.name, case.labels["verdict"].value, scores)
average = report.averages()
print("average reward", average.scores["reward"] if average else None)
