"""Puts the packs into the wheel, where an installed ``statediff`` finds them.

``sandboxes/`` and ``contracts/`` live at the top of the repository because they are data. A static
``force-include`` would also copy them into an editable install, where the copy would go stale;
hence a hook that acts on real wheels only.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKS = ("sandboxes", "contracts", "fixtures/bundles", "docs/examples/reads")


class PacksBuildHook(BuildHookInterface):  # type: ignore[type-arg]  # hatchling's own generic is private
    """A wheel holds every pack under ``statediff/_packs``; an editable install holds none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Map each pack folder to its place in the wheel; a missing folder stops the build."""
        if version == "editable":
            return
        for name in PACKS:
            folder = Path(self.root, name)
            if not folder.is_dir():
                message = f"pack folder {name}/ not found beside pyproject.toml; a wheel needs it"
                raise FileNotFoundError(message)
            build_data["force_include"][str(folder)] = f"statediff/_packs/{name}"
