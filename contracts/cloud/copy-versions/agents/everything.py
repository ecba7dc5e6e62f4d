"""Faulty: the folder beside it went into the archive too, salaries included."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

source, archive = "fernway-reports", "fernway-archive"


cloud.work_as("careful")
account.copy(source, "internal/salaries.txt", archive, "internal/salaries.txt")
