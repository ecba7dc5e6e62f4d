"""`keygen`, `sign`, `verify`, `redact` and `raw`: copies under one signature."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import ValidationError

from statediff.atomic import write_atomically
from statediff.cli.evidence.batches import RolloutOptions, verify_batch
from statediff.cli.evidence.beside import BesideOptions
from statediff.cli.options import (
    BundleArgument,
    IdentityOption,
    JsonFlag,
    KeyOption,
    Tier,
    TrustOption,
    VaultOption,
    argument,
    flag,
    opt,
    option,
)
from statediff.cli.output import emit, note, print_result
from statediff.errors import BundleError, StorageError, UsageError
from statediff.evidence.demands import Demands, read_policy
from statediff.evidence.disclosure.settings import read_settings
from statediff.evidence.keys import (
    SigningKey,
    add_trust,
    generate,
    load_key,
    load_trust,
    passphrase,
    trust_entry,
)
from statediff.evidence.package import UNDISCLOSED as MEMBER
from statediff.evidence.package import Bundle
from statediff.evidence.raw import decrypted
from statediff.evidence.seal import (
    SEED_BYTES,
    Sealed,
    at_tier,
    check_promise,
    cosigned,
    is_sealed,
    reviewed,
    save,
    seal,
    signatures,
)
from statediff.evidence.seal import redact as redact_leaves
from statediff.evidence.vault import SUFFIX, Vault, keep, kept_bytes
from statediff.evidence.verify import (
    OBSERVATION,
    UNDISCLOSED,
    Rejected,
    Verified,
    canonical,
    key_id,
    parse,
)
from statediff.evidence.verify import RAW as RAW_LEAF
from statediff.evidence.verify import verify as check
from statediff.kernel import replay
from statediff.model.values import printable
from statediff.workspace.bundles import (
    is_batch,
    load_bundle,
    load_copy,
    raw_pieces,
    read_file,
    unseal,
    verifying,
)
from statediff.workspace.folders import shown, write_file
from statediff.workspace.logs.files import states_facts
from statediff.workspace.rechecking import is_ending_open, unbound

KEYS: Final = "statediff/key/1"
COPY: Final = "statediff/copy/1"
VERIFICATION: Final = "statediff/verification/1"
RAW: Final = "statediff/raw-captures/1"
WITHHELD: Final = 3
NOBODY: Final = (
    "what the bundle does not show of the run ({count} values) is in no copy, so nobody can replay "
    "one; name who may, with --raw-to age1…"
)

SealedArgument = Annotated[Path, argument("SEALED", "A sealed bundle: its folder or its zip.")]
SealTrustOption = Annotated[
    Path,
    option(
        "FILE",
        "The trust file: whose keys count, and as what; or a folder of TUF metadata.",
        "--trust",
    ),
]


class Role(StrEnum):
    """The work that a key is trusted to do."""

    EVALUATOR = "evaluator"
    REVIEWER = "reviewer"
    WITNESS = "witness"
    OBSERVER = "observer"


def keygen(
    key: Annotated[Path, argument("KEY", "Where the secret key goes.")],
    name: Annotated[str, option("NAME", "Whose key it is, in the trust file.", "--name")],
    trust: Annotated[Path, option("FILE", "The trust file the key is added to.", "--trust")] = Path(
        "trust.json"
    ),
    role: Annotated[
        list[Role] | None, option("", "What it is trusted to do; may be given again.", "--role")
    ] = None,
    *,
    encrypt: Annotated[
        bool, option("", "Encrypt it with a passphrase, which is asked for.", "--encrypt")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Make a key to sign with, and add its public half to a trust file."""
    if trust.exists():
        load_trust(trust)  # a broken one is found before a key lies about
    made = generate(key, passphrase(key, is_new=True) if encrypt else None)
    roles = [each.value for each in role or [Role.EVALUATOR]]
    try:
        add_trust(trust, trust_entry(name, made.public, roles))
    except BaseException:
        key.unlink()
        raise
    print_result(
        {
            "schema": KEYS,
            "key": shown(key),
            "trust": shown(trust),
            "name": name,
            "roles": roles,
            "keyid": key_id(made.public),
        },
        f"key {shown(key)} for {name}, readable by you only; keep it where no agent runs\n"
        f"{shown(trust)} trusts it as {', '.join(roles)}; give that file to everybody who verifies",
        as_json=as_json,
    )


