"""`sandbox build`: the images of sandboxes' servers."""

from __future__ import annotations

from typing import Annotated

import typer

from statediff.cli.options import JsonFlag
from statediff.cli.output import print_result, progress
from statediff.errors import UsageError
from statediff.reports.said import said


def build(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[IMAGE...]", help="Which [default: all].")
    ] = None,
    base: Annotated[
        str,
        typer.Option(
            "--base",
            metavar="IMAGE",
            help="Stand on it [default: statediff-base:bookworm if that is here, else Debian's].",
        ),
    ] = "",
    as_json: JsonFlag = False,
) -> int:
    """Build the images of sandboxes' servers; those of older versions of them are removed."""
    try:
        from statediff_containers import images
        from statediff_containers.engine import connect
    except ModuleNotFoundError as error:
        raise UsageError(
            f"containers need {error.name}; get it with `pip install statediff[docker]`"
        ) from error
    chosen = list(dict.fromkeys(names or images.image_names()))
    for name in chosen:
        images.image_tag(name)  # an unknown name needs no engine to be refused
    engine = connect()
    built = images.build(
        engine,
        chosen,
        lambda name, line: progress().print(f"{name}: {said(line, 200)}", soft_wrap=True),
        base,
    )
    for image in built:
        removed = images.remove_older(engine, image.name)
        state = "built" if image.is_new else "as it was"
        print_result(
            {
                "image": image.name,
                "tag": image.tag,
                "built": image.is_new,
                "removed": list(removed),
            },
            f"{image.name:<10} {image.tag}  {state}",
            as_json=as_json,
        )
        for tag in () if as_json else removed:
            progress().print(f"{tag}: removed, an older one", soft_wrap=True)
    return 0
