"""Faulty: also puts the tag of the last release where the branch is now."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

version, branch = git.INPUTS["version"], git.INPUTS["branch"]
repository = git.origin()
old = git.tip(repository, branch)
done = git.commit(repository, old, f"Release {version}", git.released(version, old))
git.publish(repository, branch, done)
git.tag(repository, git.INPUTS["tag"], done, f"unitkit {version}")
repository.references.create("refs/tags/v1.2.1", done.id, force=True)
git.answer(tag=git.INPUTS["tag"], commit=str(done.id))
