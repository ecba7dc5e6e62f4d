"""The executable specification of the three-valued meaning: the oracle of the tests.

No cache, no shortcut, no column and no cost. It reads bound contracts and values of the model, and
nothing of what judges; nothing in statediff imports it (docs/architecture.md).
"""
