"""A graph as GraphML or node-link JSON, and back: every value in it comes back as what it was.

Both files hold texts only. Names and types stand as they are, with anything but printable ASCII
as in a JSON text; `key`, `fields`, `before`, `after`, `deltas` and `unobserved` are JSON, in
which each value is encoded as in a bundle (`statediff.model.values.encode`): `["int", "5"]`,
`["null"]`, `["unobserved", "…"]`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from statediff.errors import InputError, UsageError
from statediff.model.graph import Graph
from statediff.model.values import decode, encode

SUFFIXES: Final = (".graphml", ".json")


def require_suffix(suffix: str) -> None:
    """`UsageError` unless the end of a file's name says which form is meant."""
    if suffix.lower() not in SUFFIXES:
        raise UsageError(
            f"a graph is written as GraphML (.graphml) or as node-link JSON (.json), not {suffix!r}"
        )


def graph_bytes(graph: Graph, suffix: str) -> bytes:
    """The graph in the form that the suffix names."""
    import networkx as nx  # noqa: PLC0415 - takes a tenth of a second, and few write a graph

    require_suffix(suffix)
    plain: Graph = nx.MultiDiGraph()
    plain.graph.update(_packed(graph.graph))
    for at, attributes in graph.nodes(data=True):
        plain.add_node(_text(at), **_packed(attributes))
    for start, to, key, attributes in graph.edges(keys=True, data=True):
        plain.add_edge(_text(start), _text(to), key=_text(key), **_packed(attributes))
    if suffix.lower() == ".json":
        document = nx.node_link_data(plain, edges="edges")
        return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()
    return ("\n".join(nx.generate_graphml(plain, prettyprint=True)) + "\n").encode()


def graph_from(content: bytes, suffix: str) -> Graph:
    """The graph in such a file; `InputError` for anything else."""
    import networkx as nx  # noqa: PLC0415 - as above

    require_suffix(suffix)
    graph: Graph = nx.MultiDiGraph()
    plain: Any
    try:
        if suffix.lower() == ".json":
            plain = nx.node_link_graph(json.loads(content), edges="edges")
        else:
            if b"<!" in content:  # no file of ours declares anything, and entities may never end
                raise ValueError("it has a declaration")
            plain = nx.parse_graphml(content.decode(), force_multigraph=True)
        own = {name: text for name, text in plain.graph.items() if name not in _DEFAULTS}
        graph.graph.update(_unpacked(own))
        for at, attributes in plain.nodes(data=True):
            if not {"type", "key"} <= set(attributes):
                raise ValueError(f"{at} has no type or no key")
            graph.add_node(_from_text(at), **_unpacked(attributes))
        for start, to, key, attributes in plain.edges(keys=True, data=True):
            ends = _from_text(start), _from_text(to)
            graph.add_edge(*ends, key=_from_text(key), **_unpacked(attributes))
    except _DAMAGE as error:
        raise InputError(f"not a graph that statediff wrote: {str(error)[:200]}") from error
    except nx.NetworkXException as error:
        raise InputError(f"not a graph that statediff wrote: {str(error)[:200]}") from error
    return graph


_DAMAGE: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError, SyntaxError)
"""What networkx, JSON and XML raise for a file of another kind; a ParseError is a SyntaxError."""


_DEFAULTS: Final = ("node_default", "edge_default")
"""What networkx adds to a graph that it reads from GraphML."""


# ---------------------------------------------------------------- attributes


def _text(name: Any) -> str:
    return json.dumps(str(name))[1:-1]


def _from_text(text: str) -> str:
    found = json.loads(f'"{text}"')
    return str(found)


def _row(row: Mapping[str, Any] | None) -> Any:
    return None if row is None else [[name, encode(value)] for name, value in row.items()]


def _row_from(document: Any) -> Any:
    return None if document is None else {str(n): decode(value) for n, value in document}


def _texts_from(document: Any) -> Any:
    return {str(k): str(v) for k, v in document.items()}


_PACK: Final[Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]] = {
    "key": (lambda key: [encode(v) for v in key], lambda d: tuple(decode(v) for v in d)),
    "fields": (_row, _row_from),
    "before": (_row, _row_from),
    "after": (_row, _row_from),
    "deltas": (list, lambda d: tuple(map(str, d))),
    "explained_by": (list, lambda d: tuple(map(str, d))),
    "witness_of": (list, lambda d: tuple(map(str, d))),
    "unobserved": (dict, _texts_from),
    "left_out": (int, int),
}
"""Attributes that are JSON: how each becomes plain JSON, and back. Every other is a text."""


def _packed(attributes: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: json.dumps(_PACK[name][0](value)) if name in _PACK else _text(value)
        for name, value in attributes.items()
    }


def _unpacked(attributes: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, text in attributes.items():
        if not isinstance(text, str):
            raise TypeError(f"{name} is no text")
        found[str(name)] = _PACK[name][1](json.loads(text)) if name in _PACK else _from_text(text)
    return found
