"""The comparison of two definitions in SQL by their meaning, however they are written.

Spaces, comments, the case of words, quotes around what can only be a name, and parentheses that
order nothing are spelling. What `sqlglot` does not parse is compared word by word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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
    """True if nothing but the spelling of the two definitions differs."""
    if one == other:
        return True
    forms = words(one), words(other)
    if forms[0] == forms[1]:
        return True
    # The parser may leave out what it does not know: so the words have to be the same, too.
    rest = [[w.strip('"') for w in form if w not in _SAYING_NOTHING] for form in forms]
    if rest[0] != rest[1] or max(len(one), len(other)) > _LONGEST:
        return False
    trees = _tree(one, dialect), _tree(other, dialect)
    return trees[0] is not None and trees[0] == trees[1]


def pieces(text: str) -> Iterator[str]:
    """The text in pieces: what is in quotes as a whole, words, blanks. A comment is a blank."""
    for match in _WORD.finditer(text):
        yield " " if match[0].startswith(("--", "/*")) else match[0]


def words(text: str) -> tuple[str, ...]:
    """The words that say something, in one case but for texts and names in double quotes."""
    found = []
    for match in _WORD.finditer(text):
        kind, word = match.lastgroup, match[0]
        if kind == "word":
            found.append(word.lower())
        elif kind == "name":
            found.append(_bare(word))
        elif kind != "skip":
            found.append(word)
    return tuple(found)


def _bare(name: str) -> str:
    """A name in brackets or backticks without them; a database may take `"x"` for a text."""
    plain = name[1:-1]
    is_plain = name[0] != '"' and re.fullmatch(r"[a-z_][a-z0-9_$]*", plain) is not None
    return plain if is_plain else name


def _tree(text: str, dialect: str) -> Any:
    """The tree of the definition, without what orders nothing; None where it is not understood."""
    import sqlglot  # noqa: PLC0415 - for a definition that changed, which few do

    bare = _WORD.sub(lambda found: _bare(found[0]) if found["name"] else found[0], text)
    try:
        tree = sqlglot.parse_one(bare, read=dialect)
    except sqlglot.errors.SqlglotError:
        return None
    return None if tree.find(sqlglot.exp.Command) else tree.transform(_plain)


def _plain(node: Any) -> Any:
    from sqlglot import exp  # noqa: PLC0415 - as above

    node.comments = None
    if isinstance(node, exp.Paren):
        return _plain(node.this)
    if isinstance(node, exp.Identifier):
        is_quoted = bool(node.args.get("quoted"))
        name = node.this if is_quoted else node.this.lower()
        # In an expression, quotes may make a text of a name.
        return exp.Identifier(this=name, quoted=is_quoted and isinstance(node.parent, exp.Column))
    if isinstance(node, exp.Ordered) and not node.args.get("desc"):
        return exp.Ordered(this=node.this, nulls_first=node.args.get("nulls_first"))
    return node
