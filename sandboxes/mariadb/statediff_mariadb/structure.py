"""The check that a MariaDB database's indexes have what their tables have: `db.structure`.

An account without more rights than its own tables can make only those indexes disagree whose values
are computed when they are asked for: what `UNIX_TIMESTAMP(text)` is depends on the time zone of who
writes the row, and the index keeps what it was then. Other indexes are the server's work.

`CHECK TABLE … EXTENDED` compares such an index with its table. It may mark an index as damaged, and
nobody can use that any more: so only a server that nobody else needs is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from statediff.model.batches import Row
from statediff.model.values import printable
from statediff.systems.relational.structure import SOUND, Checked
from statediff_mariadb.session import Connection, fetched, quoted

INDEXED: Final = """
SELECT DISTINCT table_name, column_name FROM information_schema.statistics
WHERE table_schema = {db}
"""


def check(
    connection: Connection[Any], database: str, tables: Sequence[str], *, may_mark: bool
) -> Checked:
    """The problems of the tables' indexes. Ends a transaction. Raises `pymysql.Error`."""
    if not tables:
        return SOUND
    if not may_mark:
        first = printable(tables[0])
        return Checked((), f"an index of {first} has computed values, and is checked in sandboxes")
    names = ", ".join(f"{quoted(database)}.{quoted(name)}" for name in tables)
    problems: list[Row] = []
    for place, _, kind, told in fetched(connection, f"CHECK TABLE {names} EXTENDED"):
        name, said = str(place).partition(".")[2], str(told)
        if "lock" in said.casefold():
            return Checked((), f"the indexes of {printable(name)} cannot be checked: {said[:120]}")
        if kind.casefold() == "error" or said.startswith("InnoDB:"):
            problems.append({"problem": f"{name}: {said}", "object": name, "page": None})
    return Checked(tuple(problems))
