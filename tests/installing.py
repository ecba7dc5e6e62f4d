"""Metadata as an installer writes it, for a distribution with one entry point."""

from pathlib import Path


def install(site: Path, group: str, name: str, value: str, *, distribution: str = "") -> None:
    """The folder, which is on the path, holds a distribution that names `value`."""
    metadata = site / f"{distribution or name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution or name}\nVersion: 1.0\n"
    )
    (metadata / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")
