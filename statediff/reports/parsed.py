"""A bundle for whoever asks it the same thing again and again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from statediff.evidence.package import Bundle

Json = Any


@dataclass(frozen=True)
class Parsed(Bundle):
    """A bundle whose documents are read once; some of them may be others than its files hold."""

    documents: dict[str, Json] = field(default_factory=dict)

    def document(self, name: str) -> Json:
        """The JSON of one of the files. Whoever gets it changes nothing in it."""
        if name not in self.documents:
            self.documents[name] = super().document(name)
        return self.documents[name]
