"""`contract release | sign-off | diff`: versions of contracts, and what a change means."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import ValidationError

from statediff.cli.contracts.testing import undo
from statediff.cli.faults import USAGE
from statediff.cli.options import ContractArgument, JsonFlag, argument, option
from statediff.cli.output import print_result
from statediff.contract.authoring.changes import (
    Comparison,
    compare_contracts,
    compare_packs,
    compare_schemas,
)
from statediff.contract.authoring.versions import (
    FILE,
    Releases,
    SignOff,
    add_release,
    add_sign_off,
    identifier,
    written,
)
from statediff.contract.document.load import parse_document, read_bytes
from statediff.contract.document.schemafile import parse_schema_file
from statediff.contract.file import load_contract
from statediff.contract.yaml.reader import read_document
from statediff.errors import ContractError, UsageError
from statediff.evidence.keys import load_key
from statediff.model.values import printable
from statediff.packs import PACK_FILE, read_pack
from statediff.suite.affected import Affected, affected
from statediff.workspace.contracts import States, check, contract_path, releases_beside
from statediff.workspace.folders import shown, write_file
from statediff.workspace.logs.releases import sign_release, sign_review

RELEASE: Final = "statediff/release/1"
By = Annotated[str, option("NAME", "Who does it.", "--by")]
On = Annotated[str, option("DAY", "The day, e.g. 2026-01-31.", "--on")]
ReleaseKeyOption = Annotated[
    Path | None, option("FILE", "Sign it: a log takes only what is signed.", "--key")
]


def release(
    contract: ContractArgument,
    by: By,
    on: On,
    key: ReleaseKeyOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Release a version: its digest is written to released.yaml, and it never changes again.

    A contract that lint finds an error in is not released. Said again with --key, the same
    release is signed.
    """

    def step(known: Releases, name: str, digest: str, path: Path) -> Releases:
        checked = check(path, States(None, []))
        if not checked.is_ok:
            raise ContractError(tuple(p for p in checked.problems if p.severity == "error"))
        entry = known.get(name)
        is_there = entry is not None and (entry.digest, entry.released_by, entry.on) == (
            digest,
            by,
            on,
        )
        new = known if key and is_there else add_release(known, name, digest, by, on)
        return new if key is None else sign_release(new, name, load_key(key), _now())

    return _record(contract, step, f"released by {by}", as_json=as_json)


