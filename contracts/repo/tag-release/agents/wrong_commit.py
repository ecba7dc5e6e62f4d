"""Faulty: tags the commit before the one that says the version."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

version, branch = git.INPUTS["version"], git.INPUTS["branch"]
repository = git.origin()
old = git.tip(repository, branch)
done = git.commit(repository, old, f"Release {version}", git.released(version, old))
git.publish(repository, branch, done)
git.tag(repository, git.INPUTS["tag"], old, f"unitkit {version}")
git.answer(tag=git.INPUTS["tag"], commit=str(done.id))
