"""Both ways on real servers: psql, mariadb, curl and git, and the same agent through MCP."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hosts.tests.protocols.two_ways.compare import both_ways
from hosts.tests.protocols.two_ways.steps import TASKS
from statediff.packs import sandbox_pack
from statediff.systems.base.sandbox import EmbeddedSandbox

WHERE = {
    "accounts": (("postgres", "psql"), ("mariadb", "docker")),
    "helpdesk": (("redmine", "curl"),),
    "repo": (("git", "git"),),
    "shop": (("postgres", "psql"), ("mariadb", "docker")),
}
"""Pack → its variants, and the program that speaks to each."""
SHORT = (
    "accounts/rotate-role", "helpdesk/refuse-forbidden", "repo/clean-merged-branches",
    "repo/tag-release", "shop/refund-returned-order",
)  # fmt: skip
"""What is tried without `make variants`, which tries all."""
CASES = [
    pytest.param(
        variant, task, id=f"{task}-{variant}",
        marks=[
            pytest.mark.docker(variant),
            pytest.mark.clients(client, "curl"),
        ],
    )
    for pack, variants in WHERE.items() for variant, client in variants for task in TASKS
    if task.startswith(f"{pack}/")
    and (task in SHORT or os.environ.get("STATEDIFF_EVERY_CASE"))
]  # fmt: skip


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., EmbeddedSandbox]]:
    started: dict[tuple[str, str], EmbeddedSandbox] = {}
    with ExitStack() as stack:

        def sandbox(pack: str, variant: str) -> EmbeddedSandbox:
            if (pack, variant) not in started:
                work = tmp_path_factory.mktemp(f"{pack}-{variant}") / "work"
                made = EmbeddedSandbox(sandbox_pack(pack, variant), work)
                started[pack, variant] = stack.enter_context(made)
            return started[pack, variant]

        yield sandbox


@pytest.mark.parametrize(("variant", "task"), CASES)
def test_both_ways_show_the_same_on_a_real_server(
    variant: str, task: str, running: Callable[..., EmbeddedSandbox], tmp_path: Path
) -> None:
    both_ways(running(task.partition("/")[0], variant), task, tmp_path)
