"""Programs that npm installs from a lock, once; kept in `.venv` where there is one."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]


def installed(lock: Path, otherwise: Path) -> Path:
    """The `node_modules` of a folder with `package.json` and a lock, made in `otherwise` at worst.

    Where npm cannot install them the test is skipped, unless node is required.
    """
    names = ("package.json", "package-lock.json")
    digest = hashlib.sha256((lock / names[1]).read_bytes()).hexdigest()[:12]
    base = CHECKOUT / ".venv" if (CHECKOUT / ".venv").is_dir() else otherwise
    folder = base / f"{lock.name}-{digest}"
    if not folder.is_dir():
        base.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f"{lock.name}-", dir=base))
        try:
            _install(lock, made, names)
            made.replace(folder)
        except subprocess.SubprocessError as error:
            if "node" in os.environ.get("STATEDIFF_REQUIRE", "").split():
                raise
            pytest.skip(f"npm could not install what {lock.name} needs: {error}")
        except OSError:
            if not folder.is_dir():  # else another worker was first
                raise
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return folder / "node_modules"


def _install(lock: Path, made: Path, names: tuple[str, ...]) -> None:
    for name in names:
        shutil.copy(lock / name, made / name)
    command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
    subprocess.run(command, cwd=made, check=True, capture_output=True, timeout=600)
