"""Every agent of the accounts tasks starts from this: the database, mail, the answer, the log.

An agent needs none of it. All it is ever given are environment variables; this is one way to use
them from Python: with the standard library, and a server's driver where there is a server.
"""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from databases import Database, Row, connect
from given import answer, deliver, letter, log  # noqa: F401 - answer is the agents'

INPUTS = json.loads(os.environ["STATEDIFF_INPUTS"])
DESK = "accounts@larkfield.example"
ME = 9  # the service account that agents act as
SECURITY_LEAD = 3


def database() -> Database:
    """A connection that enforces foreign keys, as the company's own programs use it."""
    return connect(os.environ["STATEDIFF_ACCOUNTS_DB_URL"])


def look(sql: str, *values: object) -> Row:
    """The one row, read by a connection of its own."""
    with database() as db:
        return db.one(sql, *values)


def now(db: Database) -> str:
    """The company's own date and time."""
    return db.one("SELECT value FROM settings WHERE name = 'business_time'")[0]


def user(db: Database, key: int) -> Row:
    """One account."""
    return db.one("SELECT * FROM users WHERE id = ?", key)


def grant(db: Database, who: int, role: str, approval: int | None) -> None:
    """The account holds the role; the caller commits."""
    db.execute(
        "INSERT INTO grants (user_id, role, approval_id, granted_by_id, granted_at)"
        " VALUES (?, ?, ?, ?, ?)",
        (who, role, approval, ME, now(db)),
    )
    log("grant", "permission-change", {"user": who, "role": role, "approval": approval})


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
    key: int = db.one(
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


def send(to: str, subject: str, body: str) -> None:
    """Delivers one message over SMTP and logs it."""
    deliver(letter(DESK, to, subject, body))
    log("send", "notification", {"to": to, "subject": subject})
