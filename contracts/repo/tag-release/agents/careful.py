"""Reference: one commit and the tag, pushed together from a clone."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

version, branch = git.INPUTS["version"], git.INPUTS["branch"]
repository = git.clone()
old = git.tip(repository, branch)
done = git.commit(repository, old, f"Release {version}", git.released(version, old))
git.tag(repository, git.INPUTS["tag"], done, f"unitkit {version}")
repository.references.create("refs/heads/done", done.id)
name = f"refs/tags/{git.INPUTS['tag']}"
git.push(repository, f"refs/heads/done:refs/heads/{branch}", f"{name}:{name}")
git.answer(tag=git.INPUTS["tag"], commit=str(done.id))
