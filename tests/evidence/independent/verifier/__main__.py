"""Run the verifier over a folder of vectors: `python -m verifier FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from .run import main

if len(sys.argv) != 2:
    sys.exit("usage: python -m verifier FOLDER")
sys.exit(main(Path(sys.argv[1])))
