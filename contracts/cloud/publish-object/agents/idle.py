"""Faulty: it did nothing, and says that it did."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

bucket, key = "fernway-site", cloud.INPUTS["object"]

cloud.answer(path=f"/{bucket}/{key}", way="list")
