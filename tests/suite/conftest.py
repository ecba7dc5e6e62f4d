"""Fixtures that the tests of suites share."""

from pathlib import Path

import pytest

from tests.suite.folders import Folders


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)
