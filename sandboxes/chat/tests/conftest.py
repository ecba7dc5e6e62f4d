"""The chat of the pack, started once a module."""

from typing import Any

import pytest

from statediff.packs import sandbox_pack
from statediff.systems.base.registry import system_of


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Any:
    [source] = (s for s in sandbox_pack("chat").sources if s.name == "chat")
    made = system_of(source, (), tmp_path_factory.mktemp("chat") / "chat")
    made.start()
    yield made
    made.stop()
