"""`keygen`, `sign`, `verify` and `redact`: one signature, and copies for whoever may see less."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statediff.cli.evidence.retention import VaultOption
from statediff.cli.output import JsonFlag
from statediff.workspace.bundles import load_copy, raw_pieces

if TYPE_CHECKING:
    from statediff.evidence.keys import SigningKey
    from statediff.evidence.seal import Sealed
    from statediff.evidence.verify import Verified

KEYS = "statediff/key/1"
VERIFICATION = "statediff/verification/1"
WITHHELD = 3

SealedArgument = Annotated[
    Path, typer.Argument(metavar="SEALED", help="A sealed bundle: its folder or its zip.")
]
TrustOption = Annotated[
    Path,
    typer.Option("--trust", metavar="FILE", help="The trust file: whose keys count, and as what."),
]


class Tier(StrEnum):
    """Who a copy is for."""

    PUBLIC = "public"
    REVIEWER = "reviewer"
    AUDITOR = "auditor"


class Role(StrEnum):
    """What a key is trusted to do."""

    EVALUATOR = "evaluator"
    REVIEWER = "reviewer"


def keygen(
    key: Annotated[Path, typer.Argument(metavar="KEY", help="Where the secret key goes.")],
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Whose key it is, in the trust file.")
    ],
    trust: Annotated[
        Path, typer.Option("--trust", metavar="FILE", help="The trust file the key is added to.")
    ] = Path("trust.json"),
    role: Annotated[
        list[Role] | None,
        typer.Option("--role", help="What it is trusted to do; may be given again."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a key to sign with, and add its public half to a trust file."""
    from statediff.cli.output import emit, results, shown
    from statediff.evidence.keys import add_trust, generate, load_trust, trust_entry
    from statediff.evidence.verify import key_id

    if trust.exists():
        load_trust(trust)  # a broken one is found before a key lies about
    made = generate(key)
    roles = [each.value for each in role or [Role.EVALUATOR]]
    try:
        add_trust(trust, trust_entry(name, made.public, roles))
    except BaseException:
        key.unlink()
        raise
    if as_json:
        emit({
            "schema": KEYS, "key": shown(key), "trust": shown(trust), "name": name,
            "roles": roles, "keyid": key_id(made.public),
        })  # fmt: skip
    else:
        results().print(
            f"key {shown(key)} for {name}, readable by you only; keep it where no agent runs\n"
            f"{shown(trust)} trusts it as {', '.join(roles)}; give that file to whoever verifies",
            soft_wrap=True,
        )


