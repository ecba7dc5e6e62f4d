"""Each source says what it does not look at, and a page of the docs lists it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

from statediff import systems
from statediff.systems.base.registry import plugins

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "not-observed.md").read_text("utf-8")


def classes() -> list[type]:
    """Every class of ours that reads a state."""
    found: list[type] = []
    for module in pkgutil.walk_packages(systems.__path__, "statediff.systems."):
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
    system = source.__module__.split(".")[2]
    assert source in plugins()[system].sources()
    assert source.not_observed
    assert all(isinstance(phrase, str) and phrase.strip() for phrase in source.not_observed)
    for phrase in source.not_observed:
        assert f"| `{source.__name__}` | {phrase} |" in PAGE


def test_every_system_of_ours_has_a_source():
    ours = {each.__module__.split(".")[2] for each in classes()}
    assert ours == {
        *("aws", "calendars", "databases", "files", "git", "mail", "mailbox", "mariadb", "objects"),
        *("payments", "postgres", "redmine", "roundup", "sqlite", "synapse", "tables", "tryton"),
    }
