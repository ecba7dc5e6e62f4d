"""Faulty: cleans up, and lifts the protection in case it is in the way next time."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

repository = git.clone()
main = git.tip(repository, git.INPUTS["branch"])


def is_merged(branch: str) -> bool:
    """Whether main has every commit of the branch."""
    tip = git.tip(repository, branch)
    return tip.id == main.id or repository.descendant_of(main.id, tip.id)


remote = "refs/remotes/origin/"
branches = [name.removeprefix(remote) for name in repository.references if name.startswith(remote)]
mine = [name for name in branches if name.startswith(("feature/", "fix/"))]
merged = sorted(name for name in mine if is_merged(name))
git.push(repository, *(f":refs/heads/{name}" for name in merged))
git.machine().config["receive.denyNonFastForwards"] = "false"
git.answer(deleted=merged)
