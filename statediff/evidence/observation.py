"""An observer's statement about a trial, signed once all was captured and before judging.

The document is `observation.json` of the bundle: a DSSE envelope over an in-toto statement whose
subjects are the parts of the trial, each by a salted digest, and an opening for each. An opening
may be seen by whom its part may be seen by; without the salt nobody can try values.

`verify` has the form and compares. The part that no bundle shows, calls and answer as they were
judged, is compared by who replays.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from statediff.errors import BundleError
from statediff.evidence import verify as v
from statediff.evidence.package import UNDISCLOSED, Bundle, make

Json = Any
SAID: Final = ("answer.json", "trace.json")
"""The files of which a bundle may not show all."""


def with_observation(bundle: Bundle, document: Json) -> Bundle:
    """The bundle with the observation. `BundleError` where it shows another thing."""
    try:
        v.compared(_bound(document), document["opened"], bundle.document)
    except v.Rejected as error:
        raise BundleError(str(error)) from error
    if (UNDISCLOSED in bundle.manifest) != (v.UNSHOWN in _bound(document)):
        raise BundleError(f"{v.OBSERVATION}: of other calls, or another answer")
    facts = {name: x for name, x in bundle.manifest.items() if name not in ("files", "format")}
    files = {**bundle.files, v.OBSERVATION: document}
    return make(files, bundle.data("contract.yaml"), facts, bundle.undisclosed)


def is_as_judged(bundle: Bundle, judged: Mapping[str, Json]) -> bool:
    """True where calls and answer are what was observed, or nobody observed them.

    `judged` are those of its documents that it does not show so. Who signed is what `verify` says.
    """
    if v.OBSERVATION not in bundle.files:
        return True
    document = bundle.document(v.OBSERVATION)
    _, salt, *_ = document["opened"][-1]
    said = {name: judged.get(name) or bundle.document(name) for name in SAID}
    return v.part_digest(salt, said) in _bound(document).get(v.UNSHOWN, ())


def _bound(document: Json) -> dict[str, list[str]]:
    return v.parts_in(json.loads(base64.b64decode(document["envelope"]["payload"]))["subject"])
