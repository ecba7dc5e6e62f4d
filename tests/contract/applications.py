"""Applications drawn by a number: a SQLite schema, data, and a right run of a few business actions.

The same number gives the same application. What real ones have is drawn independently: kinds of
keys, stamps kept by triggers or by the program, counters and sums, audit tables, soft deletion,
JSON, AUTOINCREMENT, WITHOUT ROWID, generated columns, unique indexes, views, checks and money.
A run may be made at any hour; keys that the application chooses at random differ between runs.
"""

# ruff: noqa: E501 - a statement of SQL is read in one line

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from tests.contract.application_data import WORDS, Clock, DrawnApplication, Table

RIGHT: Final = datetime(2026, 3, 20, 14, 30, 0, tzinfo=UTC)
AGAIN: Final = datetime(2026, 4, 7, 8, 15, 0, tzinfo=UTC)
THIRD: Final = datetime(2026, 6, 19, 21, 41, 0, tzinfo=UTC)
Action = Callable[[sqlite3.Connection, Clock], object]


class Application(DrawnApplication):
    """One application, its data and its right run; `features` says what was drawn."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.actions: list[tuple[str, Action]] = []
        self._draw_actions()

    def run(self, before: Path, after: Path, at: datetime, salt: str = "") -> None:
        """The right run on a copy of `before`, begun at that hour."""
        shutil.copyfile(before, after)
        clock = Clock(at, f"run {self.number} {salt}")
        with closing(clock.installed(after)) as db:
            for _, action in self.actions:
                clock.at += timedelta(seconds=1)
                action(db, clock)
            for refill in self.kept:
                parent = self.things.id
                name = refill.split(" SET ")[1].split(" ")[0]
                inner = refill.split(f"{name} = ", 1)[1]
                db.execute(f"{refill} WHERE {name} <> {inner} AND {parent} IS NOT NULL")
            db.commit()

    # ------------------------------------------------------------ the right run

    def _draw_actions(self) -> None:
        ways = [self._change, self._change, self._change, self._create, self._remove, self._link,
                self._bulk, self._number, self._moved, self._granted,
                self._signed_in]  # fmt: skip
        wanted = self.rng.randint(1, 3)
        for way in self.rng.sample(ways, len(ways)):
            if len(self.actions) < wanted:
                drawn = next((d for d in (way() for _ in range(6)) if d is not None), None)
                if drawn is not None:
                    self.actions.append(drawn)
        self.actions.sort(key=lambda action: action[0] == "removed")  # nothing acts on what is gone
        if "outbox" in self.features and self.maybe("message sent"):
            self.actions.append(
                (
                    "a message is queued",
                    lambda db, _: db.execute(
                        "INSERT INTO outbox (recipient, text) VALUES ('a@example.org', 'It is done.')"
                    ),
                )
            )

    def _touch(self, table: Table) -> tuple[str, Callable[[Clock], list[Any]]]:
        """The program's writes with every update of a row, as SQL and values."""
        stamp, version = table.has("updated"), table.has("version")
        sql = f", {stamp} = ?" if stamp else ""
        if version and not table.has("touched"):
            sql += f", {version} = {version} + 1"
        return sql, lambda clock: [clock.stamp(self.form)] if stamp else []

    def _update(self, table: Table, assign: str, values: list[Any], pick: int) -> Action:
        touch, stamps = self._touch(table)

        def act(db: sqlite3.Connection, clock: Clock) -> None:
            key = table.keys[pick % len(table.keys)]
            sql = f"UPDATE {table.name} SET {assign}{touch} WHERE {table.id} = ?"
            db.execute(sql, [*values, *stamps(clock), key])

        return act

    def _change(self) -> tuple[str, Action] | None:
        rng = self.rng
        table = rng.choice([self.people, self.things, *[self.parts] * self.has_parts])
        name, role = rng.choice(sorted(table.roles.items()))
        pick = rng.randrange(9)
        self.features.add(f"changed {role.split()[0]}")
        match role:
            case "title" | "email":
                return role, self._update(
                    table, f"{name} = ?", [f"renamed {rng.choice(WORDS)}"], pick
                )
            case "status":
                return role, self._update(
                    table,
                    f"{name} = CASE {name} WHEN 'closed' THEN 'open' ELSE 'closed' END",
                    [],
                    pick,
                )
            case "role":
                return role, self._update(
                    table,
                    f"{name} = CASE {name} WHEN 'admin' THEN 'member' ELSE 'admin' END",
                    [],
                    pick,
                )
            case "cents" | "quantity":
                return role, self._update(
                    table, f"{name} = {name} + ?", [rng.randrange(1, 50)], pick
                )
            case "price":
                return role, self._update(
                    table, f"{name} = ?", [rng.randrange(9001, 12000) / 100], pick
                )
            case "note":
                return role, self._update(
                    table, f"{name} = coalesce({name}, '') || ?", ["; called back"], pick
                )
            case "due":
                return role, self._update(table, f"{name} = ?", ["2026-06-01"], pick)
            case "flag":
                return role, self._update(table, f"{name} = 1 - {name}", [], pick)
            case "json":
                how = rng.choice([f"json_set({name}, '$.limits.gb', 40)", f"json_set({name}, '$.theme', 'dark')",
                                  f"json_remove({name}, '$.color')"])  # fmt: skip
                return role, self._update(table, f"{name} = {how}", [], pick)
            case "gone" | "gone at":
                return self._gone(table, name, pick)
            case _ if role.startswith("ref "):
                aim = next(t for t in self.tables if t.name == role[4:])
                # To one that was there before: a new one's random key may be the first, or not.
                there = ", ".join("?" * len(aim.keys))
                other = f"coalesce((SELECT {aim.id} FROM {aim.name} t WHERE t.{aim.id} <> coalesce({table.name}.{name}, '') AND t.{aim.id} IN ({there}) ORDER BY 1 LIMIT 1), {name})"
                return "re-assigned", self._update(table, f"{name} = {other}", [*aim.keys], pick)
        return None

    def _gone(self, table: Table, name: str, pick: int) -> tuple[str, Action]:
        touch, stamps = self._touch(table)

        def act(db: sqlite3.Connection, clock: Clock) -> None:
            mark: Any = 1 if table.roles[name] == "gone" else clock.stamp(self.form)
            key = table.keys[pick % len(table.keys)]
            db.execute(
                f"UPDATE {table.name} SET {name} = ?{touch} WHERE {table.id} = ?",
                [mark, *stamps(clock), key],
            )

        return "softly deleted", act

    def _create(self) -> tuple[str, Action] | None:
        table = self.rng.choice([self.people, self.things, *[self.parts] * (2 * self.has_parts)])
        self.features.add("created")
        title, times = f"new {self.rng.choice(WORDS)}", self.rng.choice([1, 1, 2])
        seed = self.rng.randrange(1 << 30)

        def act(db: sqlite3.Connection, clock: Clock) -> None:
            task = Clock(clock.at, f"{seed}")  # what the task asks for is the same in each run
            for n in range(times):
                asked = {
                    m: self._value(r, task, 20 + n)
                    for m, r in table.roles.items()
                    if r not in ("updated", "touched")
                }
                asked[next(iter(table.columns))] = f"{title} {n}"
                self._insert(db, table, clock, 50 + n, **asked)

        return "created", act

    def _remove(self) -> tuple[str, Action] | None:
        table = self.rng.choice([self.things, *[self.parts] * self.has_parts])
        gone = table.has("gone") or table.has("gone at")
        pick = self.rng.randrange(9)
        if gone:
            return self._gone(table, gone, pick)
        self.features.add("removed")

        def act(db: sqlite3.Connection, _: Clock) -> None:
            key = table.keys[pick % len(table.keys)]
            parent = self.has_parts and table is self.things and self.parts.has(f"ref {table.name}")
            if parent:
                db.execute(f"DELETE FROM {self.parts.name} WHERE {parent} = ?", [key])
            db.execute(f"DELETE FROM {table.name} WHERE {table.id} = ?", [key])

        return "removed", act

    def _link(self) -> tuple[str, Action] | None:
        if not self.join:
            return None
        pick = self.rng.randrange(9)
        is_new = self.rng.random() < 0.6

        def act(db: sqlite3.Connection, _: Clock) -> None:
            label = self.labels.keys[1 if is_new else 0]
            thing = self.things.keys[pick % (len(self.things.keys) if is_new else 3)]
            if is_new:
                db.execute(f"INSERT INTO {self.join} (thing, label) VALUES (?, ?)", (thing, label))
            else:
                db.execute(f"DELETE FROM {self.join} WHERE thing = ? AND label = ?", (thing, label))

        return "linked" if is_new else "unlinked", act

    def _bulk(self) -> tuple[str, Action] | None:
        name = self.parts.has("status")
        if not self.has_parts or name is None:
            return None
        touch, stamps = self._touch(self.parts)
        parent = self.parts.has(f"ref {self.things.name}")
        pick = self.rng.randrange(9)
        self.features.add("bulk update")

        def act(db: sqlite3.Connection, clock: Clock) -> None:
            key = self.things.keys[pick % len(self.things.keys)]
            db.execute(
                f"UPDATE {self.parts.name} SET {name} = 'closed'{touch} WHERE {parent} = ? AND {name} <> 'closed'",
                [*stamps(clock), key],
            )

        return "all closed", act

    def _signed_in(self) -> tuple[str, Action] | None:
        if "sessions" not in self.features:
            return None
        return "signed in", lambda db, _: db.execute("INSERT INTO sessions (who) VALUES ('ada')")

    def _granted(self) -> tuple[str, Action] | None:
        if "roles" not in self.features:
            return None
        pick = self.rng.randrange(9)

        def act(db: sqlite3.Connection, _: Clock) -> None:
            person = self.people.keys[pick % len(self.people.keys)]
            db.execute("INSERT INTO member_roles VALUES (?, 'editor')", (person,))

        return "granted", act

    def _moved(self) -> tuple[str, Action] | None:
        if "composite key" not in self.features:
            return None
        item, amount = self.rng.randint(1, 3), self.rng.randint(1, 4)

        def act(db: sqlite3.Connection, _: Clock) -> None:
            for place, by in ((WORDS[0], -amount), (WORDS[1], amount)):
                db.execute(
                    "UPDATE stock SET amount = amount + ? WHERE place = ? AND item = ?",
                    (by, place, item),
                )

        return "moved", act

    def _number(self) -> tuple[str, Action] | None:
        if "numbers" not in self.features:
            return None
        pick = self.rng.randrange(9)
        touch, stamps = self._touch(self.things)

        def act(db: sqlite3.Connection, clock: Clock) -> None:
            key = self.things.keys[pick % len(self.things.keys)]
            db.execute(
                f"UPDATE {self.things.name} SET number = (SELECT next FROM numbers WHERE name = 'thing'){touch} WHERE {self.things.id} = ?",
                [*stamps(clock), key],
            )
            db.execute("UPDATE numbers SET next = next + 1 WHERE name = 'thing'")

        return "numbered", act


