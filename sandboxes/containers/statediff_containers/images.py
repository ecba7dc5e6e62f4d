"""Images of the servers that sandboxes run in containers, from `recipes/NAME`.

An image is known by what its folder holds: a changed file is another tag, and nothing is built
twice. It stands on the public `debian:bookworm-slim`, or on a base of this machine's own where no
registry of images can be reached (`engine.sh` makes that one).
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from docker.errors import APIError, BuildError, DockerException, ImageNotFound

from statediff.errors import SandboxError, UsageError
from statediff_containers import engine_script, recipe
from statediff_containers.engine import LABEL, Engine

OWN_BASE: Final = "statediff-base:bookworm"
PUBLIC_BASE: Final = "debian:bookworm-slim"
_BASE_LABEL: Final = "statediff.base"
_DIGEST_DIGITS: Final = 12
_LINES_TOLD: Final = 12
_AT_ONCE: Final = 4


@dataclass(frozen=True)
class Built:
    """One image: its tag, and whether it had to be made."""

    name: str
    tag: str
    is_new: bool


def image_names() -> tuple[str, ...]:
    """The images that sandboxes can use, sorted."""
    return tuple(sorted(path.parent.name for path in recipe("").glob("*/Dockerfile")))


def image_tag(name: str) -> str:
    """The tag for `Spec.image`, e.g. `statediff-postgres:3f…`; `UsageError` names those there are.

    Whether it has been built is for `Engine.run` to say.
    """
    known = image_names()
    if name not in known:
        raise UsageError(f"no image {name!r}; there are: {', '.join(known)}")
    folder, hasher = recipe(name), hashlib.sha256()
    for path in sorted(entry for entry in folder.rglob("*") if entry.is_file()):
        content = path.read_bytes()
        hasher.update(f"{path.relative_to(folder).as_posix()}\0{len(content)}\0".encode())
        hasher.update(bytes([path.stat().st_mode & 0o100 != 0]) + content)
    return f"statediff-{name}:{hasher.hexdigest()[:_DIGEST_DIGITS]}"


def missing_images(engine: Engine, names: Sequence[str] = ()) -> tuple[str, ...]:
    """Those of the named images, by default of all, that have not been built."""
    wanted = names or image_names()
    return tuple(name for name in wanted if _base_of(engine, image_tag(name)) is None)


def build(
    engine: Engine, names: Sequence[str], tell: Callable[[str, str], None], base: str = ""
) -> tuple[Built, ...]:
    """Every image is there, built on `base` (default: this machine's own, else the public one).

    `tell(name, line)` is called from several threads, with what the engine says of a build.
    Raises `SandboxError` with the end of what was said about the first that failed.
    """
    tags = {name: image_tag(name) for name in names}
    chosen = base or (OWN_BASE if _identity(engine, OWN_BASE) else PUBLIC_BASE)
    with ThreadPoolExecutor(_AT_ONCE) as several:
        builds = [
            several.submit(_build, engine, name, tag, chosen, tell) for name, tag in tags.items()
        ]
        return tuple(entry.result() for entry in builds)


def remove_older(engine: Engine, name: str) -> tuple[str, ...]:
    """No image that was built of this one's folder before it changed is left; the tags removed.

    Only those that `build` made and labelled; one that a container still uses stays.
    """
    current, removed = image_tag(name), []
    found = engine.client.images.list(f"statediff-{name}", filters={"label": _BASE_LABEL})
    for tag in sorted(tag for image in found for tag in image.tags if tag != current):
        try:
            engine.client.images.remove(tag)
        except APIError as error:
            if error.status_code not in (404, 409):
                raise SandboxError(f"the image {tag} cannot be removed: {error}") from error
        else:
            removed.append(tag)
    return tuple(removed)


def in_use(engine: Engine) -> dict[str, str]:
    """The images that this process's containers run: tag → `sha256:…`, the exact bytes."""
    wanted = {"label": f"{LABEL}={engine.owner.label}"}
    return {c["Image"]: c["ImageID"] for c in engine.api.containers(filters=wanted)}


def _build(
    engine: Engine, name: str, tag: str, base: str, tell: Callable[[str, str], None]
) -> Built:
    found = _base_of(engine, tag)
    if found is not None and found == _identity(engine, base):
        return Built(name, tag, is_new=False)
    said: deque[str] = deque(maxlen=_LINES_TOLD)
    try:
        if _identity(engine, base) is None:
            tell(name, f"pulling {base}")
            engine.api.pull(base)
        identity = _identity(engine, base) or ""
        stream: Any = engine.api.build(
            path=str(recipe(name)),
            tag=tag,
            buildargs={"BASE": base},
            rm=True,
            forcerm=True,
            decode=True,
            labels={_BASE_LABEL: identity},
        )
        for event in stream:
            if "error" in event:
                end = "\n".join([*said, str(event["error"]).strip()])
                raise SandboxError(f"the image {name} cannot be built on {base}:\n{end}")
            for line in str(event.get("stream", "")).splitlines():
                if line.strip():
                    said.append(line.rstrip())
                    tell(name, line.rstrip())
    except ImageNotFound as error:
        raise SandboxError(
            f"the base image {base} is not there and cannot be pulled; where no registry can be "
            f"reached, `bash {engine_script()} base` makes one, as root on Debian"
        ) from error
    except (DockerException, BuildError) as error:
        raise SandboxError(f"the image {name} cannot be built on {base}: {error}") from error
    return Built(name, tag, is_new=True)


def _base_of(engine: Engine, tag: str) -> str | None:
    """The identity of the image that `tag` stands on; None where there is no such image."""
    try:
        labels = engine.client.images.get(tag).labels
    except ImageNotFound:
        return None
    return str(labels.get(_BASE_LABEL, ""))


def _identity(engine: Engine, image: str) -> str | None:
    try:
        return engine.client.images.get(image).id
    except ImageNotFound:
        return None
