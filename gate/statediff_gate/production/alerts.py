"""Alerts: each record that is not *allow* goes to a program, a webhook or a collector of OTLP.

They go in their order, in a thread: who judges waits for nobody. One that fails is tried again,
and the next waits for it. What was delivered is noted beside the records, so that a guard that is
killed delivers the rest when it starts again; the last one may then come twice.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from statediff._version import __version__
from statediff.atomic import write_atomically
from statediff.errors import UsageError

Record = Mapping[str, Any]
_SECONDS: Final = 30.0
_AGAIN_SECONDS: Final = 5.0


class Alerts:
    """The places that hear of records, until it is closed."""

    def __init__(
        self, folder: Path, command: Sequence[str], webhook: str | None, otlp: str | None
    ) -> None:
        for url in (webhook, otlp):
            if url is not None and not url.startswith(("http://", "https://")):
                raise UsageError(f"{url}: expected an URL of http or https")
        self._command, self._webhook, self._otlp = tuple(command), webhook, otlp
        self._noted = folder / "alerted"
        self._waiting: queue.Queue[Record | None] = queue.Queue()
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._deliver_all, name="alerts", daemon=True)
        self._thread.start()

    @property
    def last(self) -> str | None:
        """The name of the record that was delivered last."""
        return self._noted.read_text("utf-8") if self._noted.exists() else None

    def put(self, record: Record) -> None:
        """The record will be delivered, now or when a guard starts again."""
        self._waiting.put(record)

    def close(self) -> None:
        """Try once more what waits; what is not delivered waits for the next start."""
        self._is_closing.set()
        self._waiting.put(None)
        self._thread.join()

    def _deliver_all(self) -> None:
        while (record := self._waiting.get()) is not None:
            while (why := self._failure(record)) is not None:
                sys.stderr.write(f"an alert of {record['name']} was not delivered: {why}\n")
                if self._is_closing.wait(_AGAIN_SECONDS):
                    return

    def _failure(self, record: Record) -> str | None:
        """Why the record did not get everywhere; None where it did."""
        try:
            if self._command:
                subprocess.run(
                    self._command, input=json.dumps(record).encode(), timeout=_SECONDS, check=True,
                    stdout=subprocess.DEVNULL,
                )  # fmt: skip
            if self._webhook is not None:
                _post(self._webhook, record)
            if self._otlp is not None:
                _post(f"{self._otlp.rstrip('/')}/v1/logs", log_of(record))
            write_atomically(self._noted, str(record["name"]).encode())
        except Exception as error:  # noqa: BLE001 - whatever it is, the next try may do
            return f"{type(error).__name__}: {error}"
        return None


def log_of(record: Record) -> dict[str, Any]:
    """The record as a log of OpenTelemetry, in the JSON form of OTLP."""
    at = datetime.fromisoformat(record["at"])
    flat = {**record, **record.get("guarded", {})}
    names = ("decision", "contract", "name", "agent", "source", "transaction", "position")
    said = [_attribute(f"statediff.{name}", str(flat[name])) for name in names if name in flat]
    return {"resourceLogs": [{
        "resource": {"attributes": [_attribute("service.name", "statediff-guard")]},
        "scopeLogs": [{
            "scope": {"name": "statediff", "version": __version__},
            "logRecords": [{
                "timeUnixNano": str(int(at.timestamp()) * 10**9),
                "severityNumber": 17 if record["decision"] == "deny" else 13,
                "severityText": "ERROR" if record["decision"] == "deny" else "WARN",
                "eventName": "statediff.decision",
                "body": {"stringValue": record["why"]},
                "attributes": said,
            }],
        }],
    }]}  # fmt: skip


def _attribute(name: str, value: str) -> dict[str, Any]:
    return {"key": name, "value": {"stringValue": value}}


def _post(url: str, document: Any) -> None:
    asked = urllib.request.Request(  # noqa: S310 - http and https alone, see `Alerts`
        url, json.dumps(document).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(asked, timeout=_SECONDS):  # noqa: S310 - as above
        pass