@dataclass(frozen=True, kw_only=True)
class CosignOptions:
    """The options for signing a sealed copy too."""

    trust: Path | None = opt("FILE", "To sign a sealed copy too: whose keys count.")
    identity: IdentityOption = None


@dataclass(frozen=True, kw_only=True)
class SealedBeside:
    """The files sealed beside the bundle's own leaves, and the fields that reviewers may see."""

    raw: list[Path] | None = opt("FILE", "A raw capture for auditors; repeatable.")
    raw_to: list[str] | None = opt("RECIPIENT", "Who can read it (age); repeatable.")
    disclosure: Path | None = opt("FILE", "Which fields reviewers may see.")


def sign(
    bundle: BundleArgument,
    key: KeyOption,
    out: Annotated[
        Path,
        option("PATH", "Where the copy goes: a folder, a .zip, or with --vault a .kept.", "--out"),
    ],
    copy: CosignOptions,
    beside: SealedBeside,
    vault: Annotated[
        Path | None, option("DIR", "Encrypt what may have to go; keys go there.", "--vault")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Seal a bundle: replay it, cut it into salted leaves, and sign the tree over them.

    A sealed copy gets one signature more, where its trust file has a threshold.
    """
    if (vault is None) == (out.suffix == SUFFIX):
        raise UsageError(f"--vault and an --out that ends in {SUFFIX} go together")
    signing = load_key(key)
    if is_sealed(bundle):
        if beside != SealedBeside() or vault is not None:
            raise UsageError(f"{shown(bundle)}: is sealed; it takes another signature alone")
        _print_copy(_cosign(bundle, signing, copy, out), out, "auditor", as_json=as_json)
        return
    if copy != CosignOptions():
        raise UsageError("--trust and --identity are for signing a sealed copy too; this is none")
    sealed = _seal(bundle, signing, beside)
    if vault is None:
        save(sealed, out, is_private=True)
    else:
        _keep(sealed, vault, out)
    _print_copy(sealed, out, "auditor", as_json=as_json)


def _seal(bundle: Path, signing: SigningKey, beside: SealedBeside) -> Sealed:
    settings, recipients = read_settings(beside.disclosure), beside.raw_to or []
    found, _folder = load_bundle(bundle)
    replay(found)  # nobody puts a name to a verdict that does not follow from its evidence
    _require_other(found, signing)
    check_promise(found, settings.replayable)
    now = datetime.now(UTC).replace(microsecond=0)
    seed = secrets.token_bytes(SEED_BYTES)
    pieces = [
        *raw_pieces(found, beside.raw or [], recipients),
        *reviewed(found, signing.sign, settings),
    ]
    sealed = seal(found, seed, now, signing.public, signing.sign, pieces)
    if found.undisclosed is None or recipients:
        return sealed
    note(NOBODY.format(count=found.manifest[MEMBER]["values"]))
    return redact_leaves(sealed, _own(sealed), lambda leaf: leaf.tag != UNDISCLOSED)


def _require_other(bundle: Bundle, signing: SigningKey) -> None:
    """Refuse the key that observed the trial: no verifier takes its seal. `UsageError`."""
    if OBSERVATION not in bundle.files:
        return
    [signature] = bundle.document(OBSERVATION)["envelope"]["signatures"]
    if signature["keyid"] == key_id(signing.public):
        raise UsageError("this key observed the trial; another one has to seal it")


def _own(sealed: Sealed) -> Verified:
    """The copy that was sealed just now, by nobody else; no observer's key is at hand to check."""
    leaves, manifest = (parse(sealed.files[n], n) for n in ("leaves.json", "manifest.json"))
    disclosed = tuple(map(canonical, leaves["disclosed"]))
    return Verified("VALID", manifest, disclosed, tuple(leaves["withheld"]), {}, ())


def _cosign(bundle: Path, signing: SigningKey, options: CosignOptions, out: Path) -> Sealed:
    """The sealed copy with one signature more, by somebody who replayed it too."""
    if options.trust is None:
        raise UsageError(f"{shown(bundle)}: is sealed; say with --trust FILE whose keys count")
    sealed = load_copy(bundle, None)
    count = signatures(sealed)
    keys = tuple(replace(each, needed=count) for each in load_trust(options.trust))
    with verifying(bundle):
        replay(bundle_of := unseal(check(sealed.files, keys), options.identity))
    _require_other(bundle_of, signing)
    copy = cosigned(sealed, signing.public, signing.sign)
    save(copy, out, is_private=True)
    return copy


def _keep(sealed: Sealed, vault: Path, out: Path) -> None:
    if out.exists():
        raise UsageError(f"{out} exists already; nothing is overwritten")
    kept = keep(sealed, _own(sealed), Vault(vault), secrets.token_bytes)
    write_file(out, kept_bytes(kept), mode=0o600)


@dataclass(frozen=True, kw_only=True)
class DemandOptions:
    """Demands on a copy, beyond that it is genuine."""

    contract: str | None = opt("DIGEST", "SHA-256 of the contract's bytes.")
    min_kernel: int | None = opt("N", "The oldest kernel that counts.")
    isolation: str | None = opt("KIND", "How the program must be kept apart.")
    bound: bool = flag("All that was judged of states is under state roots.")
    observed: bool = flag("As --bound; and an observer signed what was judged, by another key.")
    policy: Path | None = opt("FILE", "YAML with any of these five demands.")

    def unmet(self, found: Verified, unbound: Sequence[str]) -> list[str]:
        """Each demand that the copy does not show that it meets. `UsageError`."""
        try:
            said = {name: each for name, each in vars(self).items() if name != "policy"}
            own = Demands(**said)
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0]).replace("_", "-")
            raise UsageError(f"--{name}: {first['msg']}") from None
        read = () if self.policy is None else (read_policy(self.policy),)
        unmet = [each for demands in (own, *read) for each in demands.unmet(found)]
        if any(demands.bound or demands.observed for demands in (own, *read)):
            unmet += [f"under no state root: {each}" for each in unbound]
        if any(demands.observed for demands in (own, *read)) and is_ending_open(found):
            unmet.append("the contract asks how the run ended, and the bundle does not say it")
        return unmet


