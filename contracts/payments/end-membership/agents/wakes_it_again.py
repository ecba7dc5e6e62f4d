"""Faulty: for a while another customer's subscription is to end; then it is not."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as desk

path = "/v1/subscriptions/sub_nadja_club"
desk.ask("POST", path, {"cancel_at_period_end": True})
desk.work_as("careful")
desk.ask("POST", path, {"cancel_at_period_end": False})
