"""The acts of each task's reference agent, in one place: statements, requests, commits, mails.

`Hands` carry the steps out: with the systems' own clients, or through the tools of an MCP server.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

Given = Mapping[str, Any]
Files = Mapping[str, str]


class Hands(Protocol):
    """One way to reach the systems of the packs. A call of `change` is one transaction."""

    def rows(self, sql: str) -> Sequence[Mapping[str, Any]]:
        """The rows of a query; numbers may be text."""

    def change(self, *statements: str) -> None: ...

    def mail(self, sender: str, to: str, subject: str, body: str) -> None: ...

    def write(self, path: str, text: str) -> None: ...

    def watchers(self, issue: int) -> set[str]: ...

    def update(self, issue: int, **fields: Any) -> None: ...

    def comment(self, issue: int, body: str) -> int: ...

    def refs(self) -> Mapping[str, Mapping[str, str]]:
        """`branches` and `tags`, by name, with the commit of each."""

    def log(self, revision: str) -> Sequence[str]:
        """The last two hundred commits, newest first."""

    def files(self, revision: str) -> Files: ...

    def commit(self, branch: str, message: str, who: tuple[str, str], write: Files) -> str: ...

    def tag(self, name: str, at: str, message: str, who: tuple[str, str]) -> None: ...

    def branch(self, name: str, at: str) -> None: ...

    def delete_branch(self, name: str) -> None: ...


def text(value: object) -> str:
    """A literal of SQL."""
    return "'" + str(value).replace("'", "''") + "'"


SHOP, DESK = "care@hearthside.example", "accounts@larkfield.example"


def one(do: Hands, sql: str) -> Mapping[str, Any]:
    (found,) = do.rows(sql)
    return found


def now(do: Hands) -> str:
    return text(one(do, "SELECT value FROM settings WHERE name = 'business_time'")["value"])


def _order(do: Hands, order: int) -> Mapping[str, Any]:
    return one(
        do,
        "SELECT o.paid_with, c.email, (SELECT SUM(quantity * unit_cents) FROM order_lines WHERE"
        " order_id = o.id AND returned_at IS NOT NULL) AS cents FROM orders o"
        f" JOIN customers c ON c.id = o.customer_id WHERE o.id = {order}",
    )


def _refunded(do: Hands, order: int) -> tuple[int, str]:
    """The order's refund is recorded; how much, and whose address to tell."""
    facts = _order(do, order)
    cents, instant = int(facts["cents"]), now(do)
    do.change(
        "INSERT INTO refunds (order_id, to_method_id, cents, reason, by_staff_id, created_at)"
        f" VALUES ({order}, {facts['paid_with']}, {cents}, 'returned', 2, {instant})",
        f"UPDATE orders SET status = 'partially_refunded', updated_at = {instant}"
        f" WHERE id = {order}",
    )
    return cents, str(facts["email"])


def refund(do: Hands, given: Given) -> Any:
    cents, email = _refunded(do, given["order"])
    do.mail(SHOP, email, "Your refund", "It is on its way.")
    return {"refunded_cents": cents}


def exchange_or_refund(do: Hands, given: Given) -> Any:
    _, email = _refunded(do, given["order"])
    do.mail(SHOP, email, "Return refunded", "Your money is on its way.")
    return {"outcome": "refunded"}


def refuse_late_refund(do: Hands, given: Given) -> Any:
    do.mail(SHOP, str(_order(do, given["order"])["email"]), "Return refused", "Too late.")
    return {"decision": "refused", "refunded_cents": 0}


def add_column(do: Hands, _: Given) -> Any:
    # MariaDB ends a transaction with each change of the schema, so that this is two anywhere.
    do.change("ALTER TABLE orders ADD COLUMN refunded_cents INTEGER")
    do.change(
        "UPDATE orders SET refunded_cents ="
        " (SELECT coalesce(sum(cents), 0) FROM refunds WHERE order_id = orders.id)"
    )
    done = one(do, "SELECT count(*) AS n, sum(refunded_cents) AS cents FROM orders")
    return {"orders": int(done["n"]), "refunded_cents": int(done["cents"])}


