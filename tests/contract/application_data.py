"""The schema and the data of an application drawn by a number; see `applications`."""

# ruff: noqa: E501 - a statement of SQL is read in one line

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

THEMES: Final = (
    ("users", "tickets", "comments", "tags"), ("members", "books", "loans", "shelves"),
    ("customers", "orders", "order_lines", "coupons"), ("staff", "assets", "repairs", "sites"),
    ("patients", "appointments", "prescriptions", "wards"), ("authors", "articles", "edits", "topics"),
    ("employees", "projects", "tasks", "skills"), ("tenants", "apartments", "payments", "features"),
    ("drivers", "deliveries", "parcels", "zones"), ("donors", "campaigns", "donations", "channels"),
    ("students", "courses", "submissions", "rooms"), ("owners", "animals", "visits", "breeds"),
)  # fmt: skip
WORDS: Final = [
    "amber",
    "birch",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "heron",
    "indigo",
    "juniper",
    "krill",
    "lotus",
]
STATUSES: Final = ("open", "waiting", "done", "closed")
NOW: Final = {
    "text": "datetime('now')",
    "current": "CURRENT_TIMESTAMP",
    "iso": "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')",
    "epoch": "CAST(strftime('%s', 'now') AS INTEGER)",
}
FILLED: Final = datetime(2026, 3, 2, 9, 0, 0, tzinfo=UTC)


class Clock:
    """The application's hour and its random keys; every question moves both."""

    def __init__(self, at: datetime, salt: str) -> None:
        self.at, self.rng = at, random.Random(salt)

    def tick(self) -> datetime:
        self.at += timedelta(milliseconds=self.rng.randrange(20, 700))
        return self.at

    def strftime(self, form: str, *_: object) -> str:
        at = self.tick()
        if form == "%s":
            return str(int(at.timestamp()))
        return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"

    def text(self, *said: object) -> str:
        at = self.tick()
        for modifier in said[1:]:
            hours = {"localtime": 2, "+30 days": 720}[str(modifier)]
            at += timedelta(hours=hours)
        return f"{at:%Y-%m-%d %H:%M:%S}"

    def stamp(self, form: str) -> str | int:
        return int(self.tick().timestamp()) if form == "epoch" else self._words(form)

    def _words(self, form: str) -> str:
        return self.strftime("") if form == "iso" else self.text()

    def uuid(self) -> str:
        text = self.rng.randbytes(16).hex()
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def installed(self, path: Path) -> sqlite3.Connection:
        """A connection whose `now` is this clock's."""
        made = sqlite3.connect(path)
        for setting in ("foreign_keys = ON", "synchronous = OFF", "journal_mode = MEMORY"):
            made.execute(f"PRAGMA {setting}")
        made.create_function("strftime", -1, self.strftime)
        made.create_function("datetime", -1, self.text)
        made.create_function("current_timestamp", 0, self.text)
        made.create_function("randomblob", 1, self.rng.randbytes)
        return made


@dataclass
class Table:
    """One table as it is drawn: what each column is for, and the keys that were filled in."""

    name: str
    key: str = "rowid"
    columns: dict[str, str] = field(default_factory=dict)
    """Column → declaration."""
    roles: dict[str, str] = field(default_factory=dict)
    """Column → what it is for; a column without a role is filled by the database."""
    keys: list[Any] = field(default_factory=list)

    def has(self, role: str) -> str | None:
        return next((name for name, known in self.roles.items() if known == role), None)

    def declared(self) -> str:
        kinds = {
            "rowid": "id INTEGER PRIMARY KEY",
            "auto": "id INTEGER PRIMARY KEY AUTOINCREMENT",
            "slug": "code TEXT PRIMARY KEY NOT NULL",
            "uuid": "id TEXT PRIMARY KEY NOT NULL",
        }
        parts = [kinds[self.key], *(f"{name} {how}" for name, how in self.columns.items())]
        tail = " WITHOUT ROWID" if self.key in ("slug", "uuid") and len(self.name) % 2 else ""
        return f"CREATE TABLE {self.name} ({', '.join(parts)}){tail};"

    @property
    def id(self) -> str:
        return "code" if self.key == "slug" else "id"