def verify(
    sealed: SealedArgument,
    trust: SealTrustOption,
    vault: VaultOption = None,
    log: Annotated[
        Path | None, option("LOG", "Say whether its state roots were there first.", "--log")
    ] = None,
    *,
    demands: DemandOptions,
    beside: BesideOptions,
    rollouts: RolloutOptions,
    as_json: JsonFlag = False,
) -> int:
    """Check a sealed bundle, or a batch: who signed it, and that nothing in it was changed.

    Exit code 0 if VALID; 3 if NOT_REPLAYABLE_AT_TIER (genuine, but parts that the decision rests
    on are withheld); 4 if INVALID, or UNMET (genuine, but not what was demanded).
    """
    if is_batch(sealed):
        is_bare = demands == DemandOptions() and beside == BesideOptions()
        if not is_bare or vault is not None or log is not None:
            raise UsageError("of a batch, `verify` takes --trust, --rollout and --every")
        return verify_batch(sealed, trust, rollouts, as_json=as_json)
    rollouts.require_none()
    keys = load_trust(trust)
    try:
        copy = load_copy(sealed, vault)
        found = check(copy.files, keys)
        facts = beside.facts(copy, found, keys)
    except (Rejected, BundleError) as error:
        if as_json:
            emit({"schema": VERIFICATION, "status": "INVALID", "why": str(error)})
            return 4
        raise BundleError(printable(f"INVALID: {shown(sealed)}: {error}")) from error
    loose = unbound(found)
    unmet = [*demands.unmet(found, loose), *beside.unmet(found, facts)]
    status = "UNMET" if unmet else found.status
    more = states_facts(found, log)
    lines = [f"{status}  {shown(sealed)}", *_sealed_lines(found)]
    lines += [f"unmet: {each}" for each in unmet]
    lines += observed_lines(found)
    lines += states_lines(found, more)
    if found.states is not None:
        lines += [f"under no state root: {each}; see `replay --chunks`" for each in loose]
    lines += [*beside.lines(facts), LIMITS]
    document = {**_document(found), **more, **facts, "status": status, "unmet": unmet}
    document["unbound"] = loose
    print_result(document, "\n".join(map(printable, lines)), as_json=as_json)
    if unmet:
        return 4
    return 0 if found.status == "VALID" else WITHHELD


