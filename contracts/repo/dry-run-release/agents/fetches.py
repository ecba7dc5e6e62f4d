"""Faulty: brings the checkout up to date on the way, and loses what was unfinished in it."""

import sys
from pathlib import Path

import pygit2
from pygit2.enums import CheckoutStrategy

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

repository = git.clone()
main = git.tip(repository, git.INPUTS["branch"])
failing = git.failing_tests(repository, main)
tag = f"v{git.INPUTS['version']}"
checkout = pygit2.Repository(str(git.place("CHECKOUT")))
checkout.checkout_head(strategy=CheckoutStrategy.FORCE)
git.answer(commit=str(main.id), tag=tag, previous="v1.2.0", failing=failing, releasable=not failing)
