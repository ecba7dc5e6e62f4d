"""What `statediff bench` does not measure, one after the other: `python -m benchmarks`."""

from __future__ import annotations

from benchmarks import clauses, packs, trial

if __name__ == "__main__":
    trial.main()
    packs.main()
    clauses.main()