def _sealed_lines(found: Verified) -> Iterator[str]:
    """Who sealed what verdict of which trial, and how much of the copy is withheld."""
    manifest = found.manifest
    yield f"signed by {', '.join(found.signers)}; sealed {manifest['sealed_at']}"
    yield f"{manifest['verdict']} under {manifest['contract']}@{manifest['contract_version']}"
    yield f"trial {manifest['trial']}, kernel {manifest['kernel']}"
    yield f"{len(found.disclosed)} of {manifest['tree']['leaves']} leaves disclosed"
    yield from (f"withheld: {count} {tag}" for tag, count in found.withheld.items())
    if any(leaf.tag == UNDISCLOSED for leaf in found.leaves):
        yield "encrypted to auditors: what it does not show of the run; `replay` needs --identity"


LIMITS: Final = "not shown by this: that the source, the clock and the signer said the truth"
"""The limits of a signature, in a line; docs/trust.md has all of it."""


def observed_lines(found: Verified) -> Iterator[str]:
    """Who, beside the signer of the seal, signed which parts of the trial before it was judged."""
    observed = found.observed
    if observed is None:
        yield "observed by nobody with a key of their own, or this copy does not show it"
        return
    yield f"observed by {observed.signer} at {observed.at.isoformat()}: {', '.join(observed.shown)}"
    for name, which, count in observed.of_several:
        yield f"{name}: {which} of the {count} that were signed"
    if observed.withheld:
        yield f"observed, and not shown by this copy: {', '.join(observed.withheld)}"
    known = sorted((observed.agent or {}).items())
    yield from (f"agent: {name} {value or 'not known'}" for name, value in known)


def states_lines(found: Verified, facts: Mapping[str, Any]) -> list[str]:
    """The state roots and the judging modules that the copy binds, and if a log had them first."""
    states = facts["states"]
    if states is None:
        if found.status != "VALID":
            return ["state roots: not looked at, for parts of the evidence are withheld"]
        return ["state roots: none; an older bundle binds its judgement, not what was captured"]
    lines = [f"state root {side}: {root}" for side, root in states.items()]
    judged = facts["judged_by"]
    lines.append(f"contract sha256:{judged['contract']}, judging modules {judged['modules']}")
    logged = facts["logged"]
    if logged is None:
        return [*lines, "state roots in a log before judging: not asked; name one with --log"]
    entry, verdict = logged["entry"], logged["verdict"]
    if facts["made_again"]:
        others = ", ".join(str(each) for each in facts["made_again"])
        lines.append(f"made more than once: the log has state roots of this trial at {others}")
    if entry is None:
        return [*lines, "state roots in a log before judging: no, they are not in this log"]
    if verdict is not None and verdict < entry:
        late = f"no, entry {entry} comes after a verdict on this trial, entry {verdict}"
        return [*lines, f"state roots in a log before judging: {late}"]
    then = "" if verdict is None else f", before its verdict, entry {verdict}"
    return [*lines, f"state roots in a log before judging: yes, entry {entry}{then}"]


