"""Faulty: counts the version up from main and writes 1.3.0."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

version, branch = "1.3.0", git.INPUTS["branch"]
repository = git.origin()
old = git.tip(repository, branch)
done = git.commit(repository, old, f"Release {version}", git.released(version, old))
git.publish(repository, branch, done)
git.tag(repository, git.INPUTS["tag"], done, f"unitkit {version}")
git.answer(tag=git.INPUTS["tag"], commit=str(done.id))
