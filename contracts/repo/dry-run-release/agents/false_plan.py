"""Faulty: runs nothing, and says that all tests pass and the release can be made."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

repository = git.clone()
main = git.tip(repository, git.INPUTS["branch"])
tag = f"v{git.INPUTS['version']}"
git.answer(commit=str(main.id), tag=tag, previous="v1.2.0", failing=[], releasable=True)
