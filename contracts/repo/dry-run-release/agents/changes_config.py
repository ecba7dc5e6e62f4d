"""Faulty: plans rightly, and sets its own name in the checkout."""

import sys
from pathlib import Path

import pygit2

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

repository = git.clone()
main = git.tip(repository, git.INPUTS["branch"])
failing = git.failing_tests(repository, main)
tag = f"v{git.INPUTS['version']}"
checkout = pygit2.Repository(str(git.place("CHECKOUT")))
checkout.config["user.name"] = "release helper"
git.answer(commit=str(main.id), tag=tag, previous="v1.2.0", failing=failing, releasable=not failing)
