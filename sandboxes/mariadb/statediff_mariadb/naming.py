"""Names of databases in definitions: of the one that is observed, and of its copies."""

from __future__ import annotations

import re
from typing import Final

from statediff_mariadb.session import quoted

_TEXT: Final = r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|--[ \t][^\n]*|/\*.*?\*/"


def renamed(statement: str, name: str, to: str) -> str:
    """The definition with the database `to` where it names the database `name`.

    >>> renamed("SELECT `app`.`t`.`a`, 'app.t' FROM app.t", "app", "copy")
    "SELECT `copy`.`t`.`a`, 'app.t' FROM `copy`.t"
    """
    return _replaced(statement, name, f"{quoted(to)}.")


def unnamed(statement: str, name: str) -> str:
    """The definition as it reads in the database `name`, which it then need not name.

    >>> unnamed("SELECT `app`.`t`.`a`, 'app.t' FROM app.t", "app")
    "SELECT `t`.`a`, 'app.t' FROM t"
    """
    return _replaced(statement, name, "")


def _replaced(statement: str, name: str, by: str) -> str:
    plain, marked = re.escape(name), re.escape(name.replace("`", "``"))
    named = rf"(?<![\w$.`])(?:`{marked}`|{plain})\s*\."
    found = re.compile(f"{_TEXT}|(?P<named>{named})", re.DOTALL)
    return found.sub(lambda each: by if each["named"] else each[0], statement)
