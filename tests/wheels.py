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
PROGRAMS: Final = {
    "statediff": "-m statediff",
    "python": "-B",
    "pytest": "-m pytest -p no:cacheprovider -c /dev/null --rootdir .",
}
"""Programs that a page calls, as arguments of an environment's Python."""


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


def installs(folder: Path) -> dict[str, list[str]]:
    """Our distributions that the README of one installs, each with its extras."""
    [line] = re.findall(r"(?m)^pip install (.*)$", (folder / "README.md").read_text("utf-8"))
    names = {place: name for name, place in folders().items()}
    words = [word.strip("'").rstrip("]").partition("[") for word in line.split()]
    return {
        names[(ROOT / place).resolve()]: extras.split(",") if extras else []
        for place, _, extras in words
    }


def build(into: Path, root: Path = ROOT) -> dict[str, Path]:
    """Distribution → its wheel, all built of this checkout, or of a copy of it."""
    places = [str(root / folder.relative_to(ROOT)) for folder in folders().values()]
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
         "-w", str(into), *places],
        check=True, cwd=root,
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
        self._asked: set[str] = set()

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
                self.borrow(need)

    def borrow(self, need: Requirement) -> None:
        """Link what the environment at hand has of a library, and of what it needs itself."""
        name = canonicalize_name(need.name)
        if (asked := f"{name}{sorted(need.extras)}") in self._asked:
            return
        self._asked.add(asked)
        self.installed.add(name)
        found = metadata.distribution(need.name)
        home = Path(str(found.locate_file("")))
        for top in {Path(str(file)).parts[0] for file in found.files or ()} - {".."}:
            if (place := self._site / top).is_dir() and not place.is_symlink():
                shutil.copytree(home / top, place, dirs_exist_ok=True)  # a namespace
            elif not place.exists():
                place.symlink_to(home / top)
        for inner in _needs(found, tuple(need.extras)):
            self.borrow(inner)

    def _scripts(self, found: metadata.Distribution) -> None:
        for script in found.entry_points.select(group="console_scripts"):
            module, _, function = script.value.partition(":")
            program = self.bin / script.name
            program.write_text(
                f"#!{self.bin}/python\nfrom {module} import {function}\n{function}()\n", "utf-8"
            )
            program.chmod(0o755)


def _needs(found: metadata.Distribution, extras: tuple[str, ...]) -> list[Requirement]:
    """The requirements here, with these of its extras."""
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
        ours = _named_wheels(wheels, Path(made))
        for name, folder in folders().items():
            if name == CORE or name not in (names or wheels):  # its README is tried by the docs
                continue
            place = Path(made) / name
            wanted = [f"{each}[{','.join(more)}]" for each, more in installs(folder).items()]
            subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
            _install(str(place / "bin" / "python"), wanted, ours)
            ran = subprocess.run(
                first_command(folder), shell=True, check=False, cwd=made,
                env={"PATH": f"{place / 'bin'}:/usr/local/bin:/usr/bin:/bin", "HOME": made},
            )  # fmt: skip
            is_right = ran.returncode == 0
            failed += not is_right
            print(f"{'ok' if is_right else 'FAILED'}  {name}: {first_command(folder)}")  # noqa: T201
    return failed


def said(page: Path) -> tuple[frozenset[str], frozenset[str]]:
    """The extras of ours that a page says to install, and the packages of others."""
    words = [
        word.strip("'\"`.:")
        for line in re.findall(r"pip install\s+([^\n`(;]*)", page.read_text("utf-8"))
        for word in line.split()
    ]
    extras = {extra for word in words if word.startswith(f"{CORE}[")
              for extra in word.partition("[")[2].rstrip("]").split(",")}  # fmt: skip
    others = {word for word in words if re.fullmatch(r"[a-z][\w-]*", word) and word != CORE}
    return frozenset(extras | {"sandboxes"}), frozenset(others)


def try_pages(names: list[str]) -> int:
    """How many of the named pages, or of all, show what does not come to pass as they say."""
    from tests import test_docs as docs  # noqa: PLC0415 - it imports pytest and the parser

    failed = 0
    by_set: dict[tuple[frozenset[str], frozenset[str]], list[Path]] = {}
    for name in names or docs.PAGES:
        page = ROOT / "docs" / f"{name}.md"
        by_set.setdefault(said(page), []).append(page)
    with tempfile.TemporaryDirectory(prefix="statediff-pages-") as made:
        ours = _named_wheels(build(Path(made) / "wheels"), Path(made))
        for number, ((extras, others), pages) in enumerate(by_set.items()):
            place = Path(made) / f"env{number}"
            subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
            python = str(place / "bin" / "python")
            _install(python, [f"{CORE}[{','.join(sorted(extras))}]", *sorted(others)], ours)
            for page in pages:
                folder = Path(made) / f"{page.stem}{number}"
                folder.mkdir()
                docs.put_programs(folder, PROGRAMS, python)
                try:
                    for content in docs.lay_out(page, folder):
                        docs.check(content, folder, str(folder), own=True)
                except (AssertionError, subprocess.TimeoutExpired) as error:
                    failed += 1
                    print(f"FAILED  {page.stem}: {error}")  # noqa: T201
                else:
                    print(f"ok  {page.stem}: {', '.join([*sorted(extras), *sorted(others)])}")  # noqa: T201
    return failed


def _named_wheels(wheels: dict[str, Path], folder: Path) -> Path:
    """Constraints by which no index supplies a name of ours."""
    ours = folder / "ours.txt"
    ours.write_text("".join(f"{name} @ {path.as_uri()}\n" for name, path in wheels.items()))
    return ours


def _install(python: str, wanted: list[str], ours: Path) -> None:
    """Install what is wanted: by uv where it is at hand, in a tenth of pip's time."""
    uv = Path(sys.executable).with_name("uv")
    pip = [str(uv), "pip", "install", "--quiet", "--python", python]
    if not uv.exists():
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--constraint", str(ours), *wanted], check=True)


if __name__ == "__main__":
    pages = sys.argv[1:2] == ["--pages"]
    sys.exit(try_pages(sys.argv[2:]) if pages else main(sys.argv[1:]))
