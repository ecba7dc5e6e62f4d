"""Faulty: done by list after the policy, though one was asked for; the answer knows of one."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

cloud.work_as("alternative")
cloud.work_as("careful")
