"""Users, groups, roles, policies, what opens the account, and sessions, as rows."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any, Final

from moto.sts.models import sts_backends

from statediff_cloud.policies import Statement, canonical, statements
from statediff_cloud.rows import (
    Rights,
    Rows,
    add_statements,
    at,
    digest,
    number,
    plain,
    quoted,
    rest,
    tags_of,
)

_COMMON: Final = (
    *("account_id", "region_name", "partition", "name", "id", "path", "create_date", "tags"),
    *("policies", "managed_policies"),
)
_OF_USER: Final = (
    *("mfa_devices", "access_keys", "ssh_public_keys", "signing_certificates"),
    *("password", "password_last_used", "password_reset_required"),
)
_OF_ROLE: Final = (
    *("assume_role_policy_document", "last_used", "last_used_region", "description"),
    *("permissions_boundary_arn", "max_session_duration", "_linked_service"),
)
"""Attributes that fields or types of their own show; what moto has beside them is in `other`."""
_ROUNDS: Final = 50_000


def add_identities(iam: Any, into: Rows, rights: Rights) -> None:
    """All of them, with their policies and what opens the account for them."""
    policy = iam.account_password_policy
    settings = {} if policy is None else plain(policy)
    row = {"id": rights.account, "aliases": list(iam.account_aliases), "password_policy": settings}
    into.add("account", row)
    _policies(iam, into, rights.account)
    for group in iam.groups.values():
        row = {"name": group.name, "arn": group.arn, "id": group.id}
        row["other"] = rest(group, *_COMMON, "users")
        into.add("group", {**row, "created_at": at(group.create_date)})
        _held(f"group/{group.name}", group, into, rights)
        for member in group.users:
            into.add("membership", {"group": group.name, "user": member.name})
    for user in iam.users.values():
        row = {"name": user.name, "arn": user.arn, "id": user.id, "tags": tags_of(user.tags)}
        row["other"] = rest(user, *_COMMON, *_OF_USER)
        into.add("user", {**row, "created_at": at(user.create_date)})
        _credentials(user, into)
        own = _held(f"user/{user.name}", user, into, rights)
        for group in iam.groups.values():
            if any(member is user for member in group.users):
                own += _held(f"group/{group.name}", group, Rows(), rights)
        rights.identity[f"user/{user.name}"] = own
    for group in iam.groups.values():  # a group is no principal
        rights.identity.pop(f"group/{group.name}", None)
    _roles(iam, into, rights)
    _others(iam, into)


def _held(holder: str, owner: Any, into: Rows, rights: Rights) -> list[Statement]:
    """The policies of a user, a group or a role; the statements that are in force."""
    found: list[Statement] = []
    for name, document in owner.policies.items():
        text = document if isinstance(document, str) else canonical(plain(document))
        into.add("inline_policy", {"holder": holder, "name": name, "document": text})
        found += add_statements(f"{holder}/{quoted(name)}", text, into, rights.account)
    for policy in owner.managed_policies.values():
        into.add("attachment", {"holder": holder, "policy": policy.name})
        for version in policy.versions:
            if version.version_id == policy.default_version_id:
                place = f"policy/{policy.name}:{version.version_id}"
                found += statements(place, version.document, rights.account)
    return found


def _policies(iam: Any, into: Rows, account: str) -> None:
    for policy in iam.managed_policies.values():
        row = {
            "name": policy.name,
            "arn": policy.arn,
            "description": policy.description,
            "default_version": policy.default_version_id,
            "created_at": at(policy.create_date),
            "tags": tags_of(policy.tags.values()),
        }
        into.add("policy", row)
        for version in policy.versions:
            row = {
                "policy": policy.name,
                "version": version.version_id,
                "document": version.document,
                "created_at": at(version.create_date),
            }
            into.add("policy_version", row)
            place = f"policy/{policy.name}:{version.version_id}"
            add_statements(place, version.document, into, account)


def _credentials(user: Any, into: Rows) -> None:
    def add(kind: str, name: str, status: str | None, digest: str | None = None) -> None:
        row = {"user": user.name, "kind": kind, "id": name, "status": status, "digest": digest}
        into.add("credential", row)

    for key in user.access_keys:
        row = {"id": key.access_key_id, "user": user.name, "status": key.status}
        into.add("access_key", {**row, "created_at": at(key.create_date)})
    if user.password is not None:
        status = "to be changed" if user.password_reset_required else None
        add("password", "", status, _stretched(str(user.password), user.id))
    for key in user.ssh_public_keys:
        add("ssh-key", key.ssh_public_key_id, key.status, digest(key.ssh_public_key_body))
    for name, each in user.signing_certificates.items():
        add("certificate", name, each.status, digest(each.body))
    for name in user.mfa_devices:
        add("mfa-device", name, None)


@lru_cache(maxsize=256)
def _stretched(password: str, salt: str) -> str:
    """A digest that differs for another password, and makes guessing it slow."""
    made = hashlib.pbkdf2_hmac(
        "sha256", password.encode(errors="surrogatepass"), salt.encode(), _ROUNDS
    )
    return made.hex()


def _roles(iam: Any, into: Rows, rights: Rights) -> None:
    for role in iam.roles.values():
        holder, trust = f"role/{role.name}", role.assume_role_policy_document
        text = trust if isinstance(trust, str) else canonical(plain(trust))
        row = {
            "name": role.name,
            "arn": role.arn,
            "id": role.id,
            "description": role.description or None,
            "max_session_seconds": number(role.max_session_duration),
            "boundary": role.permissions_boundary_arn or None,
            "service": role._linked_service,  # noqa: SLF001 - it has no other name
            "trust": text,
            "created_at": at(role.create_date),
            "tags": tags_of(role.tags),
            "other": rest(role, *_COMMON, *_OF_ROLE),
        }
        into.add("role", row)
        rights.identity[holder] = _held(holder, role, into, rights)
        rights.trust[role.arn] = add_statements(f"{holder}:trust", text, into, rights.account)
        rights.roles[role.arn] = holder


def _others(iam: Any, into: Rows) -> None:
    for profile in iam.instance_profiles.values():
        row = {"name": profile.name, "arn": profile.arn, "tags": tags_of(profile.tags)}
        into.add("instance_profile", {**row, "roles": sorted(r.name for r in profile.roles)})
    for kind, providers in (("saml", iam.saml_providers), ("oidc", iam.open_id_providers)):
        for each in providers.values():
            settings = plain({n: v for n, v in vars(each).items() if not n.startswith("_")})
            into.add("identity_provider", {"arn": each.arn, "kind": kind, "settings": settings})
    for device in iam.virtual_mfa_devices.values():
        row = {"user": "", "kind": "virtual-mfa-device", "id": device.serial_number}
        into.add("credential", {**row, "status": None, "digest": None})
    for held in iam.certificates.values():
        made = digest(f"{held.cert_body}\n{held.cert_chain}\n{held.private_key}")
        into.add("server_certificate", {"name": held.cert_name, "arn": held.arn, "digest": made})


def add_sessions(into: Rows) -> None:
    """Who has entered a role, until when."""
    for accounts in sts_backends.values():
        for backend in accounts.values():
            for each in backend.assumed_roles:
                row = {
                    "id": each.access_key_id,
                    "role": each.role_arn,
                    "name": each.session_name,
                    "expires_at": at(each.expiration),
                    "policy": each.policy,
                }
                into.add("session", row)
