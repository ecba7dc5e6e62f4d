"""The commands of `statediff lab`."""

from typing import Final

ABOUT: Final = "Study, audit, import, measure, label and review."
"""The help of the group."""
LOG: Final = "Keep verdicts where every change is noticed."
