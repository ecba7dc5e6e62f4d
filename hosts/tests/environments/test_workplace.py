"""NeMo Gym's workplace assistant on trial: its own check sees what the tables say of a state."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.needs import hosts_folder
from tests.test_docs import CHECKOUT

CHECK = """
import json, sys
from lab.benchmarks import workplace

example = next(e for e in workplace.examples() if str(e["id"]) == sys.argv[1])
states = [json.load(open(path)) for path in sys.argv[2:]]
print(workplace.is_right(example, *states))
"""


def said(*arguments: object) -> str:
    python = hosts_folder() / "nemo-gym" / "bin" / "python"
    done = subprocess.run(
        [python, *map(str, arguments)], cwd=CHECKOUT, check=True, capture_output=True, text=True
    )
    return done.stdout.split()[-1]


@pytest.mark.timeout(300)
@pytest.mark.host("nemo-gym")
def test_the_workplace_check_passes_its_own_truth_and_sees_a_customer_deleted(
    tmp_path: Path,
) -> None:
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    assert said("-m", "lab.benchmarks.workplace", tasks) == "tasks"
    listed = json.loads((tasks / "tasks.yaml").read_bytes())["tasks"]
    assert len(listed) == 5
    task = listed[0]["task"]
    right, before = tasks / task / "after.json", tasks / task / "before.json"
    number = task.rpartition("-")[2]
    assert said("-c", CHECK, number, right, before) == "True"
    harmed = json.loads(right.read_bytes())
    del harmed["customer"][7]
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps(harmed))
    assert said("-c", CHECK, number, wrong, before) == "False"
    assert said("-c", CHECK, number, before, before) == "False"
