"""Faulty: a tag that is only a name, without a person or a text."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

version, branch = git.INPUTS["version"], git.INPUTS["branch"]
repository = git.origin()
old = git.tip(repository, branch)
done = git.commit(repository, old, f"Release {version}", git.released(version, old))
git.publish(repository, branch, done)
repository.references.create(f"refs/tags/{git.INPUTS['tag']}", done.id)
git.answer(tag=git.INPUTS["tag"], commit=str(done.id))
