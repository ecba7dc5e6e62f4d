"""Whether two definitions of SQL mean the same, however they are written.

Spaces, comments, the case of words, quotes around names and parentheses that order nothing are
spelling. What `sqlglot` does not parse is compared word by word. Names keep their case inside
quotes: there a database may take what is no name for a text.
"""

from __future__ import annotations

import re
from typing import Any, Final

_WORD: Final = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|/\*.*?(?:\*/|$))|(?P<text>'(?:[^']|'')*')"""
    r"""|(?P<name>"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\])|(?P<word>[\w$]+)|(?P<other>.)""",
    re.DOTALL,
)
COVERED: Final = re.compile(
    r"""'[^']*'|"[^"]*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?(?:\*/|$)""", re.DOTALL
)
"""Texts, quoted names and comments: no word in them is one of the language."""
_SAYING_NOTHING: Final = frozenset({"(", ")", "generated", "always", "asc"})
_LONGEST: Final = 20_000
"""Characters of a definition that is parsed; a longer one is compared word by word."""


def means_the_same(one: str, other: str, dialect: str) -> bool:
    """Whether nothing but the spelling of the two definitions differs."""
    if one == other:
        return True
    forms = words(one), words(other)
    if forms[0] == forms[1]:
        return True
    # The parser may leave out what it does not know: so the words have to be the same, too.
    rest = [[word for word in form if word not in _SAYING_NOTHING] for form in forms]
    if rest[0] != rest[1] or max(len(one), len(other)) > _LONGEST:
        return False
    trees = _tree(one, dialect), _tree(other, dialect)
    return trees[0] is not None and trees[0] == trees[1]


def words(text: str) -> tuple[str, ...]:
    """The words that say something: names without quotes, all else in one case."""
    found = []
    for match in _WORD.finditer(text):
        kind, word = match.lastgroup, match[0]
        if kind == "word":
            found.append(word.lower())
        elif kind == "name":
            plain = word[1:-1].replace(word[-1] * 2, word[-1])
            found.append(plain if re.fullmatch(r"[a-z_][a-z0-9_$]*", plain) else word)
        elif kind != "skip":
            found.append(word)
    return tuple(found)


def _tree(text: str, dialect: str) -> Any:
    """What the definition says, without what orders nothing; None where it is not understood."""
    import sqlglot  # noqa: PLC0415 - for a definition that changed, which few do

    try:
        tree = sqlglot.parse_one(text, read=dialect)
    except sqlglot.errors.SqlglotError:
        return None
    return None if tree.find(sqlglot.exp.Command) else tree.transform(_plain)


def _plain(node: Any) -> Any:
    from sqlglot import exp  # noqa: PLC0415 - as above

    node.comments = None
    if isinstance(node, exp.Paren):
        return _plain(node.this)
    if isinstance(node, exp.Identifier):
        name = node.this if node.args.get("quoted") else node.this.lower()
        return exp.Identifier(this=name)
    if isinstance(node, exp.Ordered) and not node.args.get("desc"):
        return exp.Ordered(this=node.this, nulls_first=node.args.get("nulls_first"))
    return node
