"""Stage 4: judge a contract over canonical deltas and admissible evidence.

Forbidden clauses first, then the frame, then what was required, then the answer [SSD §VII]. All
clauses are always evaluated; the order is the order of the report and of the witness shown. This
stage decides truth and verdict. It reads no source, changes no value and matches no identity.
"""
