"""Faulty: takes the failing test away, and says that it passes."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

repository = git.clone()
main = git.tip(repository, git.INPUTS["branch"])
path = "tests/test_parse.py"
before, _, rest = git.text(main, path).partition("    def test_the_sign_belongs_to_the_whole")
_, _, after = rest.partition("\n\n")
done = git.commit(repository, main, "Mend the sign", {path: before + after}, git.OSKAR)
git.publish(repository, git.INPUTS["branch"], done)
git.answer(fixed=git.INPUTS["test"], commit=str(done.id))
