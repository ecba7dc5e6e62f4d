"""The plug-in of the systems that run in containers: the engine is checked, images are named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from statediff.errors import SandboxError, StatediffError
from statediff.systems.base.plugin import Check, SystemPlugin
from statediff_containers import engine_script


def _checks() -> Iterator[Check]:
    try:
        from statediff_containers.engine import connect
        from statediff_containers.images import image_names, missing_images
    except ModuleNotFoundError as error:
        todo = "for real servers in containers: pip install statediff[docker]"
        yield Check("docker", f"containers need {error.name}", todo, is_optional=True)
        return
    try:
        engine = connect()
        missing = missing_images(engine)
        version = engine.client.version()["Version"]
    except SandboxError as error:
        start = f"on Debian: bash {engine_script()} up"
        todo = f"for real servers in containers install and start Docker; {start}"
        yield Check("docker", str(error).partition(";")[0], todo, is_optional=True)
        return
    yield Check("docker", f"engine {version}")
    todo = f"statediff sandbox build {' '.join(missing)}" if missing else ""
    found = f"without {', '.join(missing)}" if missing else f"all {len(image_names())}"
    yield Check("docker images", found, todo, is_optional=True)


def _images(agent: str | None) -> Mapping[str, str]:
    from statediff_containers.engine import connect
    from statediff_containers.images import in_use

    try:
        engine = connect()
    except StatediffError:
        if agent is not None:
            raise
        return {}  # its servers, which run already, are in none
    found = in_use(engine)
    if agent is not None:
        found[agent] = str(engine.client.images.get(agent).id)
    return found


PLUGIN: Final = SystemPlugin(interface=1, checks=_checks, images=_images)
