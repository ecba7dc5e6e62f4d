"""The database with which the ERP begins is what its generator makes."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "fixtures" / "build_erp.py"


@pytest.mark.pack("statediff[erp]")
@pytest.mark.timeout(900)
def test_the_base_and_the_schema_file_are_what_tryton_makes_of_the_story() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--check"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
