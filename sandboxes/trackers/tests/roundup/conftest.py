"""One helpdesk that runs for each module of tests, and is put back before each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from statediff.capture.source import Source
from statediff.packs import sandbox_pack
from statediff.systems.base.sandbox import EmbeddedSandbox


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedSandbox]:
    work = tmp_path_factory.mktemp("helpdesk") / "work"
    with EmbeddedSandbox(sandbox_pack("helpdesk"), work) as started:
        yield started


@pytest.fixture
def sandbox(running: EmbeddedSandbox) -> EmbeddedSandbox:
    running.reset()
    return running


@pytest.fixture
def home(sandbox: EmbeddedSandbox) -> Path:
    return sandbox.system("tracker").home


@pytest.fixture
def source(sandbox: EmbeddedSandbox) -> Source:
    return sandbox.sources()[0]
