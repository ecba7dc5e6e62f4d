"""The evaluator on trial: seeded faults and harmless twins, judged like any other run."""
