"""The account of the pack, started once a module."""

import pytest
from statediff_cloud.sandbox import EmbeddedAccount

from statediff.packs import sandbox_pack


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory):
    [source] = sandbox_pack("cloud").sources
    made = EmbeddedAccount(source, (), tmp_path_factory.mktemp("cloud") / "account")
    made.start()
    yield made
    made.stop()
