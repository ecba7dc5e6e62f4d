"""Reference: asks the history of a clone, then deletes by one push."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

repository = git.clone()
main = git.tip(repository, git.INPUTS["branch"])

remote = "refs/remotes/origin/"
branches = [name.removeprefix(remote) for name in repository.references if name.startswith(remote)]
mine = [name for name in branches if name.startswith(("feature/", "fix/"))]
merged = sorted(name for name in mine if git.is_merged(repository, main, name))
git.push(repository, *(f":refs/heads/{name}" for name in merged))
git.answer(deleted=merged)
