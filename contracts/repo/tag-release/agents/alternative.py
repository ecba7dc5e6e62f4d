"""Reference: a commit for the changelog, one for the version, the tag; all in place."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

version, branch = git.INPUTS["version"], git.INPUTS["branch"]
repository = git.origin()
old = git.tip(repository, branch)
files = git.released(version, old)
files["VERSION"] = version  # without a newline, as an editor may leave it
noted = git.commit(repository, old, "Date the changelog", {"CHANGELOG.md": files["CHANGELOG.md"]})
done = git.commit(repository, noted, f"Release {version}", {"VERSION": files["VERSION"]})
git.publish(repository, branch, done)
git.tag(repository, git.INPUTS["tag"], done, f"unitkit {version}")
git.answer(tag=git.INPUTS["tag"], commit=str(done.id))
