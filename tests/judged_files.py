"""Two states on disk judged under a contract, as a user would: SQLite databases and JSON tables."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from statediff import api
from tests.judging import contract


def database(path: Path, *statements: str) -> Path:
    """A new SQLite file in which each statement was run, in one transaction a statement."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


def tables(path: Path, content: Any) -> Path:
    """A file of JSON tables; a text is written as it is."""
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def judged(
    folder: Path, body: str, before: Path, after: Path, schema: str = "", *, noop: bool = True
) -> api.Judged:
    """The judged trial of `body`, a contract without its head."""
    file = folder / "contract.yaml"
    file.write_text(contract(body, noop))
    more = {}
    if schema:
        (folder / "schema.yaml").write_text(schema)
        more["schema"] = folder / "schema.yaml"
    return api.judge(file, before=before, after=after, **more)


def sentences(done: api.Judged) -> list[str]:
    """The sentences of the findings, in their order."""
    return [f["sentence"] for f in done.document["findings"]]
