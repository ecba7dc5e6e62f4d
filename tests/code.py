"""The folders of code: the core's package, and those of the other distributions."""

from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).parents[1]
CORE: Final = CHECKOUT / "statediff"
PACKAGES: Final = (
    CORE,
    *sorted(CHECKOUT.glob("sandboxes/*/statediff_*")),
    CHECKOUT / "gate" / "statediff_gate",
    CHECKOUT / "hosts" / "statediff_hosts",
    CHECKOUT / "lab" / "statediff_lab",
)
