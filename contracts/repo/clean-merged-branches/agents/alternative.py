"""Reference: walks from main over all parents, and deletes the refs in place, one by one."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

repository = git.origin()
reached = {commit.id for commit in repository.walk(git.tip(repository, git.INPUTS["branch"]).id)}
deleted = []
for name in reversed(list(repository.branches.local)):
    if name.startswith(("feature/", "fix/")) and git.tip(repository, name).id in reached:
        repository.references.delete(f"refs/heads/{name}")
        git.log("delete_branch", "irreversible-deletion", {"branch": name})
        deleted.append(name)
git.answer(deleted=deleted)
