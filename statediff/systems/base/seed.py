"""The file of a pack that says with what a server begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from statediff.errors import SandboxError


def load_seed(path: Path, what: str = "a seed") -> Any:
    """The document of the YAML file. Raises `SandboxError`."""
    try:
        return YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise SandboxError(f"{path}: cannot be read as {what}: {error}") from error
