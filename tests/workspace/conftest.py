"""Fixtures that the tests of the application layer share."""

import tempfile
from pathlib import Path

import pytest

import statediff.workspace.campaigns
import statediff.workspace.episodes
import statediff.workspace.trials
from tests.cli.conftest import files as files  # noqa: PLC0414 - a fixture
from tests.cli.conftest import statediff as statediff  # noqa: PLC0414 - a fixture
from tests.integrations.conftest import options as options  # noqa: PLC0414 - a fixture


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which everything temporary is made: what lies in it was left behind."""
    folder = tmp_path / "begun"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder
