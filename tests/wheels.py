"""Wheels of every distribution, each installed in an environment that holds what it declares.

`python -m tests.wheels [NAME...]` asks the index for what rooms declare, extras of servers too,
and runs the first command of each README there (`make wheels`; minutes). `--pages [NAME...]` runs
every console of each page of the docs, in an environment with README's distributions and what the
page says to install (`make pages`); pages that say the same share one. Tests take what is declared
from the environment at hand, and reach no index.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).resolve().parents[1]
CORE: Final = "statediff"


def folders() -> dict[str, Path]:
    """Distribution → its folder in the checkout, the core first."""
    found = [ROOT, *sorted(path.parent for path in ROOT.glob("sandboxes/*/pyproject.toml"))]
    found += [ROOT / "gate", ROOT / "hosts", ROOT / "lab"]
    return {project(folder)["name"]: folder for folder in found}


def project(folder: Path) -> dict[str, object]:
    """The table `project` of a distribution."""
    read = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    table: dict[str, object] = read["project"]
    return table


def first_command(folder: Path) -> str:
    """The first command that the README of a distribution shows."""
    [command, *_] = re.findall(r"(?m)^\$ (.*)$", (folder / "README.md").read_text("utf-8"))
    return str(command)


def installs(folder: Path) -> list[str]:
    """What the README of a distribution installs, each a folder and its extras."""
    [line] = re.findall(r"(?m)^pip install (.*)$", (folder / "README.md").read_text("utf-8"))
    return [word.strip("'") for word in line.split()]


def build(into: Path) -> dict[str, Path]:
    """Distribution → its wheel, all built of this checkout."""
    places = [str(folder) for folder in folders().values()]
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
         "-w", str(into), *places],
        check=True, cwd=ROOT,
    )  # fmt: skip
    wheels = {path.name.partition("-")[0].replace("_", "-"): path for path in into.glob("*.whl")}
    return {name: wheels[name] for name in folders()}


class Environment:
    """A fresh environment, without pip and without an index."""

    def __init__(self, folder: Path) -> None:
        made = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
        subprocess.run(made, check=True)
        self.bin = folder / "bin"
        [self._site] = folder.glob("lib/python*/site-packages")
        self.installed: set[str] = set()
        """The names of all distributions in it."""

    def add(self, wheel: Path, *extras: str) -> None:
        """Install the wheel, and from the environment at hand what it declares."""
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self._site)
        name = wheel.name.partition("-")[0]
        found = next(d for d in metadata.distributions(path=[str(self._site)])
                     if canonicalize_name(d.name) == canonicalize_name(name))  # fmt: skip
        self.installed.add(canonicalize_name(found.name))
        self._scripts(found)
        for need in _needs(found, extras):
            if not need.name.startswith(CORE):
                self._borrow(need)

    def _borrow(self, need: Requirement) -> None:
        """Link what the environment at hand has of a library, and of what it needs itself."""
        name = canonicalize_name(need.name)
        if name in self.installed:
            return
        self.installed.add(name)
        found = metadata.distribution(need.name)
        home = Path(str(found.locate_file("")))
        for top in {Path(str(file)).parts[0] for file in found.files or ()} - {".."}:
            if (place := self._site / top).is_dir() and not place.is_symlink():
                shutil.copytree(home / top, place, dirs_exist_ok=True)  # a namespace
            elif not place.exists():
                place.symlink_to(home / top)
        for inner in _needs(found, tuple(need.extras)):
            self._borrow(inner)

    def _scripts(self, found: metadata.Distribution) -> None:
        for script in found.entry_points.select(group="console_scripts"):
            module, _, function = script.value.partition(":")
            program = self.bin / script.name
            program.write_text(
                f"#!{self.bin}/python\nfrom {module} import {function}\n{function}()\n", "utf-8"
            )
            program.chmod(0o755)


def _needs(found: metadata.Distribution, extras: tuple[str, ...]) -> list[Requirement]:
    """What it requires here, with these of its extras."""
    listed = [Requirement(each) for each in found.requires or ()]
    wanted = [{"extra": extra} for extra in ("", *extras)]
    return [
        need
        for need in listed
        if need.marker is None or any(need.marker.evaluate(each) for each in wanted)
    ]


def main(names: list[str]) -> int:
    """How many of the named distributions, or of all, fail in an environment of their own."""
    failed = 0
    with tempfile.TemporaryDirectory(prefix="statediff-wheels-") as made:
        wheels = build(Path(made) / "wheels")
        for name, folder in folders().items():
            if name == CORE or name not in (names or wheels):  # its README is tried by the docs
                continue
            place = Path(made) / name
            wanted = [f"{wheels[_named(each)]}{_extras(each)}" for each in installs(folder)]
            subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
            ran = [
                subprocess.run(
                    [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet",
                     "--disable-pip-version-check", *wanted], check=False, cwd=made,
                ),
                subprocess.run(
                    first_command(folder), shell=True, check=False, cwd=made,
                    env={"PATH": f"{place / 'bin'}:/usr/local/bin:/usr/bin:/bin", "HOME": made},
                ),
            ]  # fmt: skip
            is_right = not any(each.returncode for each in ran)
            failed += not is_right
            print(f"{'ok' if is_right else 'FAILED'}  {name}: {first_command(folder)}")  # noqa: T201
    return failed


def said(page: Path) -> tuple[frozenset[str], frozenset[str]]:
    """The extras of ours that a page says to install, and the packages of others."""
    words = [
        word.strip("'\"`.:")
        for line in re.findall(r"pip install ([^\n`(;]*)", page.read_text("utf-8"))
        for word in line.split()
    ]
    extras = {extra for word in words if word.startswith(f"{CORE}[")
              for extra in word.partition("[")[2].rstrip("]").split(",")}  # fmt: skip
    others = {word for word in words if re.fullmatch(r"[a-z][\w-]*", word) and word != CORE}
    return frozenset(extras | {"sandboxes"}), frozenset(others)


def _siblings(extras: frozenset[str]) -> dict[str, set[str]]:
    """Our distributions that extras of the core bring → extras of theirs."""
    table = project(ROOT)["optional-dependencies"]
    found: dict[str, set[str]] = {}
    waiting = [Requirement(each) for extra in extras for each in table[extra]]  # type: ignore[index]  # a table of lists
    waiting.append(Requirement(f"{CORE}[{','.join(extras)}]"))
    while waiting:
        need = waiting.pop()
        known = need.name in found and need.extras <= found[need.name]
        if known or not need.name.startswith(CORE):
            continue
        found.setdefault(need.name, set()).update(need.extras)
        own = project(folders()[need.name])
        listed: dict[str, list[str]] = own.get("optional-dependencies", {})  # type: ignore[assignment]  # as above
        lines = [*own["dependencies"], *(x for e in need.extras for x in listed[e])]  # type: ignore[misc]  # as above
        waiting += map(Requirement, lines)
    return found


def try_pages(names: list[str]) -> int:
    """How many of the named pages, or of all, show what does not come to pass as they say."""
    from tests import test_docs as docs  # noqa: PLC0415 - it imports pytest and the parser

    failed = 0
    by_set: dict[tuple[frozenset[str], frozenset[str]], list[Path]] = {}
    for name in names or docs.PAGES:
        page = ROOT / "docs" / f"{name}.md"
        by_set.setdefault(said(page), []).append(page)
    with tempfile.TemporaryDirectory(prefix="statediff-pages-") as made:
        wheels = build(Path(made) / "wheels")
        for number, ((extras, others), pages) in enumerate(by_set.items()):
            place = Path(made) / f"env{number}"
            wanted = [f"{wheels[name]}[{','.join(sorted(own))}]" if own else str(wheels[name])
                      for name, own in _siblings(extras).items()]  # fmt: skip
            subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
            python = str(place / "bin" / "python")
            _install(python, [*wanted, *sorted(others)])
            for page in pages:
                folder = Path(made) / f"{page.stem}{number}"
                folder.mkdir()
                own = "-m pytest -p no:cacheprovider -c /dev/null --rootdir ."
                programs = {"statediff": "-m statediff", "python": "-B", "pytest": own}
                docs.put_programs(folder, programs, python)
                try:
                    for content in docs.lay_out(page, folder):
                        docs.check(content, folder, str(folder), own=True)
                except (AssertionError, subprocess.TimeoutExpired) as error:
                    failed += 1
                    print(f"FAILED  {page.stem}: {error}")  # noqa: T201
                else:
                    print(f"ok  {page.stem}: {', '.join([*sorted(extras), *sorted(others)])}")  # noqa: T201
    return failed


def _install(python: str, wanted: list[str]) -> None:
    """What is wanted is installed there: by uv where it is at hand, in a tenth of pip's time."""
    uv = Path(sys.executable).with_name("uv")
    pip = [str(uv), "pip", "install", "--quiet", "--python", python]
    if not uv.exists():
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *wanted], check=True)


def _named(place: str) -> str:
    """The distribution in a folder of a README's line."""
    folder = (ROOT / place.partition("[")[0]).resolve()
    return next(name for name, each in folders().items() if each == folder)


def _extras(place: str) -> str:
    return "[" * ("[" in place) + place.partition("[")[2]


if __name__ == "__main__":
    pages = sys.argv[1:2] == ["--pages"]
    sys.exit(try_pages(sys.argv[2:]) if pages else main(sys.argv[1:]))
