"""The kit: what any system and source must do, as pytest classes to inherit.

    from statediff.conformance import SystemSuite, Way

    class TestNotes(SystemSuite):
        source = "notes"
        ways = {"a note is added": Way(add_note), "its mode is changed": Way(chmod, is_state=False)}

        @classmethod
        def pack(cls):
            return read_pack(Path(__file__).parent / "pack")

Each test says what would go wrong if it failed: a reset that is only claimed, a drift that is
repaired in silence, a source that shows an empty system where it could not look. `SystemSuite`
makes the system by its kind and the tools by its URL, so it also proves the plug-in object. A
system with a feed inherits `FeedSuite` too, what reads a running service by URL has an
`EndpointSuite`, and what reads texts a `ResidueSuite`.
The kit needs pytest: `statediff[test]`.
"""

from statediff.capture.source import clock
from statediff.conformance.endpoints import EndpointSuite, free_port, serving
from statediff.conformance.feeds import Change, FeedRun, FeedSuite
from statediff.conformance.residue import ResidueSuite
from statediff.conformance.systems import (
    AccountSuite,
    SourceSuite,
    SystemSuite,
    Way,
    captured,
    states,
)

__all__ = [
    "AccountSuite",
    "Change",
    "EndpointSuite",
    "FeedRun",
    "FeedSuite",
    "ResidueSuite",
    "SourceSuite",
    "SystemSuite",
    "Way",
    "captured",
    "clock",
    "free_port",
    "serving",
    "states",
]
