"""Every task of the pack `repo` behind a real git server: each agent gets the verdict it should."""

import pytest

from sandboxes.containers.tests.docker.cases import cases_of, check
from statediff.packs import sandbox_pack
from statediff.systems.base.sandbox import EmbeddedSandbox
from tests.tasks import try_agent

pytestmark = pytest.mark.docker("git")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory):
    work = tmp_path_factory.mktemp("repo") / "work"
    with EmbeddedSandbox(sandbox_pack("repo", "git"), work) as started:
        yield started


@pytest.mark.parametrize(("folder", "case"), cases_of("repo"))
def test_every_agent_gets_the_same_verdict_over_http(running, tmp_path, folder, case):
    trial = try_agent(
        lambda _: running, folder, case["agent"], tmp_path / "t", case.get("unplug", "")
    )
    check(trial, case)