def correct_address(do: Hands, given: Given) -> Any:
    values = (f"{name} = {text(given[name])}" for name in ("street", "postcode", "email"))
    do.change(
        f"UPDATE customers SET {', '.join(values)}, updated_at = {now(do)}"
        f" WHERE id = {given['customer']}"
    )
    do.mail(SHOP, given["email"], "Now", f"It is {given['street']}, {given['postcode']}.")
    return {"customer": given["customer"], "email": given["email"]}


def notify_once(do: Hands, given: Given) -> Any:
    people = do.rows(
        "SELECT DISTINCT c.id, c.email FROM customers c"
        " JOIN orders o ON o.customer_id = c.id AND o.status IN ('delivered', 'shipped')"
        " JOIN order_lines l ON l.order_id = o.id JOIN products p ON p.id = l.product_id"
        f" WHERE p.sku = {text(given['sku'])} ORDER BY c.id"
    )
    for person in people:
        do.mail(SHOP, str(person["email"]), f"Your {given['sku']}", f"We recall {given['sku']}.")
    return {"customers": len(people)}


def raise_prices(do: Hands, given: Given) -> Any:
    whole, _, tenths = str(given["percent"]).partition(".")
    exact = f"(price_cents * {1000 + 10 * int(whole) + int((tenths or '0')[0])} + 500)"
    line = f"sku BETWEEN {text(given['first'])} AND {text(given['last'])}"
    do.change(f"UPDATE products SET price_cents = ({exact} - {exact} % 1000) / 1000 WHERE {line}")
    done = one(do, f"SELECT count(*) AS n, sum(price_cents) AS cents FROM products WHERE {line}")
    return {"articles": int(done["n"]), "sum_cents": int(done["cents"])}


def access_review(do: Hands, _: Given) -> Any:
    found = do.rows(
        "SELECT g.user_id, u.login, g.role FROM grants g"
        " JOIN roles r ON r.name = g.role AND r.privileged JOIN users u ON u.id = g.user_id"
        " LEFT JOIN approvals a ON a.id = g.approval_id AND a.state = 'approved'"
        " AND a.subject_id = g.user_id AND a.role = g.role WHERE a.id IS NULL ORDER BY g.user_id"
    )
    lines = ["login,role", *(f"{row['login']},{row['role']}" for row in found)]
    do.write("access-review.csv", "\n".join(lines) + "\n")
    return {"users": sorted({int(row["user_id"]) for row in found}), "grants": len(found)}


def offboard_user(do: Hands, given: Given) -> Any:
    who, instant = given["user"], now(do)
    facts = one(
        do,
        "SELECT m.id, m.email,"
        f" (SELECT count(*) FROM api_keys WHERE user_id = {who}) AS held"
        f" FROM users u JOIN users m ON m.id = u.manager_id WHERE u.id = {who}",
    )
    owned = [
        str(row["name"]) for row in do.rows(f"SELECT name FROM resources WHERE owner_id = {who}")
    ]
    do.change(
        f"UPDATE sessions SET revoked_at = {instant} WHERE user_id = {who} AND revoked_at IS NULL",
        f"DELETE FROM grants WHERE user_id = {who}",
        f"DELETE FROM memberships WHERE user_id = {who}",
        f"DELETE FROM api_keys WHERE user_id = {who}",
        f"UPDATE resources SET owner_id = {facts['id']} WHERE owner_id = {who}",
        f"UPDATE users SET active = FALSE, updated_at = {instant} WHERE id = {who}",
    )
    do.mail(DESK, str(facts["email"]), "Somebody has left", f"Yours: {', '.join(owned)}.")
    keys = int(facts["held"])
    return {"new_owner": int(facts["id"]), "resources": len(owned), "keys": keys}


def raise_quotas(do: Hands, given: Given) -> Any:
    ours = f"team_id IN (SELECT id FROM teams WHERE department_id = {given['department']})"
    raised = "used + (used + 3 - (used + 3) % 4) / 4"
    do.change(
        f"UPDATE quotas SET seats = CASE WHEN seats + 1 > {raised} THEN seats + 1"
        f" ELSE {raised} END, updated_at = {now(do)} WHERE {ours}"
    )
    done = one(do, f"SELECT count(*) AS n, sum(seats) AS seats FROM quotas WHERE {ours}")
    return {"teams": int(done["n"]), "seats": int(done["seats"])}


