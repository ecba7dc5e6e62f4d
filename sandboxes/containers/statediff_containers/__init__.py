"""Servers in containers: the engine, images, volumes, processes and ports."""

from pathlib import Path


def engine_script() -> Path:
    """The program that starts an engine, and makes a base image where no registry is reached."""
    return Path(__file__).parent / "engine.sh"


def recipe(name: str) -> Path:
    """The folder that the image of a server is built from, e.g. of `postgres`."""
    return Path(__file__).parent / "recipes" / name
