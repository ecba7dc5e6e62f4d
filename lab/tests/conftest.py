"""Fixtures of the core's tests that those of laboratories use too."""

from tests.cli.conftest import files as files  # noqa: PLC0414 - a fixture
from tests.cli.conftest import statediff as statediff  # noqa: PLC0414 - a fixture
from tests.reports.conftest import chromium as chromium  # noqa: PLC0414 - a fixture
from tests.reports.conftest import opened as opened  # noqa: PLC0414 - a fixture
from tests.suite.conftest import folders as folders  # noqa: PLC0414 - a fixture