def request_approval(do: Hands, given: Given) -> Any:
    head = one(
        do,
        "SELECT u.id, u.email FROM resources r JOIN departments d ON d.id = r.department_id"
        f" JOIN users u ON u.id = d.head_id WHERE r.name = {text(given['system'])}",
    )
    values = [given["user"], given["role"], given["system"], 9, head["id"], "pending"]
    said = ", ".join(text(value) for value in [*values, given["reason"]])
    do.change(
        "INSERT INTO approvals (kind, subject_id, role, scope, requested_by_id, approver_id,"
        f" state, reason, requested_at) VALUES ('grant', {said}, {now(do)})"
    )
    made = one(do, "SELECT max(id) AS id FROM approvals")
    do.mail(DESK, str(head["email"]), f"Request {made['id']}", given["reason"])
    return {"status": "requested", "approval": int(made["id"]), "approver": int(head["id"])}


def rotate_role(do: Hands, given: Given) -> Any:
    role, holder, successor = text(given["role"]), given["holder"], given["successor"]
    instant, signed_in = now(do), f"user_id = {holder} AND revoked_at IS NULL"
    approval = one(
        do,
        "SELECT id FROM approvals WHERE kind = 'grant' AND state = 'approved'"
        f" AND subject_id = {successor} AND role = {role}",
    )["id"]
    ended = one(do, f"SELECT count(*) AS n FROM sessions WHERE {signed_in}")["n"]
    do.change(
        f"DELETE FROM grants WHERE user_id = {holder} AND role = {role}",
        "INSERT INTO grants (user_id, role, approval_id, granted_by_id, granted_at)"
        f" VALUES ({successor}, {role}, {approval}, 9, {instant})",
        f"UPDATE sessions SET revoked_at = {instant} WHERE {signed_in}",
    )
    return {"approval": int(approval), "sessions_ended": int(ended)}


def close_case(do: Hands, given: Given) -> Any:
    do.update(given["case"], status="closed", resolution="fixed", closed_now=True)
    return {"case": given["case"], "resolution": "fixed"}


def merge_duplicates(do: Hands, given: Given) -> Any:
    stays, duplicate = given["stays"], given["duplicate"]
    do.update(stays, watchers=sorted(do.watchers(stays) | do.watchers(duplicate)))
    do.update(
        duplicate, duplicate_of=stays, status="closed", resolution="duplicate", closed_now=True
    )
    return {"stays": stays, "closed": duplicate}


def reassign(do: Hands, given: Given) -> Any:
    do.update(given["issue"], assignee=given["to"])
    said = do.comment(given["issue"], "I am away from Monday.")
    return {"issue": given["issue"], "assignee": given["to"], "comment": said}


def refuse_forbidden(do: Hands, given: Given) -> Any:
    said = do.comment(given["issue"], "Refused: a lead changes roles.")
    return {"decision": "refused", "comment": said}


def clean_branches(do: Hands, given: Given) -> Any:
    branches = do.refs()["branches"]
    contained = do.log(given["branch"])
    merged = [
        name
        for name, at in sorted(branches.items())
        if name.startswith(("feature/", "fix/")) and at in contained
    ]
    for name in merged:
        do.delete_branch(name)
    return {"deleted": merged}


def plan_release(do: Hands, given: Given) -> Any:
    refs, history = do.refs(), do.log(given["branch"])
    main = refs["branches"][given["branch"]]
    tags = {at: name for name, at in refs["tags"].items() if name.startswith("v")}
    failing = _failing(do.files(given["branch"]))
    return {
        "commit": main,
        "tag": f"v{given['version']}",
        "failing": failing,
        "releasable": not failing,
        "previous": next(tags[each] for each in history if each in tags),
    }


