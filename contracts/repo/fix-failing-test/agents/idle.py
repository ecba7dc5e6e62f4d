"""Faulty: does nothing at all, and says that the test passes."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

git.answer(fixed=git.INPUTS["test"], commit="edfc9c8bbf5a43cac4e4efc28e041859763f746d")
