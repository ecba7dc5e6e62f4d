"""Settings that hold for every test.

Hypothesis runs under one of two profiles, chosen with ``HYPOTHESIS_PROFILE``:

``ci``    the default: the same examples on every machine and run, so that a red test is a change;
``fuzz``  many random examples, for `make fuzz`; what it finds becomes a fixture.
"""

import os

from hypothesis import HealthCheck, settings

# No deadline anywhere: a loaded machine is not a finding. pytest-timeout catches what hangs.
settings.register_profile(
    "ci", derandomize=True, deadline=None, max_examples=60, print_blob=True, database=None
)
settings.register_profile(
    "fuzz",
    derandomize=False,
    deadline=None,
    max_examples=2_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