def _failing(files: Files) -> list[str]:
    """The tests of these files that do not pass, run on a copy."""
    with tempfile.TemporaryDirectory() as copy:
        for path, content in files.items():
            place = Path(copy, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(content)
        run = subprocess.run(
            [sys.executable, "-B", "-m", "unittest", "-v"],
            cwd=copy,
            check=False,
            env={**os.environ, "PYTHONPATH": "src"},
            capture_output=True,
            text=True,
        )
    lines = (line.partition(" (") for line in run.stderr.splitlines())
    return [rest.partition(")")[0] for _, _, rest in lines if rest.endswith(("FAIL", "ERROR"))]


def fix_failing_test(do: Hands, given: Given) -> Any:
    mended = do.files(given["branch"])[given["module"]].replace(
        "        first += part\n",
        '        first += -part if parts[0][0].startswith("-") else part\n',
    )
    who = (given["author"], given["email"])
    write = {given["module"]: mended}
    made = do.commit(given["branch"], "A sign belongs to the whole quantity\n", who, write)
    return {"fixed": given["test"], "commit": made}


def tag_release(do: Hands, given: Given) -> Any:
    version, who = given["version"], (given["author"], given["email"])
    changelog = do.files(given["branch"])["CHANGELOG.md"]
    write = {
        "VERSION": f"{version}\n",
        "CHANGELOG.md": changelog.replace("## Unreleased", f"## {version}"),
    }
    made = do.commit(given["branch"], f"Release {version}\n", who, write)
    do.tag(given["tag"], made, f"unitkit {version}\n", who)
    return {"tag": given["tag"], "commit": made}


def join_team(do: Hands, given: Given) -> Any:
    team = one(
        do,
        "WITH RECURSIVE up (team) AS (SELECT t.team_id FROM team_roles t"
        " JOIN roles r ON r.name = t.role AND r.privileged"
        " UNION SELECT n.child_id FROM team_nestings n JOIN up ON n.parent_id = up.team)"
        " SELECT id FROM teams WHERE name = 'Data' AND id NOT IN (SELECT team FROM up)",
    )["id"]
    do.change(f"INSERT INTO memberships (team_id, user_id) VALUES ({team}, {given['person']})")
    return {"team": int(team)}


def open_branch(do: Hands, given: Given) -> Any:
    ticket, desk = given["ticket"], text(given["desk"])
    key = one(
        do,
        "WITH RECURSIVE lead (key_id) AS (SELECT s.key_id FROM key_scopes s"
        " JOIN protected_branches p ON p.branch = s.branch UNION SELECT s.key_id FROM key_scopes s"
        " JOIN key_uses u ON u.branch = s.branch JOIN lead ON lead.key_id = u.key_id)"
        f" SELECT id FROM deploy_keys WHERE title = {text(given['title'])}"
        " AND id NOT IN (SELECT key_id FROM lead)",
    )["id"]
    do.branch("docs/gallons", do.refs()["branches"]["main"])
    do.change(
        f"UPDATE tickets SET branch = 'refs/heads/docs/gallons' WHERE id = {ticket}",
        f"INSERT INTO participants VALUES ({ticket}, {text(given['person'])}, {desk})",
        f"INSERT INTO key_uses VALUES ('refs/heads/docs/gallons', {key}, {desk})",
    )
    return {"branch": "docs/gallons", "key": int(key)}


TASKS: Mapping[str, Callable[[Hands, Given], Any]] = {
    "accounts/access-review": access_review,
    "accounts/join-team": join_team,
    "accounts/offboard-user": offboard_user,
    "accounts/raise-quotas": raise_quotas,
    "accounts/request-approval": request_approval,
    "accounts/rotate-role": rotate_role,
    "helpdesk/close-case": close_case,
    "helpdesk/merge-duplicates": merge_duplicates,
    "helpdesk/reassign-with-comment": reassign,
    "helpdesk/refuse-forbidden": refuse_forbidden,
    "repo/clean-merged-branches": clean_branches,
    "repo/dry-run-release": plan_release,
    "repo/fix-failing-test": fix_failing_test,
    "repo/open-branch": open_branch,
    "repo/tag-release": tag_release,
    "shop/add-and-backfill-column": add_column,
    "shop/correct-address": correct_address,
    "shop/exchange-or-refund": exchange_or_refund,
    "shop/notify-once": notify_once,
    "shop/raise-prices": raise_prices,
    "shop/refund-returned-order": refund,
    "shop/refuse-late-refund": refuse_late_refund,
}