class BusyApplication(Application):
    """An application in which more happens than the task asks for, in every run otherwise.

    Somebody signs in, looks, searches and gets a receipt: a row of a session that moves, counters
    that rise, none or several rows, short tokens, numbers in texts, times that follow others.
    """

    def make(self, path: Path) -> None:
        super().make(path)
        with closing(sqlite3.connect(path)) as db:
            db.executescript(
                "CREATE TABLE signed_in (who TEXT PRIMARY KEY, last_seen TEXT, hits INTEGER, csrf TEXT);"
                "CREATE TABLE searches (id INTEGER PRIMARY KEY AUTOINCREMENT, who TEXT, words TEXT, at TEXT);"
                "CREATE TABLE receipts (id INTEGER PRIMARY KEY, number TEXT, what TEXT, issued_at TEXT, until TEXT);"
                "INSERT INTO signed_in VALUES ('agent', '2026-03-01 10:00:00', 40, 'tok-a100'), ('ada', '2026-03-01 11:00:00', 7, 'tok-b200');"
                "INSERT INTO receipts VALUES (1, 'R-2026-0100', 'first', '2026-03-01 10:00:00', '2026-03-08 10:00:00');"
            )
            db.commit()

    def run(self, before: Path, after: Path, at: datetime, salt: str = "") -> None:
        super().run(before, after, at, salt)
        self.look(after, at + timedelta(seconds=30), salt)
        clock = Clock(at + timedelta(seconds=40), f"receipt {self.number} {salt}")
        number, issued = f"R-2026-{clock.rng.randrange(1000, 9999)}", clock.tick()
        until = issued + timedelta(days=7)
        with closing(clock.installed(after)) as db:
            db.execute(
                "INSERT INTO receipts (number, what, issued_at, until) VALUES (?, 'task', ?, ?)",
                (number, f"{issued:%Y-%m-%d %H:%M:%S}", f"{until:%Y-%m-%d %H:%M:%S}"),
            )
            db.commit()

    def look(self, database: Path, at: datetime, salt: str) -> None:
        """Do what somebody does who only looks."""
        clock = Clock(at, f"look {self.number} {salt}")
        rng = clock.rng
        with closing(clock.installed(database)) as db:
            # Two runs show what varies: these make different numbers of rows.
            for _ in range({"": 1, "again": 2}.get(salt, rng.randrange(4))):
                row = (f"{rng.choice(WORDS)} {rng.randrange(1000)}", clock.text())
                db.execute("INSERT INTO searches (who, words, at) VALUES ('agent', ?, ?)", row)
            token = f"tok-{rng.choice('abcxyz')}{rng.randrange(100, 999)}"
            db.execute(
                "UPDATE signed_in SET last_seen = ?, hits = hits + ?, csrf = ? WHERE who = 'agent'",
                (clock.text(), rng.randrange(1, 9999), token),
            )
            db.commit()
