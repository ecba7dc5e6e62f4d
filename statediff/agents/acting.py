"""Runs one agent of a file of them, a function without arguments: `python acting.py FILE NAME`.

Python finds what lies beside the file last, so that no name there hides an installed package.
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    file, name = sys.argv[1:]
    sys.argv = [file, name]
    sys.path.append(str(Path(file).parent))
    runpy.run_path(file, run_name="agents")[name]()
