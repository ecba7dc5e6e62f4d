"""What `statediff lab bench` does not measure, one after the other: `python -m lab.benchmarks`."""

from __future__ import annotations

from lab.benchmarks import clauses, packs, trial

if __name__ == "__main__":
    trial.main()
    packs.main()
    clauses.main()
