"""Packs of imported benchmarks: data, read strictly; contracts composed of their parts."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statediff_lab.importers.pack import compose_yaml, open_pack, read_domain_pack

from statediff.contract.file import parse_contract
from statediff.errors import UsageError

HEAD = {
    "contract": "imported/x",
    "version": "1.0.0",
    "owner": "somebody",
    "intent": "Something is to be done: here.",
}
REQUIRE = {"require": [{"id": "one", "create": "ticket", "where": 'it.a == "#: x, [y]"'}]}


def scalars():
    text = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=20)
    numbers = st.decimals(-1000, 1000, places=2, allow_nan=False)
    return st.one_of(st.none(), st.booleans(), st.integers(-(2**40), 2**40), text, numbers)


@given(st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), scalars(), max_size=4))
def test_whatever_a_benchmark_says_stays_a_value_of_the_contract(inputs):
    read = parse_contract(compose_yaml({**HEAD, "inputs": inputs}, REQUIRE), "c.yaml")
    assert read.content.inputs == inputs
    assert read.content.require[0].where == 'it.a == "#: x, [y]"'


def test_lists_of_several_parts_follow_one_another_and_mappings_are_merged():
    allow = [{"update": "ticket", "fields": ["x"]}]
    data = compose_yaml(
        {**HEAD, "inputs": {"a": 1}},
        {**REQUIRE, "allow": allow},
        {"allow": allow, "inputs": {"b": Decimal("1.50")}},
    )
    content = parse_contract(data, "c.yaml").content
    assert len(content.allow) == 2
    assert content.inputs == {"a": 1, "b": Decimal("1.50")}
    assert b"&" not in data
    assert b"*" not in data


def written(folder, **files):
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


PACK = "pack: x/y\nversion: 1.0.0\nabout: For a test.\n"


def test_a_pack_tells_its_sections_and_what_it_says_of_a_task(tmp_path):
    pack = read_domain_pack(
        written(
            tmp_path,
            pack=PACK + "exclude:\n  - {what: a.b, because: it is kept by a clock}\n",
            tasks="t1:\n  reviewed:\n    - {clause: frame, on: a, because: nobody asked for it}\n",
            schema="schema: y\nversion: 1.0.0\nentities:\n  a: {}\n",
        )
    )
    assert pack.version == "1.0.0"
    assert pack.sections["exclude"][0]["what"] == "a.b"
    assert pack.notes("t1").reviewed[0].on == "a"
    assert pack.notes("t2").reviewed == ()
    assert pack.schema is not None


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"pack": PACK + "excludes: []\n"}, "unknown key 'excludes'"),
        ({"pack": "pack: x\nabout: y\n"}, "expected text under `version`"),
        ({"pack": PACK, "tasks": "t1:\n  reviewed:\n    - {clause: frame}\n"}, "needs `clause`"),
        ({"pack": PACK, "tasks": "t1: 5\n"}, "expected keys and values"),
        ({"pack": "a: [\n"}, "cannot be read as a pack"),
    ],
)
def test_a_damaged_pack_is_refused_with_the_reason(tmp_path, files, why):
    with pytest.raises(UsageError, match=why):
        read_domain_pack(written(tmp_path, **files))


@pytest.mark.parametrize("domain", ["never_seen", "../../sandboxes", "", "a/b", "\u0430"])
def test_a_domain_without_a_pack_has_an_empty_one(domain):
    pack = open_pack("agent-diff", domain)
    assert not pack.sections
    assert pack.version == "0.0.0"
