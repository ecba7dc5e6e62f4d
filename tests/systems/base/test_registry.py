"""Systems are found by their plug-in objects, and messages say what is missing, wrong or twice."""

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import statediff
from statediff.entrypoints import plug_ins
from statediff.errors import UsageError
from statediff.packs import PackSource
from statediff.systems.base.registry import GROUP, plugins, state_reader, system_of, tools_of
from tests.code import PACKAGES
from tests.installing import install

OBJECT = """
from statediff.systems.base.plugin import StateReader, SystemKind, SystemPlugin, UrlTools

def load():
    import no_such_library

def make(source, url):
    import no_such_library

PLUGIN = SystemPlugin(
    interface=1,
    kinds=(
        SystemKind(name="needy", load=load, requirement="needy[server]"),
        SystemKind(name="plain", load=load),
    ),
    tools=UrlTools(schemes=frozenset({"needy", "smtp"}), make=make, requirement="needy[server]"),
    states=StateReader(
        name="needy", description="a needy file", source=make,
        recognizes=lambda path: path.suffix in (".needy", ".db"),
    ),
)

class Needy:
    pass
"""


def source(kind: str) -> PackSource:
    return PackSource("thing", kind)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path, with a module of a plug-in object that no distribution names yet."""
    (tmp_path / "needy_system.py").write_text(OBJECT)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.fixture
def plugged(site: Path) -> Path:
    install(site, GROUP, "needy", "needy_system:PLUGIN")
    return site


def test_an_unknown_kind_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"is of kind 'oracle'; there are: aws, external, files, git, .*sqlite"
    ):
        system_of(source("oracle"), (), tmp_path)


@pytest.mark.usefixtures("plugged")
def test_a_kind_whose_library_is_not_installed_says_what_brings_it(tmp_path: Path) -> None:
    message = r"'needy' need no_such_library; get it with `pip install needy\[server\]`"
    with pytest.raises(UsageError, match=message):
        system_of(source("needy"), (), tmp_path)


@pytest.mark.usefixtures("plugged")
def test_a_kind_that_is_broken_is_not_taken_for_one_that_lacks_something(tmp_path: Path) -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        system_of(source("plain"), (), tmp_path)


@pytest.mark.usefixtures("plugged")
def test_tools_whose_library_is_not_installed_say_what_brings_it() -> None:
    message = r"tools for 'x' need no_such_library; get it with `pip install needy\[server\]`"
    with pytest.raises(UsageError, match=message):
        tools_of("x", "NEEDY://127.0.0.1")


@pytest.mark.usefixtures("plugged")
def test_two_systems_that_answer_for_one_url_or_path_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="plug-ins mail and needy each have tools for 'x'"):
        tools_of("x", "smtp://127.0.0.1:9")
    (tmp_path / "a.db").touch()
    with pytest.raises(UsageError, match=r"plug-ins needy and sqlite each have .*a\.db"):
        state_reader(tmp_path / "a.db")


@pytest.mark.usefixtures("plugged")
def test_a_kept_judge_refuses_a_path_that_two_systems_read_as_a_judgement_does(
    tmp_path: Path,
) -> None:
    for name in ("before.sqlite", "after.db"):
        with closing(sqlite3.connect(tmp_path / name)) as db:
            db.execute("CREATE TABLE user(id INTEGER PRIMARY KEY)")
    states = [f"db={tmp_path / name}" for name in ("before.sqlite", "after.db")]
    text = (
        "contract: desk/user\nversion: 1.0.0\nowner: desk\nintent: Add a user.\n"
        "require:\n  - create: user\n"
    )
    with pytest.raises(UsageError, match="plug-ins needy and sqlite") as once:
        statediff.judge(text, *states)
    with pytest.raises(UsageError) as kept:
        statediff.Judge(text, states[0]).score(states[1])
    assert str(kept.value) == str(once.value)


@pytest.mark.usefixtures("plugged")
def test_a_specific_reader_goes_before_a_general_one(tmp_path: Path) -> None:
    for name, read_as in (("a.needy", "needy"), ("a.json", "tables"), ("-", "tables")):
        (tmp_path / name).touch()
        assert state_reader(tmp_path / name).name == read_as
    assert state_reader(tmp_path).name == "files"
    assert state_reader(Path("-")).name == "tables"


def test_a_class_in_place_of_a_plugin_object_is_refused_with_what_to_write(site: Path) -> None:
    install(site, GROUP, "old", "needy_system:Needy")
    message = (
        r"old = needy_system:Needy in statediff\.systems, of old 1\.0: expected a SystemPlugin, "
        r"found the class Needy; write PLUGIN = SystemPlugin\(interface=1, "
        r"kinds=\(SystemKind\(name='old', "
        r"load=lambda: Needy\),\)\) and name needy_system:PLUGIN"
    )
    with pytest.raises(UsageError, match=message):
        plugins()


@pytest.mark.parametrize("value", ["no_such_module:PLUGIN", "needy_system:NO_SUCH"])
def test_a_plugin_that_cannot_be_loaded_is_named_with_its_distribution(
    site: Path, value: str
) -> None:
    install(site, GROUP, "gone", value)
    message = rf"gone = {value} in .*, of gone 1\.0: cannot be loaded: .*uninstall it"
    with pytest.raises(UsageError, match=message):
        plugins()


def test_what_is_no_plugin_object_is_refused(site: Path) -> None:
    install(site, GROUP, "odd", "needy_system:make")
    with pytest.raises(UsageError, match="expected a SystemPlugin, found function"):
        plugins()


def test_two_plugins_cannot_make_one_kind(plugged: Path) -> None:
    install(plugged, GROUP, "other", "needy_system:PLUGIN")
    with pytest.raises(UsageError, match="plug-ins needy and other both make systems of kind"):
        system_of(source("sqlite"), (), plugged)


def test_two_distributions_cannot_name_one_plugin(site: Path) -> None:
    install(site, GROUP, "sqlite", "needy_system:PLUGIN", distribution="other")
    with pytest.raises(UsageError, match=r"a plug-in 'sqlite' in .*: other 1\.0 and statediff "):
        plugins()


@pytest.mark.parametrize(
    ("url", "tools"),
    [
        ("http://127.0.0.1:9/repo.git", "x_commit"),
        ("https://127.0.0.1:9/", "x_list_issues"),
        ("http://127.0.0.1:9", "x_list_issues"),
        ("http://127.0.0.1:9/tracker/", "x_list_issues"),
        ("smtp://127.0.0.1:9", "x_send"),
        ("sqlite:////no/such/file", "x_execute"),
        ("file:///no/such/folder", "x_write"),
    ],
)
def test_each_url_has_the_tools_of_its_system(url: str, tools: str) -> None:
    assert tools in {tool.name for tool in tools_of("x", url)}


def test_loading_all_plugins_loads_no_system_and_no_library() -> None:
    code = "import sys; from statediff.systems.base.registry import plugins; plugins(); "
    done = subprocess.run(
        [sys.executable, "-c", code + "print(*sys.modules)"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    modules = set(done.stdout.split())
    libraries = {"docker", "psycopg", "pymysql", "pygit2", "roundup", "sqlalchemy", "sqlite3"}
    assert not libraries & modules
    rooms = tuple(f"{folder.name}." for folder in PACKAGES[1:])
    parts = {name for name in modules if name.startswith(("statediff.systems.", *rooms))}
    ours = {plug_in.module for plug_in in plug_ins(GROUP).values()}
    assert ours <= parts
    packages = {name for name in parts if f"{name}.plugin" in ours}
    base = {name for name in parts if name.startswith("statediff.systems.base")}
    names = {"databases.dialects", "hosted.transport", "objects.schemes", "systems.hosted"}
    names.add("tables.shape")
    assert {".".join(name.split(".")[-2:]) for name in parts - ours - packages - base} == names


@pytest.mark.parametrize(
    "plugin", sorted(file for package in PACKAGES for file in package.rglob("plugin.py")), ids=str
)
def test_what_a_plugin_names_is_there(plugin: Path) -> None:
    for module, name in re.findall(r'"(\w+\.[\w.]+):(\w+)"', plugin.read_text("utf-8")):
        package, *parts = module.split(".")
        [file] = [each.joinpath(*parts) for each in PACKAGES if each.name == package]
        text = file.with_suffix(".py").read_text("utf-8")
        assert re.search(rf"(?m)^(class |def )?{name}\b", text), f"{module}:{name}"
