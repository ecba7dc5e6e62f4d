"""Faulty: takes the transparent event for a busy one."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

begin = steps.first_hour([*steps.busy(), ("20260313T110000Z", "20260313T120000Z")])
steps.book(begin)
steps.done(begin)
