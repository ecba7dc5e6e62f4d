"""Faulty: does nothing, and claims the release."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

git.answer(tag=git.INPUTS["tag"], commit="cb391afd97941b008b04ff4a15e1b42fe693dd49")
