"""There is none: the core does not need it, and pyarrow takes a third of a second to find it."""

raise ImportError("commands are tested without pandas, which only the peers of the benchmarks need")
