"""The fields that the page on regulation names are fields that bundles have."""

from __future__ import annotations

import re
from pathlib import Path

from tests.judging import item, run, user

PAGE = Path(__file__).parents[2] / "docs" / "regulation.md"
FIELDS = re.compile(r"^\| `([a-z]+\.(?:json|yaml))`([^|]*)\|", re.MULTILINE)


def test_every_field_that_is_named_is_in_a_bundle() -> None:
    before = {"item": [item(1, 1, owner=1)], "user": [user(1)]}
    body = "require:\n  - {id: made, create: item, set: {n: 3}}\n"
    bundle = run(body, before, {**before, "item": [*before["item"], item(2, 3)]}).bundle
    named = FIELDS.findall(PAGE.read_text("utf-8"))
    assert len(named) >= 10
    for file, rest in named:
        if file == "manifest.json":
            assert set(re.findall("`([a-z_]+)`", rest)) <= set(bundle.manifest)
            continue
        assert file in bundle.files
        members = re.findall("`([a-z_]+)`", rest)
        assert not members or set(members) <= set(bundle.document(file))
