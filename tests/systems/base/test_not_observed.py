"""Each source says what it does not look at, and a page of the docs lists it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import runpy
from pathlib import Path

import pytest

from statediff.systems.base.registry import plugins
from tests.code import CORE, PACKAGES

BUILD = Path(__file__).resolve().parents[3] / "docs" / "build_reference.py"
PAGE = runpy.run_path(str(BUILD))["not_observed"]()


def classes() -> list[type]:
    """Every class of ours that reads a state."""
    found: list[type] = []
    packages = [
        (CORE / "systems", "statediff.systems."),
        *((p, f"{p.name}.") for p in PACKAGES[1:]),
    ]
    modules = (m for at, name in packages for m in pkgutil.walk_packages([str(at)], name))
    for module in modules:
        if module.name.endswith((".source", ".api")):
            for _, each in inspect.getmembers(
                importlib.import_module(module.name), inspect.isclass
            ):
                is_source = {"name", "schema", "read"} <= set(dir(each)) | set(
                    getattr(each, "__annotations__", ())
                )
                if each.__module__ == module.name and is_source and "Pages" not in each.__name__:
                    found.append(each)
    return found


@pytest.mark.parametrize("source", classes(), ids=lambda each: each.__name__)
def test_a_source_belongs_to_its_plug_in_and_says_what_it_does_not_look_at(source):
    assert any(source in plugin.sources() for plugin in plugins().values())
    assert source.not_observed
    assert all(isinstance(phrase, str) and phrase.strip() for phrase in source.not_observed)
    for phrase in source.not_observed:
        assert f"| `{source.__name__}` | {phrase} |" in PAGE


def test_every_system_of_ours_has_a_source():
    reading = {name for name, plugin in plugins().items() if {*plugin.sources()} & {*classes()}}
    assert reading == {
        *("aws", "calendars", "databases", "files", "git", "mail", "mailbox", "mariadb", "objects"),
        *("payments", "postgres", "redmine", "roundup", "sqlite", "synapse", "tables", "tryton"),
    }
