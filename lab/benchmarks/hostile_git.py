"""Possible changes to a git repository below its commits: harm and maintenance, from a generator.

`harmful` draws a family, a variant of it and a seed, and returns a name with a function that does
it to a repository, bare or with a work tree. Which ref, entry, object or byte is hit follows from
the seed and the repository. `harmless` draws what git's own maintenance does, in some order.

What is harm, git itself says: `lab.benchmarks.git_behaviour` asks it on a copy before and after.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from lab.benchmarks import git_harms, git_object_harms
from lab.benchmarks.git_repository import HARMS, Act, Repository

__all__ = ["families", "git_harms", "git_object_harms", "harmful", "harmless"]

Apply = Callable[[Path], None]

MAINTENANCE: tuple[tuple[str, ...], ...] = (
    ("gc --quiet",),
    ("gc --quiet --prune=now",),
    ("gc --quiet --cruft",),
    ("gc --quiet --aggressive",),
    ("gc --quiet --auto",),
    ("-c repack.writeBitmaps=true gc --quiet",),
    ("repack -adq",),
    ("repack -adbq",),
    ("repack -Adq",),
    ("repack -dq",),
    ("repack -adfq --depth=2 --window=3",),
    ("repack -dq --geometric=2",),
    ("repack -adq --write-midx",),
    ("repack -dq", "repack -adbq --write-midx"),
    ("-c pack.writeReverseIndex=true repack -adq",),
    ("-c pack.writeBitmapLookupTable=true repack -adbq",),
    ("-c pack.writeBitmapHashCache=false repack -adbq",),
    ("repack -adq --cruft",),
    ("pack-refs",),
    ("pack-refs --all",),
    ("pack-refs --all --no-prune",),
    ("update-server-info",),
    ("commit-graph write --reachable",),
    ("commit-graph write --reachable --changed-paths",),
    ("commit-graph write --reachable --split",),
    ("commit-graph write --reachable --split --changed-paths",),
    ("commit-graph write --reachable --split=replace",),
    ("commit-graph write --reachable --split=no-merge",),
    ("-c commitGraph.generationVersion=1 commit-graph write --reachable",),
    ("repack -dq", "multi-pack-index write"),
    ("repack -dq", "multi-pack-index write --bitmap"),
    ("repack -dq", "multi-pack-index write", "multi-pack-index repack", "multi-pack-index expire"),
    ("maintenance run --quiet",),
    ("maintenance run --quiet --task=commit-graph",),
    ("maintenance run --quiet --task=loose-objects",),
    ("repack -dq", "maintenance run --quiet --task=incremental-repack"),
    ("maintenance run --quiet --task=pack-refs",),
    ("maintenance run --quiet --task=gc",),
    ("prune-packed",),
    ("reflog expire --expire=now --all",),
    ("reflog expire --expire=all --stale-fix --all",),
    ("worktree prune",),
    ("rerere gc",),
    ("fsck --full",),
    ("count-objects -v",),
    ("log --all --stat",),
    ("describe --tags --always",),
    ("tree: status",),
    ("tree: diff",),
    ("tree: update-index --refresh",),
    ("tree: touch",),
    ("tree: update-index --force-write-index",),
    ("tree: update-index --index-version 3 --force-write-index",),
    ("tree: update-index --index-version 4 --force-write-index",),
    ("tree: -c index.threads=2 update-index --force-write-index",),
    ("tree: -c index.threads=3 update-index --index-version 4 --force-write-index",),
    ("tree: -c index.skipHash=true update-index --force-write-index",),
    ("tree: update-index --untracked-cache", "tree: old", "tree: status", "tree: status"),
    ("tree: update-index --split-index",),
    ("tree: update-index --split-index", "tree: touch", "tree: update-index --refresh"),
    ("tree: update-index --no-split-index",),
    ("tree: -c core.fsmonitor=/bin/true update-index --fsmonitor", "tree: status"),
    ("tree: read-tree HEAD", "tree: status"),
    ("tree: write-tree",),
)


def harmful(rng: random.Random) -> tuple[str, Apply]:
    """A name, and what does this harm to the repository at a path."""
    name, variants, act = rng.choice(HARMS)
    return _bound(name, rng.choice(variants), act, rng.getrandbits(32))


def harmless(rng: random.Random) -> tuple[str, Apply]:
    """A name, and what does this maintenance to the repository at a path."""
    chosen = [rng.choice(MAINTENANCE) for _ in range(rng.randint(1, 3))]

    def apply(path: Path) -> None:
        repository = Repository(path)
        for commands in chosen:
            for command in commands:
                _maintain(repository, command)

    return "; then ".join(" && ".join(commands) for commands in chosen), apply


def families() -> dict[str, int]:
    """The families of harm, each with how many variants it has before the seed."""
    return {name: len(variants) for name, variants, _ in HARMS}


def _bound(name: str, variant: str, act: Act, seed: int) -> tuple[str, Apply]:
    def apply(path: Path) -> None:
        act(Repository(path), variant, random.Random(seed))

    return f"{name}: {variant} #{seed:08x}", apply


def _maintain(repository: Repository, command: str) -> None:
    of_tree, _, rest = command.rpartition("tree: ")
    if command.startswith("tree: ") and repository.is_bare:
        return
    assert not of_tree
    if rest in ("touch", "old"):
        for path in repository.path.iterdir():
            if rest == "touch" and path.is_file():
                path.touch()
        return
    repository.run(*rest.split())
