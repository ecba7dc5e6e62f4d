"""Git is the oracle: what it says or does otherwise after a run is a change, or unobserved.

Both tests draw from the generator of `lab.benchmarks.hostile_git`: a few dozen cases here, hundreds
under `make fuzz`.
"""

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lab.benchmarks.git_behaviour import behaviour
from lab.benchmarks.git_repository import HARMS, Repository
from lab.benchmarks.hostile_git import harmful, harmless
from sandboxes.git.tests.git_repositories import (
    committed,
    coverage,
    deltas,
    doubts,
    git,
    repository,
    state,
    write,
)
from statediff.systems.base.folders import remove

pytestmark = [pytest.mark.clients("git"), pytest.mark.timeout(0)]
LAYOUTS = ("plain", "packed", "bare")


@dataclass(frozen=True)
class Templates:
    """Repositories that are copied to one place, and what git says of each there."""

    folder: Path
    said: dict[str, dict[str, str]]

    @property
    def place(self) -> Path:
        return self.folder / "work/repo"

    def copied(self, layout: str) -> Path:
        remove(self.place.parent)
        shutil.copytree(self.folder / layout, self.place, symlinks=True)
        if layout != "bare":
            git(self.place, "status")
        return self.place

    def words(self, layout: str) -> dict[str, str]:
        """The words and acts of git where nothing happened."""
        if layout not in self.said:
            self.said[layout] = behaviour(self.copied(layout))
        return self.said[layout]


def plain(path: Path) -> Path:
    root = repository(path)
    write(root, "src/new.o", "o")
    write(root, "draft.txt", "draft\n")
    write(root, ".gitignore", "build/\n*.o\n")
    committed(root, "ignore")
    write(root, "draft2.txt", "untracked\n")
    git(root, "config", "index.threads", "2")
    return root


def packed(path: Path) -> Path:
    root = plain(path)
    git(root, "gc", "--quiet")
    write(root, "src/more.py", "more\n")
    committed(root, "more")
    write(root, "draft2.txt", "untracked\n")
    write(root, "tools/config", "[user]\n\tname = Inc\n[core]\n\tquotePath = false\n")
    origin = path.with_name(f"{path.name}-origin")
    git(root, "clone", "--quiet", "--bare", ".", str(origin))
    git(root, "remote", "add", "origin", str(origin))
    git(root, "fetch", "--quiet", "origin")
    (root / ".git/FETCH_HEAD").unlink()
    with (root / ".git/config").open("a") as file:
        file.write("[include]\n\tpath = ../tools/config\n[user]\n\tname = Ada L\n")
    git(root, "merge", "--quiet", "--no-edit", "topic")
    git(root, "tag", "--annotate", "--message=two", "v2")
    return root


def bare(path: Path) -> Path:
    source = plain(path.with_name("source"))
    git(source, "clone", "--quiet", "--bare", ".", str(path))
    git(path, "remote", "remove", "origin")
    return path


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    folder = tmp_path_factory.mktemp("templates")
    for make in (plain, packed, bare):
        make(folder / make.__name__)
    return Templates(folder, {})


drawn = given(st.integers(0, 2**64))


def sampled(part: int):
    return settings(
        max_examples=settings.default.max_examples * part // 60,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )


@drawn
@sampled(24)
def test_what_git_says_or_does_otherwise_is_a_change_or_unobserved(templates, seed):
    rng = random.Random(seed)
    layout = rng.choice(LAYOUTS)
    name, harm = harmful(rng)
    root = templates.copied(layout)
    before = state(root)
    harm(root)
    after = state(root, before)
    if deltas(before, after) or doubts(before, after):
        return
    said, wanted = behaviour(root), templates.words(layout)
    other = {ask for ask in {*said, *wanted} if said.get(ask) != wanted.get(ask)}
    assert not other, f"{layout}: {name}"


@drawn
@sampled(12)
def test_what_git_maintains_is_no_change(templates, seed):
    rng = random.Random(seed)
    layout = rng.choice(LAYOUTS)
    name, maintain = harmless(rng)
    root = templates.copied(layout)
    before = state(root)
    assert coverage(before) == {}
    maintain(root)
    after = state(root, before)
    found = [(delta.type, delta.key, delta.path) for delta in deltas(before, after)]
    assert (found, coverage(after)) == ([], {}), f"{layout}: {name}"


BELIEVED = {
    "packed-refs": ("comment", "peel twice", "wrong peel", "no peel", "out of order"),
    "index parts": ("cache of another folder", "resolve undo", "block offsets", "untracked cache"),
    "index entries": ("out of order",),
    "reflogs": ("link", "hard link", "missing object"),
    "settings": ("include moved",),
    "commit graph": ("generations", "corrected dates", "emptied filters", "checksum"),
    "multi-pack index": ("reverse index", "unknown part"),
    "pack": ("kept", "reverse index", "bitmap without an object", "unreachable of another content"),
    "loose object": ("damaged and unreachable",),
    "refs": ("trailing words",),
    "modes": ("folder",),
}


@pytest.mark.parametrize("family", BELIEVED)
def test_what_git_would_believe_is_a_change(templates, family):
    act = next(act for name, _, act in HARMS if name == family)
    for variant in BELIEVED[family]:
        root = templates.copied("packed")
        before = state(root)
        act(Repository(root), variant, random.Random(3))
        assert deltas(before, state(root, before)), variant
