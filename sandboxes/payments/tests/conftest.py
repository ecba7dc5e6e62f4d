"""The payments of the pack, started once a module and as they were at the start of each test."""

import pytest
from statediff_payments.sandbox import EmbeddedPayments

from statediff.packs import sandbox_pack


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory):
    [source] = [s for s in sandbox_pack("payments").sources if s.name == "payments"]
    made = EmbeddedPayments(source, (), tmp_path_factory.mktemp("payments") / "work")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def system(running: EmbeddedPayments) -> EmbeddedPayments:
    running.start()
    running.reset()
    return running
