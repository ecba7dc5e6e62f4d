"""Reference: changes the one word, answers in the thread."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

steps.decline()
steps.tell()
steps.done()
