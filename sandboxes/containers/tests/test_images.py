"""Images of servers: known by their folders, and none of older versions of them stays."""

import io
import tarfile

import pytest

pytest.importorskip("docker")

from statediff_containers.engine import Spec, connect
from statediff_containers.images import image_tag, in_use, missing_images, remove_older

pytestmark = pytest.mark.docker("relay")
OLD = "statediff-relay:000000000000"
OTHER = "statediff-relay:somebodys"


def test_older_images_are_removed_and_nobody_elses() -> None:
    engine = connect()
    empty = io.BytesIO()
    tarfile.open(fileobj=empty, mode="w").close()
    engine.api.import_image_from_data(empty.getvalue(), *OTHER.split(":"))
    engine.client.images.get(image_tag("relay")).tag(*OLD.split(":"))
    try:
        assert remove_older(engine, "relay") == (OLD,)
        assert missing_images(engine, ["relay"]) == ()
        assert engine.client.images.get(OTHER)
        assert remove_older(engine, "relay") == ()
    finally:
        engine.client.images.remove(OTHER)


def test_what_runs_is_told_by_its_exact_image() -> None:
    engine, tag = connect(), image_tag("relay")
    container = engine.run(Spec(tag, "idle", ("1024",)))
    try:
        container.await_ready(container.socket("ready").exists)
        assert in_use(engine)[tag] == engine.client.images.get(tag).id
    finally:
        container.remove()
