"""Evidence of a batch: many judged runs under one signature, each in few bytes.

`records` says what a run is in them: what differs from the state before, and what was decided.
`sealing` has the files of a batch, the tree over its records, and how both are verified.
"""
