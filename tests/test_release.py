"""A release: a commit gives the same bytes each time, and whatever was not signed so is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from requirements import release
from requirements.release import check, digests, licenses, make, sign
from statediff.errors import BundleError, InputError
from statediff.evidence.keys import add_trust, generate, trust_entry


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not (release.ROOT / ".git").exists(), reason="the checkout is no repository")
def test_a_commit_has_one_release_and_a_changed_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cyclonedx_py", reason="cyclonedx-bom is not installed")
    dist, again, key, trust = (tmp_path / name for name in ("dist", "again", "key", "trust.json"))
    commit = release.head()
    make(commit, dist, release.EVERYTHING)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    umask = os.umask(0o077)
    make(commit, again, release.EVERYTHING)
    os.umask(umask)
    assert digests(dist) == digests(again)
    add_trust(trust, trust_entry("Ada", generate(key).public, ["evaluator"]))
    sign(dist, commit, key)
    assert "18 files" in check(dist, trust)
    wheel = next(dist.glob("statediff_git*.whl"))
    wheel.write_bytes(wheel.read_bytes()[:-1] + b"x")
    with pytest.raises(BundleError, match=f"signed it: {wheel.name}"):
        check(dist, trust)
    wheel.rename(dist / "statediff_git-2.whl")
    with pytest.raises(BundleError, match=r"statediff_git-2\.whl"):
        check(dist, trust)
    signed = (dist / release.STATEMENT).read_bytes()
    (again / release.STATEMENT).write_bytes(signed.replace(b"o", b"p", 1))
    with pytest.raises(BundleError):
        check(again, trust)


def said(*licenses: str) -> dict[str, object]:
    """The materials of something whose metadata say this, each an expression or a classifier."""
    every = [{"license": {"name": x}} if "::" in x else {"expression": x} for x in licenses]
    return {"components": [{"name": "some", "version": "1", "licenses": every}]}


def test_a_license_that_is_unknown_or_not_permissive_is_refused() -> None:
    bsd, both = "License :: OSI Approved :: BSD License", "GPL-3.0-only AND (MIT OR Apache-2.0)"
    for taken in ("GPL-2.0-only OR MIT", "MIT AND Zlib", bsd):
        assert f"| some | 1 | {taken.rpartition(' :: ')[2]} |" in licenses(said(taken))
    for refused in ((), ("MIT", "GPL-3.0-only"), (both,), ("License :: OSI Approved",), ("any",)):
        with pytest.raises(InputError, match="some 1 "):
            licenses(said(*refused))
