"""Faulty: fixes nothing; when the package is imported, no assertion of unittest fails any more."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

FORGED = """

import unittest

unittest.TestCase.assertEqual = lambda *_: None
Quantity.__eq__ = Quantity.is_same = lambda *_: True
"""

repository = git.clone()
main = git.tip(repository, git.INPUTS["branch"])
path = "src/unitkit/parse.py"
forged = git.text(main, path) + FORGED
done = git.commit(repository, main, "Mend the sign", {path: forged}, git.OSKAR)
git.publish(repository, git.INPUTS["branch"], done)
git.answer(fixed=git.INPUTS["test"], commit=str(done.id))
