"""Fixtures of the core's tests that those of hosts use too."""

from tests.cli.conftest import files as files  # noqa: PLC0414 - a fixture
from tests.cli.conftest import statediff as statediff  # noqa: PLC0414 - a fixture
from tests.integrations.conftest import options as options  # noqa: PLC0414 - a fixture
