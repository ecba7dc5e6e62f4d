"""Faulty: makes the test expect what the package does."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

repository = git.clone()
main = git.tip(repository, git.INPUTS["branch"])
path = "tests/test_parse.py"
changes = {path: git.text(main, path).replace("Fraction(-3, 2)", "Fraction(-1, 2)")}
done = git.commit(repository, main, "Mend the sign", changes, git.OSKAR)
git.publish(repository, git.INPUTS["branch"], done)
git.answer(fixed=git.INPUTS["test"], commit=str(done.id))
