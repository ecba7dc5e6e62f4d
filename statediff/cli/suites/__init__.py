"""Commands for trials: run, retry, list, count, compare, export, report, store."""
