"""URLs of databases that run already: what of them is read.

`?schema=NAME` reads the tables of one schema, `?tables=PATTERN,…` those whose names match a pattern
of the shell (`order*`); every other parameter is the driver's. Tables that are left out so are no
part of the state: a change to them is seen by nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import parse_qsl, quote, unquote, urlencode

from statediff.capture.source import SourceUnavailable
from statediff.errors import UsageError
from statediff.model.values import printable


@dataclass(frozen=True)
class TableChoice:
    """Which tables of a database are read; all of them where nothing is given."""

    schema: str | None = None
    patterns: tuple[str, ...] = ()

    def has(self, schema: str, name: str) -> bool:
        """True if the table is read."""
        if self.schema is not None and schema != self.schema:
            return False
        names = (name, f"{schema}.{name}")
        return not self.patterns or any(fnmatchcase(n, p) for n in names for p in self.patterns)

    def _slip(self, tables: Iterable[tuple[str, str]]) -> str | None:
        """Why the choice is a slip: its schema or one of its patterns chose no table.

        `tables` are the chosen ones, as (schema, name).
        """
        chosen = [TableChoice(patterns=(pattern,)) for pattern in self.patterns]
        named = list(tables)
        if self.schema is not None and not named:
            return f"no table of the schema {printable(self.schema)} is there for this account"
        for each in chosen:
            if not any(each.has(schema, name) for schema, name in named):
                return f"no table is called {printable(each.patterns[0])}; correct `?tables=`"
        return None

    def require(self, tables: Iterable[tuple[str, str]]) -> None:
        """`SourceUnavailable` where the choice is a slip."""
        if (cause := self._slip(tables)) is not None:
            raise SourceUnavailable(cause)


EVERY_TABLE = TableChoice()


def _with_quoted_password(place: str) -> str:
    """A password with an `@` in it is one all the same: drivers would take its end for the host."""
    netloc, slash, path = place.partition("/")
    account, at, host = netloc.rpartition("@")
    user, colon, password = account.partition(":")
    return f"{user}{colon}{quote(unquote(password), safe='')}{at}{host}{slash}{path}"


def split_choice(url: str) -> tuple[str, TableChoice]:
    """The URL as its driver takes it, and the tables that it chooses.

    `UsageError` for a choice that is empty or given twice; nothing of the URL is in the message.
    """
    whole, _, query = url.partition("?")
    scheme, _, place = whole.partition("://")
    chosen: dict[str, str] = {}
    others: list[tuple[str, str]] = []
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in ("schema", "tables"):
            others.append((name, value))
        elif not value or name in chosen:
            raise UsageError(
                f"`?{name}=` of a database's URL: expected one value that is not empty"
            )
        else:
            chosen[name] = value
    patterns = tuple(p for p in chosen.get("tables", "").split(",") if p)
    plain = f"{scheme}://{_with_quoted_password(place)}"
    return plain + ("?" + urlencode(others) if others else ""), TableChoice(
        chosen.get("schema"), patterns
    )
