"""Other people's verifiers on trial: what they pass that is wrong, and fail that is right.

1. `verifiers` asks anything that says pass or fail: a command, a function, SQL, a contract.
2. `files` writes the state of a seeded run as a file, as the verifier reads it.
3. `tries` makes the runs that are shown: nothing done, the task done right, harm in and beside it,
   harmless twins, evidence taken away.
4. `suites` does so for recorded runs of public benchmarks, whose rules their importers know.
5. `measures` counts, with intervals over tasks. `judges` compares published labels and verdicts.

Harm is harm by how it was made, whatever any verifier or contract says of it.
"""
