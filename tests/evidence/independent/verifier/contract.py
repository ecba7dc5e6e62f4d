"""Read contracts of the subset: YAML, patterns and expressions (step 2, contract.md)."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from .basics import Refused
from .opening import CannotTell

OPERATIONS = ("create", "update", "delete", "any")
TOP = set("contract version owner intent noop evidence forbid require allow".split())
COMPARE = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
TRAPS = (yaml.TagToken, yaml.AliasToken, yaml.AnchorToken)
OTHER_NUMBER = re.compile(
    r"0o[0-7]+|0x[0-9a-fA-F]+|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)


@dataclass
class Clause:
    """One entry of forbid, require or allow."""

    id: str
    stage: str
    operation: str | None = None
    types: list[str] = field(default_factory=list)
    where: ast.expr | None = None
    wanted: dict[str, list[Any]] = field(default_factory=dict)
    least: int = 1
    most: int | None = 1
    that: ast.expr | None = None


@dataclass
class Contract:
    """A contract of the subset."""

    name: str
    version: str
    noop: bool
    disclose: dict[str, str]
    clauses: list[Clause]


def _scalar(node: yaml.ScalarNode) -> Any:
    text = node.value
    if node.style is not None:
        return text
    if re.fullmatch("~|null|Null|NULL|", text):
        return None
    if re.fullmatch("true|True|TRUE|false|False|FALSE", text):
        return text.lower() == "true"
    if re.fullmatch("[-+]?[0-9]{1,40}", text):
        return int(text)
    if OTHER_NUMBER.fullmatch(text):
        raise CannotTell("a number that is no integer")
    return text


def _node(node: Any) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return [_node(item) for item in node.value]
    result: dict[str, Any] = {}
    for name, value in node.value:
        key = _node(name)
        if not isinstance(key, str) or key in result:
            raise Refused("R-TRU contract: a key twice, or no text")
        result[key] = _node(value)
    return result


def read_yaml(text: str) -> Any:
    """Read the YAML of a contract, without tags and aliases."""
    try:
        for token in yaml.scan(text):
            if isinstance(token, TRAPS):
                raise CannotTell("tags and aliases")
        return _node(yaml.compose(text, Loader=yaml.BaseLoader))
    except (yaml.YAMLError, ValueError, RecursionError, AttributeError) as error:
        raise Refused("R-TRU contract: not YAML") from error


def read_expression(text: Any) -> ast.expr:
    """Parse an expression of the subset."""
    if not isinstance(text, str) or len(text) > 4000:
        raise CannotTell("an expression that is no text")
    try:
        body = ast.parse(text.strip(), mode="eval").body
        _check_expression(body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise CannotTell("an expression that is not of the subset") from error
    return body


def _check_expression(node: ast.AST) -> None:
    if isinstance(node, ast.BoolOp):
        for part in node.values:
            _check_expression(part)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        _check_expression(node.operand)
    elif isinstance(node, ast.Compare):
        if len(node.ops) != 1 or not isinstance(node.ops[0], COMPARE):
            raise CannotTell("a comparison beyond the subset")
        _check_term(node.left)
        _check_term(node.comparators[0])
    else:
        _check_expression(read_loop(node).body)


@dataclass(frozen=True)
class Loop:
    """An `all` or `any` over the members of a type on a side."""

    decisive: bool
    variable: str
    side: str
    kind: str
    body: ast.expr


def read_loop(node: ast.AST) -> Loop:
    """Return the loop that an expression is; of anything else, nothing can be said."""
    if not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords:
        raise CannotTell("an expression beyond the subset")
    name, loop = node.func, node.args[0]
    if not isinstance(name, ast.Name) or name.id not in ("all", "any"):
        raise CannotTell("a call beyond the subset")
    if not isinstance(loop, ast.GeneratorExp) or len(loop.generators) != 1:
        raise CannotTell("a call beyond the subset")
    part = loop.generators[0]
    scan = read_attribute(part.iter)
    if part.ifs or part.is_async or not isinstance(part.target, ast.Name):
        raise CannotTell("a loop beyond the subset")
    if scan is None or scan[0] not in ("before", "after"):
        raise CannotTell("a range beyond the subset")
    return Loop(name.id == "any", part.target.id, scan[0], scan[1], loop.elt)


def read_attribute(node: ast.AST) -> tuple[str, str] | None:
    """Return name and field of a term such as `it.status`, or None."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.value.id, node.attr
    return None


