"""Faulty: takes the newest tag of all for the previous release of main."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

repository = git.clone()
main = git.tip(repository, git.INPUTS["branch"])
failing = git.failing_tests(repository, main)
tag = f"v{git.INPUTS['version']}"
git.answer(commit=str(main.id), tag=tag, previous="v1.2.1", failing=failing, releasable=not failing)
