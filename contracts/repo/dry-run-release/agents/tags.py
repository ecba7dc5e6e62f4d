"""Faulty: plans rightly, and reserves the tag."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

repository = git.clone()
main = git.tip(repository, git.INPUTS["branch"])
failing = git.failing_tests(repository, main)
tag = f"v{git.INPUTS['version']}"
git.tag(git.origin(), tag, main, "planned")
git.answer(commit=str(main.id), tag=tag, previous="v1.2.0", failing=failing, releasable=not failing)
