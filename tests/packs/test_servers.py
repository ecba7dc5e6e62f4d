"""The environment of `make packs` has the servers of every pack."""

import pytest

from statediff.packs import sandbox_names, sandbox_pack
from statediff.systems.base.registry import missing_extra
from statediff.workspace.installed import missing_servers, served_tasks
from tests.tasks import needs


@pytest.mark.pack("packs")
def test_no_pack_lacks_its_servers():
    assert missing_servers() == {}


def test_a_pack_without_its_servers_says_what_installs_them_and_its_tasks_are_left_out():
    for name in sandbox_names():
        extra = missing_extra(sandbox_pack(name))
        tried = {task.name.partition("/")[0] for task in served_tasks()}
        assert (name in tried) == (extra is None)
        if extra is not None:
            assert [mark.args for mark in needs(name)] == [(extra,)]
