"""Runs that a store knows: in their folders, and where these are gone in their copies."""

import shutil
from pathlib import Path

import pytest
from statediff_lab.dashboard.server import bundle_at

from statediff.errors import BundleError
from statediff.suite.indexing import location
from statediff.suite.store import file_url, open_store
from tests.cli.conftest import Call
from tests.suite.conftest import folders as folders  # noqa: PLC0414 - a fixture
from tests.suite.folders import Folders


def test_bundles_of_a_run_that_is_gone_are_read_from_its_copy(
    statediff: Call, folders: Folders, tmp_path: Path
) -> None:
    a, b = (
        folders.run("a", {"notes/close": ["MATCH"]}),
        folders.run("b", {"notes/close": ["DIVERGE"]}),
    )
    url = f"file://{tmp_path}/copies"
    for run in (a, b):
        assert statediff("store", "push", str(run), url).code == 0
    where = location(a)
    expected = statediff("lab", "compare", str(a), str(b), "--json")
    shutil.rmtree(a)
    shutil.rmtree(b)

    again = statediff("replay", f"{url}/a/trials/notes-close-1/bundle", "--json")
    assert (again.code, again.json["verdict"], again.json["reproduced"]) == (0, "MATCH", True)
    found = statediff("lab", "compare", f"{url}/a", f"{url}/b", "--json")
    assert found.json == expected.json
    assert found.json["by_case"][0]["differences"] is not None
    assert statediff("stats", f"{url}/a", "--json").json["scheduled"] == 1
    strange = statediff("lab", "compare", f"{url}/a", f"{url}/c")
    assert (strange.code, "store fetch" in strange.err) == (2, True)
    with open_store(file_url(tmp_path / ".statediff" / "store.sqlite")) as store:
        assert bundle_at(store, where, "notes-close-1").manifest["verdict"] == "MATCH"
        with pytest.raises(BundleError, match="store push"):
            bundle_at(store, where, "notes-close-7")
