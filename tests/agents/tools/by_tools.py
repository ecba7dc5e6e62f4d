"""Agents that know nothing but the tools of a sandbox, one for each task; each does it right."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from statediff.agents.function import as_answer
from statediff.agents.recording import recording
from statediff.agents.tools.of import tool_table
from statediff.agents.tools.table import Reply
from statediff.agents.trial import AgentRun, Trial
from statediff.capture.source import Clock

Call = Callable[..., Any]

COLUMNS = "order_id, to_method_id, cents, reason, by_staff_id, created_at"


@dataclass(frozen=True)
class Toolsmith:
    """An agent in this process that is handed a way to call tools, and nothing else."""

    act: Callable[[Call, Mapping[str, Any]], Any]
    name: str = "by-tools"

    def run(self, trial: Trial, clock: Clock) -> AgentRun:
        started_at = clock()
        with recording(clock) as recorder:
            table = tool_table(trial.urls, recorder)

            def call(tool: str, **arguments: Any) -> Any:
                reply: Reply = table.call(tool, arguments)
                assert not reply.is_error, f"{tool}: {reply.text}"
                return json.loads(reply.text)

            answer = as_answer(self.act(call, trial.inputs))
            table.close()
            recorder.close()
            return AgentRun(answer, recorder.trace(), started_at, clock())


def refund(call: Call, given: Mapping[str, Any]) -> Any:
    order = given["order"]
    facts = call(
        "shop_db_query",
        sql="SELECT o.paid_with, c.email, (SELECT value FROM settings WHERE name = 'business_time')"
        " AS now, (SELECT SUM(quantity * unit_cents) FROM order_lines"
        f" WHERE order_id = {order} AND returned_at IS NOT NULL) AS cents,"
        " (SELECT MIN(by_staff_id) FROM approvals WHERE order_id = o.id) AS approver"
        f" FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.id = {order}",
    )["rows"][0]
    cents = int(facts["cents"])
    values = f"{order}, {facts['paid_with']}, {cents}, 'returned', {facts['approver']}"
    values += f", '{facts['now']}'"
    call("shop_db_execute", statements=[f"INSERT INTO refunds ({COLUMNS}) VALUES ({values})"])
    call(
        "outbox_send", sender="care@hearthside.example", to=[facts["email"]],
        subject="Your refund", body="It is on its way.",
    )  # fmt: skip
    return {"refunded_cents": cents}


def close_case(call: Call, given: Mapping[str, Any]) -> Any:
    case = given["case"]
    call("tracker_update_issue", issue=case, status="closed", resolution="fixed", closed_now=True)
    return {"case": case, "resolution": "fixed"}


def merge(call: Call, given: Mapping[str, Any]) -> Any:
    stays, duplicate = given["stays"], given["duplicate"]
    watch = {
        login for each in (stays, duplicate)
        for login in call("tracker_get_issue", issue=each)["watchers"]
    }  # fmt: skip
    call("tracker_update_issue", issue=stays, watchers=sorted(watch))
    call(
        "tracker_update_issue", issue=duplicate, duplicate_of=stays, status="closed",
        resolution="duplicate", closed_now=True,
    )  # fmt: skip
    return {"stays": stays, "closed": duplicate}


def reassign(call: Call, given: Mapping[str, Any]) -> Any:
    call("tracker_update_issue", issue=given["issue"], assignee=given["to"])
    said = call("tracker_comment", issue=given["issue"], body="I am away from Monday.")
    return {"issue": given["issue"], "assignee": given["to"], "comment": said["comment"]}


def refuse(call: Call, given: Mapping[str, Any]) -> Any:
    said = call("tracker_comment", issue=given["issue"], body="I cannot: a lead changes roles.")
    return {"decision": "refused", "comment": said["comment"]}


def clean_branches(call: Call, given: Mapping[str, Any]) -> Any:
    merged = []
    for name in call("origin_refs")["branches"]:
        if name.startswith(("feature/", "fix/")):
            own = call("origin_log", revision=name, without=given["branch"], most=1)["commits"]
            if not own:
                call("origin_delete_branch", name=name)
                merged.append(name)
    return {"deleted": merged}


def tag_release(call: Call, given: Mapping[str, Any]) -> Any:
    version, branch, tag = given["version"], given["branch"], given["tag"]
    changelog = call("origin_read_file", path="CHANGELOG.md", revision=branch)["content"]
    who = {"name": given["author"], "email": given["email"]}
    made = call(
        "origin_commit", branch=branch, message=f"Release {version}\n", author=who,
        write={"VERSION": f"{version}\n",
               "CHANGELOG.md": changelog.replace("## Unreleased", f"## {version}")},
    )["commit"]  # fmt: skip
    call("origin_create_tag", name=tag, at=made, message=f"unitkit {version}\n", tagger=who)
    return {"tag": tag, "commit": made}


TASKS: Mapping[str, Callable[[Call, Mapping[str, Any]], Any]] = {
    "shop/refund-returned-order": refund,
    "helpdesk/close-case": close_case,
    "helpdesk/merge-duplicates": merge,
    "helpdesk/reassign-with-comment": reassign,
    "helpdesk/refuse-forbidden": refuse,
    "repo/clean-merged-branches": clean_branches,
    "repo/tag-release": tag_release,
}