def sign(
    bundle: Annotated[
        Path, typer.Argument(metavar="BUNDLE", help="A bundle's folder, or a trial's with one.")
    ],
    key: Annotated[
        Path, typer.Option("--key", metavar="KEY", help="The secret key, from `statediff keygen`.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="PATH",
            help="Where the copy goes: a folder, a .zip, or with --vault a .kept.",
        ),
    ],
    raw: Annotated[
        list[Path] | None,
        typer.Option("--raw", metavar="FILE", help="A raw capture for auditors; repeatable."),
    ] = None,
    raw_to: Annotated[
        list[str] | None,
        typer.Option("--raw-to", metavar="RECIPIENT", help="Who can read it (age); repeatable."),
    ] = None,
    vault: Annotated[
        Path | None,
        typer.Option("--vault", metavar="DIR", help="Encrypt what may have to go; keys go there."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:  # fmt: skip
    """Seal a bundle: replay it, cut it into salted leaves, and sign the tree over them."""
    import secrets
    from datetime import UTC

    from statediff.errors import UsageError
    from statediff.evaluate import parse_contract, replay
    from statediff.evidence.keys import load_key
    from statediff.evidence.seal import SEED_BYTES, check_promise, save, seal
    from statediff.evidence.vault import SUFFIX
    from statediff.workspace.bundles import load_bundle

    if (vault is None) == (out.suffix == SUFFIX):
        raise UsageError(f"--vault and an --out that ends in {SUFFIX} go together")
    signing = load_key(key)
    pieces = raw_pieces(raw or [], raw_to or [])
    found, _folder = load_bundle(bundle)
    replay(found)  # nobody puts a name to a verdict that does not follow from its evidence
    contract = parse_contract(found.files["contract.yaml"], "contract.yaml")
    check_promise(found, contract.content.replayable)
    now = datetime.now(UTC).replace(microsecond=0)
    seed = secrets.token_bytes(SEED_BYTES)
    sealed = seal(found, seed, now, signing.public, signing.sign, pieces)
    if vault is None:
        save(sealed, out)
    else:
        _keep(sealed, signing, vault, out)
    _told_copy(sealed, out, "auditor", as_json=as_json)


def _keep(sealed: Sealed, signing: SigningKey, vault: Path, out: Path) -> None:
    import secrets

    from statediff.errors import UsageError
    from statediff.evidence.vault import Vault, keep, kept_bytes
    from statediff.evidence.verify import SEALING, Signer
    from statediff.evidence.verify import verify as check
    from statediff.workspace.folders import write_file

    if out.exists():
        raise UsageError(f"{out} exists already; nothing is overwritten")
    own = Signer("the key at hand", signing.public, (SEALING,), None, None)
    kept = keep(sealed, check(sealed.files, (own,)), Vault(vault), secrets.token_bytes)
    write_file(out, kept_bytes(kept))


def verify(
    sealed: SealedArgument,
    trust: TrustOption,
    vault: VaultOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Check a sealed bundle: who signed it, and that nothing in it was changed.

    Exit code 0 if VALID; 3 if NOT_REPLAYABLE_AT_TIER (genuine, but parts that the decision rests
    on are withheld); 4 if INVALID.
    """
    from statediff.cli.output import emit, results, shown
    from statediff.errors import BundleError
    from statediff.evidence.keys import load_trust
    from statediff.evidence.verify import Rejected
    from statediff.evidence.verify import verify as check

    keys = load_trust(trust)
    try:
        found = check(load_copy(sealed, vault).files, keys)
    except (Rejected, BundleError) as error:
        if as_json:
            emit({"schema": VERIFICATION, "status": "INVALID", "why": str(error)})
            return 4
        raise BundleError(f"INVALID: {shown(sealed)}: {error}") from error
    if as_json:
        emit(_document(found))
    else:
        manifest = found.manifest
        lines = [
            f"{found.status}  {shown(sealed)}",
            f"signed by {', '.join(found.signers)}; sealed {manifest['sealed_at']}",
            f"{manifest['verdict']} under {manifest['contract']}@{manifest['contract_version']}",
            f"trial {manifest['trial']}, kernel {manifest['kernel']}",
            f"{len(found.disclosed)} of {manifest['tree']['leaves']} leaves disclosed",
        ]
        lines += [f"withheld: {count} {tag}" for tag, count in found.withheld.items()]
        results().print("\n".join(lines), soft_wrap=True)
    return 0 if found.status == "VALID" else WITHHELD


def redact(
    sealed: SealedArgument,
    tier: Annotated[Tier, typer.Option("--tier", help="Who the copy is for.")],
    trust: TrustOption,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="PATH", help="Where the copy goes: a folder, or a .zip."),
    ],
    vault: VaultOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Write the copy that a tier may see, under the same signature."""
    from statediff.errors import BundleError
    from statediff.evidence.keys import load_trust
    from statediff.evidence.seal import at_tier, save
    from statediff.evidence.seal import redact as without
    from statediff.evidence.verify import Rejected
    from statediff.evidence.verify import verify as check

    whole = load_copy(sealed, vault)
    try:
        found = check(whole.files, load_trust(trust))
    except Rejected as error:
        raise BundleError(f"INVALID: {sealed}: {error}") from error
    copy = without(whole, found, at_tier(tier.value))
    save(copy, out)
    _told_copy(copy, out, tier.value, as_json=as_json)


def _told_copy(sealed: Sealed, out: Path, tier: str, *, as_json: bool) -> None:
    from statediff.cli.output import emit, results, shown
    from statediff.evidence.verify import parse

    disclosed = parse(sealed.files["leaves.json"], "leaves.json")
    total = len(disclosed["disclosed"]) + len(disclosed["withheld"])
    if as_json:
        emit({
            "schema": "statediff/copy/1", "copy": shown(out), "tier": tier, "leaves": total,
            "disclosed": len(disclosed["disclosed"]),
        })  # fmt: skip
    else:
        results().print(
            f"{shown(out)}: the {tier} copy, {len(disclosed['disclosed'])} of {total} leaves",
            soft_wrap=True,
        )


def _document(found: Verified) -> dict[str, Any]:
    manifest = found.manifest
    return {
        "schema": VERIFICATION, "status": found.status, "signers": list(found.signers),
        "verdict": manifest["verdict"], "contract": manifest["contract"],
        "version": manifest["contract_version"], "trial": manifest["trial"],
        "kernel": manifest["kernel"], "sealed_at": manifest["sealed_at"],
        "root": manifest["tree"]["root"], "leaves": manifest["tree"]["leaves"],
        "disclosed": len(found.disclosed), "withheld": dict(found.withheld),
    }  # fmt: skip