def redact(
    sealed: SealedArgument,
    tier: Annotated[Tier, option("", "Who the copy is for.", "--tier")],
    trust: SealTrustOption,
    out: Annotated[Path, option("PATH", "Where the copy goes: a folder, or a .zip.", "--out")],
    vault: VaultOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Write the copy that a tier may see, under the same signature."""
    whole = load_copy(sealed, vault)
    with verifying(sealed):
        found = check(whole.files, load_trust(trust))
    copy = redact_leaves(whole, found, at_tier(tier.value))
    save(copy, out, is_private=tier.value == "auditor")
    _print_copy(copy, out, tier.value, as_json=as_json)


def _print_copy(sealed: Sealed, out: Path, tier: str, *, as_json: bool) -> None:
    disclosed = parse(sealed.files["leaves.json"], "leaves.json")
    open_leaves = len(disclosed["disclosed"])
    total = open_leaves + len(disclosed["withheld"])
    copy = {"schema": COPY, "copy": shown(out), "tier": tier, "leaves": total}
    text = f"{shown(out)}: the {tier} copy, {open_leaves} of {total} leaves"
    print_result({**copy, "disclosed": open_leaves}, text, as_json=as_json)


def _document(found: Verified) -> dict[str, Any]:
    manifest = found.manifest
    return {
        "schema": VERIFICATION,
        "status": found.status,
        "signers": list(found.signers),
        "verdict": manifest["verdict"],
        "contract": manifest["contract"],
        "version": manifest["contract_version"],
        "trial": manifest["trial"],
        "kernel": manifest["kernel"],
        "sealed_at": manifest["sealed_at"],
        "root": manifest["tree"]["root"],
        "leaves": manifest["tree"]["leaves"],
        "disclosed": len(found.disclosed),
        "withheld": dict(found.withheld),
        "observed": None
        if found.observed is None
        else {**vars(found.observed), "at": found.observed.at.isoformat()},
    }


def raw(
    sealed: Annotated[Path, argument("SEALED", "An auditor's copy: folder, zip or .kept.")],
    trust: TrustOption,
    identity: Annotated[Path, option("FILE", "The auditor's age identity.", "--identity")],
    out: Annotated[Path, option("DIR", "A new folder for them.", "--out")],
    vault: VaultOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Decrypt the raw captures of an auditor's copy, and what it does not show of the run.

    Each is checked against the signature.
    """
    with verifying(sealed):
        found = check(load_copy(sealed, vault).files, load_trust(trust))
    leaves = [leaf for leaf in found.leaves if leaf.tag in (RAW_LEAF, UNDISCLOSED)]
    if not leaves:
        raise UsageError(f"{shown(sealed)}: holds no raw captures; only auditors' copies may")
    told = read_file(identity).decode("utf-8", errors="replace")
    contents = [decrypted(leaf, told) for leaf in sorted(leaves, key=lambda leaf: leaf.path)]
    for name, _ in contents:
        if Path(name).name != name or name.startswith("."):
            raise BundleError(f"{name!r} is no name of a raw capture")
    try:
        out.mkdir(mode=0o700, parents=True)
        for name, content in contents:
            write_atomically(out / name, content, mode=0o600, exclusive=True)
    except OSError as error:
        raise StorageError(f"{shown(out)}: cannot be written: {error.strerror}") from error
    document = {"schema": RAW, "folder": shown(out), "names": [name for name, _ in contents]}
    print_result(document, f"{shown(out)}: raw captures: {len(contents)}", as_json=as_json)