class DrawnApplication:
    """One application and its data; `features` says what was drawn."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.rng = random.Random(f"application {number}")
        self.features: set[str] = set()
        self.form = self.rng.choice(sorted(NOW))
        self.people, self.things, self.parts, self.labels = (
            Table(name) for name in self.rng.choice(THEMES)
        )
        self.ddl: list[str] = []
        self._declare()

    def maybe(self, feature: str, chance: float = 0.5) -> bool:
        found = self.rng.random() < chance
        if found:
            self.features.add(feature)
        return found

    # ------------------------------------------------------------ the schema

    def _declare(self) -> None:
        rng = self.rng
        self.people.key = rng.choice(["rowid", "auto", "uuid"])
        self.things.key = rng.choice(["rowid", "auto", "slug", "uuid"])
        self.parts.key = rng.choice(["rowid", "auto", "uuid"])
        self.labels.key = rng.choice(["rowid", "slug"])
        self.features |= {f"key {t.key}" for t in (self.people, self.things, self.parts)}
        self.tables = [self.people, self.things]
        self.has_parts, self.has_labels = self.maybe("parts", 0.8), self.maybe("labels", 0.4)
        self.tables += [self.parts] * self.has_parts + [self.labels] * self.has_labels
        self._columns(self.people, {"name": "title"}, "")
        self._columns(self.things, {rng.choice(["title", "subject", "name"]): "title"}, "things")
        if self.has_parts:
            self._columns(self.parts, {rng.choice(["body", "text", "label"]): "title"}, "parts")
        if self.has_labels:
            self.labels.columns, self.labels.roles = (
                {"name": "TEXT NOT NULL UNIQUE"},
                {"name": "name"},
            )
        self._references()
        self.ddl += [table.declared() for table in self.tables]
        self._join()
        self._counters()
        self._triggers()
        self._beside()

    def _columns(self, table: Table, roles: dict[str, str], what: str) -> None:
        add = table.columns.__setitem__
        add(*next((name, "TEXT NOT NULL") for name in roles))
        if not what:
            if self.maybe("unique email"):
                add("email", "TEXT NOT NULL UNIQUE")
                roles["email"] = "email"
            if self.maybe("role"):
                add("role", "TEXT NOT NULL DEFAULT 'member' CHECK (role IN ('member', 'admin'))")
                roles["role"] = "role"
            if self.maybe("balance"):
                add("balance_cents", "INTEGER NOT NULL DEFAULT 0 CHECK (balance_cents >= 0)")
                roles["balance_cents"] = "cents"
        else:
            if self.maybe("enum", 0.8):
                listed = ", ".join(f"'{each}'" for each in STATUSES)
                add("status", f"TEXT NOT NULL DEFAULT 'open' CHECK (status IN ({listed}))")
                roles["status"] = "status"
            if self.maybe("money"):
                name, how = self.rng.choice(
                    [("amount_cents", "INTEGER NOT NULL DEFAULT 0"), ("price", "DECIMAL(10,2)"),
                     ("fee", "REAL")]
                )  # fmt: skip
                add(name, how)
                roles[name] = "cents" if name == "amount_cents" else "price"
            if self.maybe("quantity", 0.3):
                add("quantity", "INTEGER NOT NULL DEFAULT 1 CHECK (quantity > 0)")
                roles["quantity"] = "quantity"
                if roles.get("amount_cents") and self.maybe("generated column", 0.8):
                    add(
                        "total_cents",
                        "INTEGER GENERATED ALWAYS AS (quantity * amount_cents) STORED",
                    )
            if self.maybe("note", 0.4):
                add("note", "TEXT")
                roles["note"] = "note"
            if self.maybe("due", 0.3):
                add("due_on", "TEXT")
                roles["due_on"] = "due"
        if self.maybe("json", 0.35):
            name = self.rng.choice(["settings", "metadata", "attributes"])
            how = self.rng.choice(["JSON", f"TEXT NOT NULL CHECK (json_valid({name}))"])
            add(name, how)
            roles[name] = "json"
        if self.maybe("flag", 0.3):
            add("is_active", "INTEGER NOT NULL DEFAULT 1")
            roles["is_active"] = "flag"
        self._kept(table, roles)
        table.roles = roles

    def _kept(self, table: Table, roles: dict[str, str]) -> None:
        """Columns that the application keeps beside what its users write."""
        add, now = table.columns.__setitem__, NOW[self.form]
        kind = (
            "INTEGER"
            if self.form == "epoch"
            else self.rng.choice(["TEXT", "DATETIME", "TIMESTAMP"])
        )
        if self.maybe("created_at", 0.7):
            name = self.rng.choice(["created_at", "created", "inserted_at"])
            add(name, f"{kind} NOT NULL DEFAULT ({now})")
        if self.maybe("updated_at", 0.6):
            name = self.rng.choice(["updated_at", "modified_at", "last_modified"])
            add(name, kind)
            by_trigger = self.maybe("stamp by trigger")
            roles[name] = "touched" if by_trigger else "updated"
        if self.maybe("row version", 0.25):
            add("version", "INTEGER NOT NULL DEFAULT 1")
            roles["version"] = "version"
        if self.maybe("soft deletion", 0.35):
            name, how = self.rng.choice(
                [
                    ("deleted_at", kind),
                    ("is_deleted", "INTEGER NOT NULL DEFAULT 0"),
                    ("archived_at", kind),
                ]
            )
            add(name, how)
            roles[name] = "gone" if name == "is_deleted" else "gone at"

    def _references(self) -> None:
        def refer(table: Table, to: Table, name: str, *, cascade: bool, nullable: bool) -> None:
            kind = "INTEGER" if to.key in ("rowid", "auto") else "TEXT"
            rule = " ON DELETE CASCADE" if cascade else ""
            null = "" if nullable else " NOT NULL"
            real = (
                f" REFERENCES {to.name} ({to.id}){rule}" if self.maybe("foreign key", 0.8) else ""
            )
            table.columns[name] = f"{kind}{null}{real}"
            table.roles[name] = f"ref {to.name}"

        stem = self.people.name.removesuffix("s")
        refer(
            self.things,
            self.people,
            f"{stem}_id",
            cascade=False,
            nullable=self.maybe("null ref", 0.3),
        )
        if self.has_parts:
            stem = self.things.name.removesuffix("s").replace("ie", "y")
            refer(
                self.parts, self.things, f"{stem}_id", cascade=self.maybe("cascade"), nullable=False
            )

    def _join(self) -> None:
        self.join = self.has_labels and f"{self.things.name}_{self.labels.name}"
        if self.join:
            kinds = [
                "INTEGER" if t.key in ("rowid", "auto") else "TEXT"
                for t in (self.things, self.labels)
            ]
            tail = " WITHOUT ROWID" if self.maybe("without rowid") else ""
            extra = ", note TEXT" if self.maybe("association with fields", 0.2) else ""
            self.ddl.append(
                f"CREATE TABLE {self.join} (thing {kinds[0]} NOT NULL REFERENCES {self.things.name} "
                f"ON DELETE CASCADE, label {kinds[1]} NOT NULL REFERENCES {self.labels.name}{extra}, "
                f"PRIMARY KEY (thing, label)){tail};"
            )

    def _counters(self) -> None:
        """Columns of the parent that count or add up its parts, by trigger or by the program."""
        self.kept: list[str] = []
        if not self.has_parts:
            return
        things, parts, key = self.things, self.parts, self.things.id
        parent = parts.has(f"ref {things.name}")
        amount = parts.has("cents") or parts.has("quantity")
        alive = parts.has("gone at") or parts.has("gone")
        where = (
            ""
            if alive is None
            else f" AND p.{alive} IS NULL"
            if alive.endswith("_at")
            else f" AND p.{alive} = 0"
        )
        wanted = [("parts_count", "count(*)")] * self.maybe("counter", 0.5)
        wanted += [("parts_total", f"coalesce(sum(p.{amount}), 0)")] * bool(
            amount and self.maybe("sum", 0.6)
        )
        for name, what in wanted:
            self.ddl.append(
                f"ALTER TABLE {things.name} ADD COLUMN {name} INTEGER NOT NULL DEFAULT 0;"
            )
            refill = (
                f"UPDATE {things.name} SET {name} = (SELECT {what} FROM {parts.name} p WHERE "
                f"p.{parent} = {things.name}.{key}{where})"
            )
            if self.maybe("counter by trigger"):
                for event, side in (("INSERT", "new"), ("DELETE", "old"), ("UPDATE", "new")):
                    self.ddl.append(
                        f"CREATE TRIGGER {name}_{event.lower()} AFTER {event} ON {parts.name} BEGIN "
                        f"{refill} WHERE {key} = {side}.{parent}; END;"
                    )
            else:
                self.kept.append(refill)

    def _triggers(self) -> None:
        for table in self.tables:
            stamp, version = table.has("touched"), table.has("version")
            if stamp:
                keep = f"{stamp} = {NOW[self.form]}" + (
                    f", {version} = old.{version} + 1" if version else ""
                )
                written = ", ".join(n for n in table.roles if n not in (stamp, version))
                self.ddl.append(
                    f"CREATE TRIGGER touch_{table.name} AFTER UPDATE OF {written} ON {table.name} BEGIN "
                    f"UPDATE {table.name} SET {keep} WHERE {table.id} = new.{table.id}; END;"
                )
        if not self.maybe("audit", 0.5):
            return
        name = self.rng.choice(["audit_log", "events", "activity", "history"])
        kind = "INTEGER" if self.form == "epoch" else "TEXT"
        key = self.rng.choice(
            ["id INTEGER PRIMARY KEY AUTOINCREMENT", "id INTEGER PRIMARY KEY",
             "id TEXT PRIMARY KEY DEFAULT (lower(hex(randomblob(16))))", "session TEXT"]
        )  # fmt: skip
        self.ddl.append(
            f"CREATE TABLE {name} ({key}, kind TEXT NOT NULL, subject TEXT, detail TEXT, "
            f"at {kind} NOT NULL DEFAULT ({NOW[self.form]}));"
        )
        for table in self.rng.sample(self.tables, self.rng.randint(1, len(self.tables))):
            title = next(iter(table.columns))
            detail = self.rng.choice(
                [
                    f"json_object('was', old.{title}, 'is', new.{title})",
                    f"old.{title} || ' -> ' || new.{title}",
                    "NULL",
                    f"json_object('at', {NOW[self.form]}, 'is', new.{title})",
                    f"'on ' || {NOW['text']} || ' by ' || lower(hex(randomblob(12)))",
                ]
            )
            for event, what in (("UPDATE", detail), ("INSERT", "NULL"), ("DELETE", "NULL")):
                side = "old" if event == "DELETE" else "new"
                self.ddl.append(
                    f"CREATE TRIGGER {name}_{table.name}_{event.lower()} AFTER {event} ON {table.name} BEGIN "
                    f"INSERT INTO {name} (kind, subject, detail) VALUES "
                    f"('{table.name}.{event.lower()}', {side}.{table.id}, {what}); END;"
                )

    def _beside(self) -> None:
        title = next(iter(self.things.columns))
        if self.maybe("view", 0.4):
            self.ddl.append(
                f"CREATE VIEW listed AS SELECT {self.things.id}, {title} FROM {self.things.name};"
            )
        if self.maybe("index", 0.4):
            self.ddl.append(f"CREATE INDEX by_title ON {self.things.name} ({title});")
        if self.maybe("outbox", 0.25):
            self.ddl.append("CREATE TABLE outbox (id INTEGER PRIMARY KEY, recipient TEXT, text TEXT, queued_at "
                            f"TEXT NOT NULL DEFAULT ({NOW['text']}));")  # fmt: skip
        if self.maybe("composite key", 0.3):
            self.ddl.append(
                "CREATE TABLE stock (place TEXT NOT NULL, item INTEGER NOT NULL, amount INTEGER NOT NULL "
                f"CHECK (amount >= 0), PRIMARY KEY (place, item)){' WITHOUT ROWID' * self.maybe('without rowid')};"
            )
        if self.maybe("sessions", 0.2):
            self.ddl.append(
                "CREATE TABLE sessions (token TEXT PRIMARY KEY DEFAULT (lower(hex(randomblob(20)))), secret TEXT "
                "DEFAULT (lower(hex(randomblob(16)))), who TEXT, started_at TEXT DEFAULT (datetime('now')), "
                "seen TEXT DEFAULT (datetime('now', 'localtime')), expires_at TEXT DEFAULT (datetime('now', '+30 days')));"
            )
        if self.maybe("search index", 0.15):
            key, title = self.things.id, next(iter(self.things.columns))
            self.ddl.append("CREATE VIRTUAL TABLE found USING fts5(key UNINDEXED, text);")
            for event, what in (
                ("INSERT", "new"),
                ("DELETE", "old"),
                (f"UPDATE OF {title}", "new"),
            ):
                filled = f"INSERT INTO found (key, text) VALUES (new.{key}, new.{title});" * (
                    what == "new"
                )
                self.ddl.append(
                    f"CREATE TRIGGER found_{event[:6].lower()} AFTER {event} ON {self.things.name} BEGIN "
                    f"DELETE FROM found WHERE key = {what}.{key}; {filled} END;"
                )
        if self.maybe("roles", 0.2):
            kind = "INTEGER" if self.people.key in ("rowid", "auto") else "TEXT"
            self.ddl.append(
                f"CREATE TABLE member_roles (member {kind} NOT NULL REFERENCES {self.people.name}, "
                "role TEXT NOT NULL, PRIMARY KEY (member, role));"
            )
        if self.maybe("numbers", 0.25):
            self.ddl.append(
                "CREATE TABLE numbers (name TEXT PRIMARY KEY, next INTEGER NOT NULL) WITHOUT ROWID;"
            )
            self.things.columns["number"] = "INTEGER"
            self.ddl.append(f"ALTER TABLE {self.things.name} ADD COLUMN number INTEGER;")

    # ------------------------------------------------------------ the data

    def _value(self, role: str, clock: Clock, n: int) -> Any:
        rng = clock.rng
        two = " ".join(rng.sample(WORDS, 2))
        match role:
            case "title" | "note":
                return two
            case "name":
                return f"{WORDS[n % len(WORDS)]} {n}"
            case "email":
                return f"{rng.choice(WORDS)}{n}.{rng.randrange(99)}@example.org"
            case "role":
                return rng.choice(["member", "member", "admin"])
            case "status":
                return rng.choice(STATUSES)
            case "cents":
                return rng.randrange(100, 9000)
            case "price":
                return rng.randrange(100, 9000) / 100
            case "quantity":
                return rng.randrange(1, 9)
            case "due":
                return f"2026-05-{rng.randrange(10, 28)}"
            case "flag":
                return rng.randrange(2)
            case "json":
                return json.dumps(
                    {
                        "color": rng.choice(WORDS),
                        "limits": {"gb": rng.randrange(9), "seats": n},
                        "labels": WORDS[: n % 3],
                    }
                )
            case "gone":
                return 0
            case "updated" | "touched":
                return clock.stamp(self.form)
            case "version":
                return 1
            case _ if role.startswith("ref "):
                aim = next(t for t in self.tables if t.name == role[4:])
                return rng.choice(aim.keys)
        return None

    def _insert(
        self, db: sqlite3.Connection, table: Table, clock: Clock, n: int, **given: Any
    ) -> Any:
        row = {name: self._value(role, clock, n) for name, role in table.roles.items()}
        row |= given
        if table.key == "uuid":
            row[table.id] = clock.uuid()
        elif table.key == "slug":
            row[table.id] = f"{table.name[:3].upper()}-{n:04}"
        names = ", ".join(row)
        marks = ", ".join("?" for _ in row)
        done = db.execute(
            f"INSERT INTO {table.name} ({names}) VALUES ({marks})", list(row.values())
        )
        return row.get(table.id, done.lastrowid)

    def make(self, path: Path) -> None:
        """The database as the application left it before the run."""
        clock = Clock(FILLED, f"data {self.number}")
        for table in self.tables:
            table.keys.clear()
        with closing(clock.installed(path)) as db:
            db.executescript("\n".join(self.ddl))
            for table in self.tables:
                for n in range(1, clock.rng.randint(4, 7)):
                    clock.at += timedelta(hours=clock.rng.randrange(1, 30))
                    table.keys.append(self._insert(db, table, clock, n))
            if self.join:
                for thing in self.things.keys[:3]:
                    db.execute(
                        f"INSERT INTO {self.join} (thing, label) VALUES (?, ?)",
                        (thing, self.labels.keys[0]),
                    )
            if "numbers" in self.features:
                db.execute("INSERT INTO numbers VALUES ('thing', 1001), ('other', 7)")
            if "sessions" in self.features:
                db.executemany("INSERT INTO sessions (who) VALUES (?)", [("ada",), ("bob",)])
            if "roles" in self.features:
                for person in self.people.keys[:3]:
                    db.execute("INSERT INTO member_roles VALUES (?, 'viewer')", (person,))
            if "composite key" in self.features:
                rows = [
                    (place, item, clock.rng.randrange(5, 60))
                    for place in WORDS[:2]
                    for item in (1, 2, 3)
                ]
                db.executemany("INSERT INTO stock VALUES (?, ?, ?)", rows)
            for refill in self.kept:
                db.execute(refill)
            db.commit()
