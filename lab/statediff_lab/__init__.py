"""Laboratories of statediff: studies, audits, imports, benchmarks, labels, reviews."""