def sign_off(
    contract: ContractArgument,
    on: On,
    by: Annotated[str | None, option("NAME", "The person who reviewed it.", "--by")] = None,
    second_reading: Annotated[
        str | None,
        option(
            "TEXT",
            "Instead of a person: what a second, independent reading found.",
            "--second-reading",
        ),
    ] = None,
    key: ReleaseKeyOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Sign a released version off, over its digest, by somebody other than who released it.

    A sign-off is a person's, with a name, or a second independent reading's, with what it found.
    """
    if (by is None) == (second_reading is None):
        raise UsageError("name the kind of review: either --by NAME or --second-reading TEXT")

    def step(known: Releases, name: str, digest: str, _path: Path) -> Releases:
        kind = "person" if by is not None else "second-reading"
        try:
            review = SignOff.model_validate(
                {"kind": kind, "by": by, "on": on, "found": second_reading}
            )
        except ValidationError as error:
            raise UsageError(f"this is no sign-off: {error.errors()[0]['msg']}") from error
        entry = known.get(name)
        is_there = entry is not None and entry.digest == digest and entry.reviewed == review
        new = known if key and is_there else add_sign_off(known, name, digest, review)
        return new if key is None else sign_review(new, name, load_key(key), _now())

    said = f"signed off by {by or 'a second reading'}"
    return _record(contract, step, said, as_json=as_json)


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def _record(
    contract: str,
    step: Callable[[Releases, str, str, Path], Releases],
    said: str,
    *,
    as_json: bool,
) -> int:
    path = contract_path(contract)
    file = load_contract(path)
    name = identifier(file.content.contract, file.content.version)
    new = step(releases_beside(path), name, file.digest, path)
    write_file(path.parent / FILE, written(new))
    document = {"schema": RELEASE, "contract": name, "file": shown(path.parent / FILE)}
    entry = new[name].model_dump()
    text = f"{name}  {file.digest[:12]}  {printable(said)}"
    print_result({**document, **entry}, text, as_json=as_json)
    return 0


def diff(
    old: Annotated[str, argument("OLD", "A contract, schema file or pack.")],
    new: Annotated[str, argument("NEW", "The same, as it is now.")],
    runs: Annotated[Path | None, option("DIR", "List recorded trials in it.", "--runs")] = None,
    note: Annotated[
        Path | None, option("FILE", "Write the migration note there.", "--note")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Say what a change touches, which version it demands, and which trials it affects.

    OLD and NEW are two contracts, two state schema files, or two folders with a pack.yaml. Ends
    with 2 if the version is not raised enough.
    """
    from statediff.reports.contracts import migration_note, plain_comparison

    found, digest = _compare(old, new)
    trials = None if runs is None else affected(runs, _judged_by(found, digest))
    if note is not None:
        write_file(note, migration_note(found, trials).encode())
    document = plain_comparison(found, trials)
    print_result(document, "\n".join(_lines(found, trials)), as_json=as_json)
    return 0 if found.is_raised_enough else USAGE


def _lines(found: Comparison, trials: Affected | None) -> list[str]:
    touched = "nothing" if found.touches is None else found.touches.value
    lines = [f"{found.new} {found.old_version} → {found.new_version}  touches {touched}"]
    for change in found.changes:
        sides = {
            "added": f"+ {change.after}",
            "removed": f"- {change.before}",
            "changed": f"{change.before} → {change.after}",
        }
        lines.append(f"  {change.touches.value}  {change.where}  {sides[change.kind]}")
    if not found.is_raised_enough:
        lines.append(f"raise the {found.bump} version: at least {found.least_version}")
    if trials is not None:
        lines.append(f"recorded trials affected: {len(trials.trials)}")
        lines += [f"  {t.trial}  {t.verdict}  {shown(t.folder)}" for t in trials.trials]
        lines += [f"  not read: {text}" for text in trials.unreadable]
    return [printable(line)[:1000] for line in lines]


def _judged_by(found: Comparison, digest: str) -> Callable[[dict[str, Any], str | None], bool]:
    """The bundles that the old version judged."""

    def is_meant(manifest: dict[str, Any], sandbox: str | None) -> bool:
        if found.kind == "contract":
            same_name = manifest.get("contract") == found.old
            same_version = manifest.get("contract_version") == found.old_version
            return manifest.get("contract_digest") == digest or (same_name and same_version)
        if found.kind == "pack":
            return sandbox == found.old
        schemas = str(manifest.get("schema", "")).replace("@", "+").split("+")
        return found.old in schemas

    return is_meant


def _compare(old: str, new: str) -> tuple[Comparison, str]:
    """The comparison, and the digest of the old document."""
    if (Path(old) / PACK_FILE).is_file() and (Path(new) / PACK_FILE).is_file():
        return _packs(Path(old), Path(new)), ""
    paths = [Path(n) if Path(n).is_file() else contract_path(n) for n in (old, new)]
    data = [read_bytes(path) for path in paths]
    values = [read_document(d, str(p)).value for d, p in zip(data, paths, strict=True)]
    is_schema = all("schema" in value and "contract" not in value for value in values)
    for at, (path, content) in enumerate(zip(paths, data, strict=True)):
        if is_schema:
            parse_schema_file(content, str(path))
        else:
            values[at] = parse_document(content, str(path))[0].value
    compare = compare_schemas if is_schema else compare_contracts
    found = compare(values[0], values[1], data[0] == data[1])
    return found, hashlib.sha256(data[0]).hexdigest()


def _packs(old: Path, new: Path) -> Comparison:
    packs = read_pack(old), read_pack(new)
    documents = _read(old / PACK_FILE), _read(new / PACK_FILE)
    one, two = (
        {source.name: source.schema for source in pack.sources if source.schema is not None}
        for pack in packs
    )
    in_both = [(one[name], two[name]) for name in sorted(one.keys() & two.keys())]
    schemas = [compare_schemas(_read(a), _read(b), True) for a, b in in_both]
    digests = _digests(old, {a for a, _ in in_both}), _digests(new, {b for _, b in in_both})
    return compare_packs(*documents, digests, tuple(schemas))


def _read(path: Path) -> Any:
    return read_document(read_bytes(path), str(path)).value


def _digests(folder: Path, skipped: set[Path]) -> Mapping[str, str]:
    """SHA-256 of every file of a pack but its description and what is compared otherwise."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path not in skipped
        and path.name != PACK_FILE
        and "__pycache__" not in path.parts
    }


COMMANDS: Final[tuple[tuple[str, Callable[..., object]], ...]] = (
    ("release", release),
    ("sign-off", sign_off),
    ("diff", diff),
    ("undo", undo),
)
