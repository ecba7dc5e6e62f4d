"""What the trials of a job came to."""

import json
import sys
from pathlib import Path

for path in Path(sys.argv[1]).glob("*/result.json"):
    found = json.loads(path.read_text())
    agent = found["config"]["agent"]
    does = agent["kwargs"].get("does", agent["name"])
    rewards = (found["verifier_result"] or {}).get("rewards")
    raised = (found["exception_info"] or {}).get("exception_type")
    print(does, rewards, raised)
