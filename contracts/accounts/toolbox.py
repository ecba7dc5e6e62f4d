"""What every agent of the accounts tasks starts from: the database, mail, exports, answer and log.

An agent needs none of it. All it is ever given are environment variables; this is one way to use
them from Python: with the standard library, and a server's driver where there is a server.
"""

import json
import os
import smtplib
import sys
from email.message import EmailMessage
from pathlib import Path
from urllib.parse import unquote

sys.path.insert(0, str(Path(__file__).parents[1]))
from databases import Database, Row, connect

INPUTS = json.loads(os.environ["STATEDIFF_INPUTS"])
DESK = "accounts@larkfield.example"
ME = 9  # the service account that agents act as
SECURITY_LEAD = 3


def database() -> Database:
    """A connection that enforces foreign keys, as the company's own programs use it."""
    return connect(os.environ["STATEDIFF_ACCOUNTS_DB_URL"])


def exports() -> Path:
    """The folder that reports go to."""
    return Path(unquote(os.environ["STATEDIFF_EXPORTS_URL"].removeprefix("file://")))


def one(db: Database, sql: str, *values: object) -> Row:
    """The one row; a task whose facts are not there cannot be done."""
    row = db.execute(sql, values).fetchone()
    if row is None:
        raise SystemExit(f"nothing found: {sql} {values}")
    return row


def now(db: Database) -> str:
    """The company's own date and time."""
    return one(db, "SELECT value FROM settings WHERE name = 'business_time'")[0]


def user(db: Database, key: int) -> Row:
    """One account."""
    return one(db, "SELECT * FROM users WHERE id = ?", key)


def grant(db: Database, who: int, role: str, approval: int | None) -> None:
    """The account holds the role; the caller commits."""
    db.execute(
        "INSERT INTO grants (user_id, role, approval_id, granted_by_id, granted_at)"
        " VALUES (?, ?, ?, ?, ?)",
        (who, role, approval, ME, now(db)),
    )
    log("grant", "permission-change", {"user": who, "role": role, "approval": approval})


def join(db: Database, who: int, team: int) -> None:
    """The account is in the team; the caller commits."""
    db.execute("INSERT INTO memberships (team_id, user_id) VALUES (?, ?)", (team, who))
    log("join", "conditional-update", {"user": who, "team": team})


def ways_up(db: Database) -> str:
    """The teams that lead to a privileged role, by whatever teams, as a list for SQL."""
    rows = db.execute(
        "WITH RECURSIVE up (team) AS (SELECT t.team_id FROM team_roles t"
        " JOIN roles r ON r.name = t.role AND r.privileged"
        " UNION SELECT n.child_id FROM team_nestings n JOIN up ON n.parent_id = up.team)"
        " SELECT team FROM up"
    ).fetchall()
    return ", ".join(str(int(row[0])) for row in rows)


def revoke(db: Database, who: int, role: str) -> None:
    """The account no longer holds the role; the caller commits."""
    db.execute("DELETE FROM grants WHERE user_id = ? AND role = ?", (who, role))
    log("revoke", "permission-change", {"user": who, "role": role})


def end_sessions(db: Database, who: int) -> int:
    """Every open session of the account is revoked; how many there were."""
    done = db.execute(
        "UPDATE sessions SET revoked_at = ? WHERE user_id = ? AND revoked_at IS NULL",
        (now(db), who),
    ).rowcount
    log("end_sessions", "conditional-update", {"user": who, "sessions": done})
    return done


def request(db: Database, subject: int, role: str, scope: str, approver: int, reason: str) -> int:
    """A pending request for a role, by this agent's own account; the caller commits."""
    key: int = one(
        db,
        "INSERT INTO approvals (kind, subject_id, role, scope, requested_by_id, approver_id, state,"
        " reason, requested_at) VALUES ('grant', ?, ?, ?, ?, ?, 'pending', ?, ?) RETURNING id",
        subject,
        role,
        scope,
        ME,
        approver,
        reason,
        now(db),
    )[0]
    log("request", "reversible-update", {"subject": subject, "role": role, "scope": scope})
    return key


RAISED = """CASE WHEN seats + 1 > used + (used + 3 - (used + 3) % 4) / 4 THEN seats + 1
    ELSE used + (used + 3 - (used + 3) % 4) / 4 END"""
"""What a team's seats are to be, in whole numbers: a quarter above its use, rounded up, one more at
least. What is divided is always a multiple of four, which every database divides alike."""

UNAPPROVED = """
    SELECT g.user_id, u.login, g.role FROM grants g
    JOIN roles r ON r.name = g.role AND r.privileged
    JOIN users u ON u.id = g.user_id
    LEFT JOIN approvals a ON a.id = g.approval_id AND a.state = 'approved'
      AND a.subject_id = g.user_id AND a.role = g.role
    WHERE a.id IS NULL ORDER BY g.user_id
"""


def send(to: str, subject: str, body: str) -> None:
    """Delivers one message over SMTP and logs it."""
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = DESK, to, subject
    message.set_content(body)
    host, _, port = os.environ["STATEDIFF_OUTBOX_URL"].removeprefix("smtp://").partition(":")
    with smtplib.SMTP(host, int(port), timeout=10) as server:
        server.send_message(message)
    log("send", "notification", {"to": to, "subject": subject})


def answer(**names: object) -> None:
    """Hands in the answer."""
    Path(os.environ["STATEDIFF_ANSWER"]).write_text(json.dumps(names), encoding="utf-8")


def log(tool: str, action_class: str, arguments: dict[str, object], **more: object) -> None:
    """One line in the trace."""
    line = {"tool": tool, "class": action_class, "arguments": arguments, **more}
    with Path(os.environ["STATEDIFF_TRACE"]).open("a", encoding="utf-8") as trace:
        trace.write(json.dumps(line) + "\n")
