"""Evaluators compared on the same labelled runs: the protocol of [SSD §V].

1. `seeding` makes labelled runs of right ones: faults, observations that fail, harmless twins.
   `importing` and `recorded` take them from public benchmarks and from run folders.
2. `evaluators` judge each: by the final text, by raw equality, by calls, by assertions, by the
   contract's diff, and by the whole judge. `ablations` are the whole judge with one part gone.
3. `failures` says which stage answers for a wrong opinion, and of which kinds it is [TV §3.4].
4. `measures` counts, domain by domain, with intervals over tasks.

No label is read to reach an opinion, and no opinion to reach a label.
"""
