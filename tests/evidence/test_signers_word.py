"""The parts of a bundle that rest on its signer's word: replay agrees with a lie about them.

Each limit stands in docs/trust.md. The state roots bind rows, and nothing of what is here.
"""

from __future__ import annotations

from typing import Any

import pytest

from statediff.errors import BundleError
from statediff.evidence import verify as v
from statediff.evidence.package import Bundle
from statediff.evidence.seal import SEED_BYTES, seal
from statediff.kernel import replay
from statediff.workspace.rechecking import unbound
from tests.evidence.test_roots import forged, remade
from tests.growing_logs import ADA, NOON, TRUST
from tests.judging import DIVERGE, MATCH, capture, item, part, run, state

RENAMED = """\
identify: [{type: log, match_on: {%s: null}, version: 1, because: no key}]
forbid:
  - {id: kept, update: log}
allow:
  - {id: moved, any: log}
"""
PAIRED = """\
identify: [{type: log, match_on: {%s: null}, version: 1, because: no key}]
forbid:
  - {id: kept, delete: log}
allow:
  - {id: marked, update: log}
"""


APART = {"log": [{"what": "a", "n": 1}]}, {"log": [{"what": "b", "n": 1}]}
ALIKE = {"log": [{"what": "a", "n": 1}]}, {"log": [{"what": "a", "n": 2}]}


@pytest.mark.parametrize(
    ("body", "sides", "by", "why"),
    [
        (PAIRED, APART, ("what", "n"), "two entities are paired as one"),
        (RENAMED, ALIKE, ("what", "n"), "one entity is not paired with itself"),
    ],
)
def test_entities_without_a_key_are_paired_as_the_contract_says(
    body: str, sides: tuple[Any, Any], by: tuple[str, str], why: str
) -> None:
    true, lie = (run(body % field, *sides).bundle for field in by)
    assert [true.manifest["verdict"], lie.manifest["verdict"]] == [DIVERGE.value, MATCH.value]
    assert replay(lie).verdict is MATCH
    resolution = lie.document("resolution.json")
    other_rule = "no rule of the contract" if resolution["mappings"][0] else why
    with pytest.raises(BundleError, match=other_rule):
        replay(under(true, forged(true, lie, "roots"), resolution))
    for each in resolution["mappings"][0]:
        each["rule"] = "log by what v1"
    with pytest.raises(BundleError, match=why):
        replay(under(true, forged(true, lie, "roots"), resolution))


def under(true: Bundle, lie: Bundle, resolution: Any) -> Bundle:
    """The lie under the contract of the truth."""
    text = true.files["contract.yaml"]
    manifest = {**lie.manifest, "contract_digest": true.manifest["contract_digest"]}
    found = Bundle(manifest, {**lie.files, "contract.yaml": text})
    return remade(found, resolution=resolution)


TWO = ("db", "copy")


def sides(*names: str) -> list[Any]:
    return [
        capture(side, *(part(side, state({"item": [item(1)]}, source=n), n) for n in names))
        for side in ("before", "after")
    ]


@pytest.mark.parametrize(
    ("body", "names", "said"),
    [
        ("", ("db",), []),
        ("forbid: [{id: never, create: item, during: run}]\n", ("db",), ["what db was"]),
        ("evidence: {db: {history: required}}\n", ("db",), ["what db was"]),
        ("", TWO, [f"{name}, which several" for name in ("doc", "grant", "item", "log", "user")]),
    ],
)
def test_a_reader_hears_what_a_verdict_rests_on_that_is_under_no_root(
    body: str, names: tuple[str, ...], said: list[str]
) -> None:
    made = run("allow: [{id: any, any: item}]\n" + body, *sides(*names)).bundle
    sealed = seal(made, bytes(SEED_BYTES), NOON, ADA.public, ADA.sign)
    found = unbound(v.verify(sealed.files, TRUST))
    assert len(found) == len(said)
    assert all(one.startswith(other) for one, other in zip(found, said, strict=True))
