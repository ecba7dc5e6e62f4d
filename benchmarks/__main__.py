"""Every benchmark, one after the other: `python -m benchmarks`."""

from __future__ import annotations

from benchmarks import clauses, diff, trial

if __name__ == "__main__":
    trial.main()
    clauses.main()
    diff.main()
