"""Faulty: does the rest right, and its letter to billing names no order."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

send = desk.send
desk.send = lambda to, subject, _: send(to, subject, "Some orders are in doubt. Please look.\n")
desk.work_as("careful")
