"""Stage 3, canonicalize: ν as a book of named, versioned rules over the fields of entities.

The stage may change how a captured value is represented, by the rules the contract declares and
no others, each with its reason. It may not change the captured state (raw and canonical values
live side by side), touch a key, merge distinct keys, remove a field without a reason, or decide
whether a difference matters: what a rule hides is still shown, and read by forbid clauses
[SSD §III, §VI, §VII].

Rules are row-local and deterministic, and canonicalizing twice equals once. No table is
rewritten: ν is applied to the rows that are looked at. `ABSENT`, `Excluded` and `Unobserved` pass
through every rule except `ignore@1`; of a `Digested` content a rule leaves nothing to tell apart.
"""

from __future__ import annotations
