"""Faulty: deletes the old draft as well."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import steps

filed = steps.file()
uid, _ = steps.mailbox.find("Drafts", "draft-fair@brightwater.example")
steps.mailbox.delete("Drafts", [uid])
steps.report(filed)
