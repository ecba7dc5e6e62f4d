"""Faulty: claims to have done it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as git

git.answer(branch="docs/ticket-31", key=4)