def literal(node: ast.AST) -> int | str | None:
    """Return the literal that a term is, or None."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = literal(node.operand)
        return -inner if isinstance(inner, int) else None
    if isinstance(node, ast.Constant) and not isinstance(node.value, bool):
        return node.value if isinstance(node.value, int | str) else None
    return None


def _check_term(node: ast.AST) -> None:
    if literal(node) is None and read_attribute(node) is None:
        raise CannotTell("a term beyond the subset")


def _literal_value(value: Any) -> list[Any]:
    if value is None:
        return ["null"]
    if isinstance(value, bool):
        return ["bool", value]
    if isinstance(value, int):
        return ["int", str(value)]
    if isinstance(value, str):
        return ["text", value]
    raise CannotTell("set of something else than literals")


def _count(clause: Clause, value: Any) -> None:
    if clause.stage != "require":
        raise CannotTell("count outside of require")
    if isinstance(value, int) and not isinstance(value, bool):
        clause.least = clause.most = value
        return
    if not isinstance(value, dict) or not value or not set(value) <= {"min", "max"}:
        raise CannotTell("a count beyond the subset")
    if not all(isinstance(bound, int) and not isinstance(bound, bool) for bound in value.values()):
        raise CannotTell("a count beyond the subset")
    clause.least, clause.most = value.get("min", 0), value.get("max")


def _pattern(clause: Clause, value: dict[str, Any], operation: str) -> None:
    clause.operation = operation
    types = value[operation]
    if not isinstance(types, str | list) or not all(isinstance(name, str) for name in types):
        raise CannotTell("types of a pattern")
    clause.types = [types] if isinstance(types, str) else types
    if "where" in value:
        clause.where = read_expression(value["where"])
    if "set" in value:
        if not isinstance(value["set"], dict) or operation == "delete":
            raise CannotTell("a set beyond the subset")
        clause.wanted = {name: _literal_value(item) for name, item in value["set"].items()}
    if "count" in value:
        _count(clause, value["count"])


def _clause(stage: str, value: Any) -> Clause:
    if not isinstance(value, dict) or not isinstance(value.get("id"), str):
        raise CannotTell("a clause without an id")
    clause = Clause(value["id"], stage)
    used = [name for name in OPERATIONS if name in value]
    if set(value) - {"id", "where", "set", "count", "that", *OPERATIONS} or len(used) > 1:
        raise CannotTell("a clause beyond the subset")
    if not used:
        if set(value) != {"id", "that"} or stage == "allow":
            raise CannotTell("a clause beyond the subset")
        clause.that = read_expression(value["that"])
        return clause
    if "that" in value:
        raise CannotTell("that beside a pattern")
    _pattern(clause, value, used[0])
    return clause


def _disclose(evidence: Any) -> dict[str, str]:
    if not isinstance(evidence, dict):
        raise CannotTell("evidence that is no mapping")
    disclose: dict[str, str] = {}
    for source, how in evidence.items():
        if how is not None and (not isinstance(how, dict) or set(how) - {"disclose"}):
            raise CannotTell("evidence with more than disclose")
        disclose[source] = (how or {}).get("disclose", "auditor")
    return disclose


def read_contract(text: str) -> Contract:
    """Read a contract of the subset; of another one, nothing can be said."""
    document = read_yaml(text)
    if not isinstance(document, dict):
        raise Refused("R-TRU contract: no mapping")
    if set(document) - TOP:
        raise CannotTell("keys of the contract: " + ", ".join(sorted(set(document) - TOP)))
    if not all(isinstance(document.get(name), str) for name in ("contract", "version")):
        raise Refused("R-TRU contract: no name or version")
    noop = document.get("noop", False)
    if not isinstance(noop, bool):
        raise CannotTell("noop that is no flag")
    disclose = _disclose(document.get("evidence", {}))
    clauses: list[Clause] = []
    for stage in ("forbid", "require", "allow"):
        listed = document.get(stage, [])
        if not isinstance(listed, list):
            raise CannotTell("a list of clauses")
        clauses += [_clause(stage, value) for value in listed]
    return Contract(document["contract"], document["version"], noop, disclose, clauses)
