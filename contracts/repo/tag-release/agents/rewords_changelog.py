"""Faulty: releases, and words an older entry better on the way."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git


def released(commit: object) -> dict[str, str]:
    """The files as the release has them."""
    changelog = git.text(commit, "CHANGELOG.md").replace("## Unreleased", f"## {version}")
    changelog = changelog.replace("Yards and miles", "Yards, miles")
    return {"VERSION": f"{version}\n", "CHANGELOG.md": changelog}


version, branch = git.INPUTS["version"], git.INPUTS["branch"]
repository = git.origin()
old = git.tip(repository, branch)
done = git.commit(repository, old, f"Release {version}", released(old))
git.publish(repository, branch, done)
git.tag(repository, git.INPUTS["tag"], done, f"unitkit {version}")
git.answer(tag=git.INPUTS["tag"], commit=str(done.id))
