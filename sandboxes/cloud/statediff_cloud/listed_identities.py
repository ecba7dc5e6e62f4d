"""Users, groups, roles, policies and what opens an account, as its API lists them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from statediff.model.values import Unobserved
from statediff.systems.hosted.listed import Listing, rest
from statediff_cloud.asked import Asked
from statediff_cloud.policies import Statement, canonical
from statediff_cloud.rows import Rights, add_statements, digest, quoted, tags_of
from statediff_cloud.types import IDENTITY_TYPES, RESULT_TYPES

_ALL: Final = (*IDENTITY_TYPES, *RESULT_TYPES)
_OF_ALL: Final = ("Arn", "CreateDate", "Path", "Tags", "AttachedManagedPolicies")
_DETAILS: Final = ("UserDetailList", "GroupDetailList", "RoleDetailList", "Policies")
_LINKED: Final = "/aws-service-role/"


def add_identities(asked: Asked, into: Listing, rights: Rights) -> None:
    """All of them, with their policies and what opens the account for them."""
    _account(asked, into, rights.account)
    found: dict[str, list[Mapping[str, Any]]] = {name: [] for name in _DETAILS}
    for page in asked.pages("get_account_authorization_details", *_ALL):
        for name in _DETAILS:
            found[name] += page.get(name) or ()
    in_force = _policies(found["Policies"], into, rights.account)
    groups: dict[str, list[Statement]] = {}
    for group in found["GroupDetailList"]:
        name = group["GroupName"]
        row = {"name": name, "arn": group["Arn"], "id": group["GroupId"]}
        known: tuple[str, ...] = ("GroupName", "GroupId", "GroupPolicyList", *_OF_ALL)
        row |= {"created_at": group["CreateDate"], "other": rest(group, *known)}
        into.add("group", row)
        groups[name] = _held(
            f"group/{name}", group, group["GroupPolicyList"], into, rights, in_force
        )
    for user in found["UserDetailList"]:
        name = user["UserName"]
        row = {"name": name, "arn": user["Arn"], "id": user["UserId"]}
        known = ("UserName", "UserId", "UserPolicyList", "GroupList", *_OF_ALL)
        row |= {"created_at": user["CreateDate"], "tags": tags_of(user.get("Tags"))}
        into.add("user", {**row, "other": rest(user, *known)})
        held = user.get("UserPolicyList") or ()
        own = _held(f"user/{name}", user, held, into, rights, in_force)
        for group in user.get("GroupList") or ():
            into.add("membership", {"group": group, "user": name})
            own = [*own, *groups.get(group, ())]
        rights.identity[f"user/{name}"] = own
        _credentials(asked, name, into)
    _roles(asked, found["RoleDetailList"], into, rights, in_force)
    _others(asked, into)


def _account(asked: Asked, into: Listing, account: str) -> None:
    aliases = list(asked.each("list_account_aliases", "AccountAliases", "account"))
    policy = asked.one("get_account_password_policy", "account")
    settings = policy["PasswordPolicy"] if isinstance(policy, dict) else policy or {}
    into.add("account", {"id": account, "aliases": aliases, "password_policy": settings})


def text_of(document: Any) -> str:
    """A policy document as text; boto3 gives one that is JSON as objects."""
    return document if isinstance(document, str) else canonical(document)


def _policies(
    listed: Iterable[Mapping[str, Any]], into: Listing, account: str
) -> dict[str, tuple[Statement, ...]]:
    """ARN → the statements of the version that is in force."""
    in_force = {}
    for policy in listed:
        name = policy["Arn"].rpartition("/")[2]  # moto gives no other
        row = {
            "name": name,
            "arn": policy["Arn"],
            "description": policy.get("Description"),
            "default_version": policy["DefaultVersionId"],
            "created_at": policy["CreateDate"],
            "tags": tags_of(policy.get("Tags")),
        }
        into.add("policy", row)
        for version in policy.get("PolicyVersionList") or ():
            document = text_of(version["Document"])
            row = {"policy": name, "version": version["VersionId"], "document": document}
            into.add("policy_version", {**row, "created_at": version["CreateDate"]})
            place = f"policy/{name}:{version['VersionId']}"
            found = add_statements(place, document, into, account)
            if version["VersionId"] == policy["DefaultVersionId"]:
                in_force[policy["Arn"]] = found
    return in_force


def _held(
    holder: str,
    owner: Mapping[str, Any],
    inline: Iterable[Mapping[str, Any]],
    into: Listing,
    rights: Rights,
    in_force: Mapping[str, tuple[Statement, ...]],
) -> list[Statement]:
    """The policies of a user, a group or a role; the statements that are in force."""
    found: list[Statement] = []
    for each in inline:
        text = text_of(each["PolicyDocument"])
        into.add("inline_policy", {"holder": holder, "name": each["PolicyName"], "document": text})
        found += add_statements(
            f"{holder}/{quoted(each['PolicyName'])}", text, into, rights.account
        )
    for each in owner.get("AttachedManagedPolicies") or ():
        into.add("attachment", {"holder": holder, "policy": each["PolicyName"]})
        found += in_force.get(each["PolicyArn"], ())
        if each["PolicyArn"] not in in_force:
            into.miss(f"the account does not list {each['PolicyArn']}", *RESULT_TYPES)
    return found


def _credentials(asked: Asked, user: str, into: Listing) -> None:
    def add(kind: str, name: str, status: str | None, shown: str | Unobserved | None) -> None:
        row = {"user": user, "kind": kind, "id": name, "status": status, "digest": shown}
        into.add("credential", row)

    for key in asked.each("list_access_keys", "AccessKeyMetadata", "access_key", UserName=user):
        row = {"id": key["AccessKeyId"], "user": user, "status": key["Status"]}
        into.add("access_key", {**row, "created_at": key["CreateDate"]})
    profile = asked.one("get_login_profile", "credential", UserName=user)
    if isinstance(profile, dict):
        must = profile["LoginProfile"].get("PasswordResetRequired")
        add("password", "", "to be changed" if must else None, None)
    for key in asked.each("list_ssh_public_keys", "SSHPublicKeys", "credential", UserName=user):
        named = {"UserName": user, "SSHPublicKeyId": key["SSHPublicKeyId"], "Encoding": "SSH"}
        whole = asked.one("get_ssh_public_key", "credential", **named)
        body = (
            digest(whole["SSHPublicKey"]["SSHPublicKeyBody"]) if isinstance(whole, dict) else whole
        )
        add("ssh-key", key["SSHPublicKeyId"], key["Status"], body)
    listed = ("list_signing_certificates", "Certificates", "credential")
    for each in asked.each(*listed, UserName=user):
        add("certificate", each["CertificateId"], each["Status"], digest(each["CertificateBody"]))
    for each in asked.each("list_mfa_devices", "MFADevices", "credential", UserName=user):
        add("mfa-device", each["SerialNumber"], None, None)


def _roles(
    asked: Asked,
    details: Iterable[Mapping[str, Any]],
    into: Listing,
    rights: Rights,
    in_force: Mapping[str, tuple[Statement, ...]],
) -> None:
    listed = {each["RoleName"]: each for each in asked.each("list_roles", "Roles", *_ALL)}
    for role in details:
        name, holder = role["RoleName"], f"role/{role['RoleName']}"
        more = listed.get(name, {})
        trust, path = text_of(role["AssumeRolePolicyDocument"]), role["Path"]
        known = (
            *("RoleName", "RoleId", "AssumeRolePolicyDocument", "InstanceProfileList"),
            *("RolePolicyList", "RoleLastUsed", "PermissionsBoundary", *_OF_ALL),
        )
        row = {
            "name": name,
            "arn": role["Arn"],
            "id": role["RoleId"],
            "description": more.get("Description") or None,
            "max_session_seconds": more.get("MaxSessionDuration"),
            "boundary": (role.get("PermissionsBoundary") or {}).get("PermissionsBoundaryArn"),
            "service": path.removeprefix(_LINKED).strip("/") if path.startswith(_LINKED) else None,
            "trust": trust,
            "created_at": role["CreateDate"],
            "tags": tags_of(role.get("Tags")),
            "other": rest(role, *known),
        }
        into.add("role", row)
        held = role.get("RolePolicyList") or ()
        rights.identity[holder] = _held(holder, role, held, into, rights, in_force)
        rights.trust[role["Arn"]] = add_statements(f"{holder}:trust", trust, into, rights.account)
        rights.roles[role["Arn"]] = holder


def _others(asked: Asked, into: Listing) -> None:
    for each in asked.each("list_instance_profiles", "InstanceProfiles", "instance_profile"):
        row = {"name": each["InstanceProfileName"], "arn": each["Arn"]}
        roles = sorted(role["RoleName"] for role in each.get("Roles") or ())
        into.add("instance_profile", {**row, "roles": roles, "tags": tags_of(each.get("Tags"))})
    of = "identity_provider"
    for each in asked.each("list_saml_providers", "SAMLProviderList", of):
        whole = asked.one("get_saml_provider", of, SAMLProviderArn=each["Arn"])
        into.add(of, {"arn": each["Arn"], "kind": "saml", "settings": whole or {}})
    for each in asked.each("list_open_id_connect_providers", "OpenIDConnectProviderList", of):
        named = {"OpenIDConnectProviderArn": each["Arn"]}
        whole = asked.one("get_open_id_connect_provider", of, **named)
        into.add(of, {"arn": each["Arn"], "kind": "oidc", "settings": whole or {}})
    for each in asked.each("list_virtual_mfa_devices", "VirtualMFADevices", "credential"):
        row = {"user": "", "kind": "virtual-mfa-device", "id": each["SerialNumber"]}
        into.add("credential", {**row, "status": None, "digest": None})
    of, listed = "server_certificate", "ServerCertificateMetadataList"
    for each in asked.each("list_server_certificates", listed, of):
        name = each["ServerCertificateName"]
        whole = asked.one("get_server_certificate", of, ServerCertificateName=name)
        shown = whole["ServerCertificate"] if isinstance(whole, dict) else {}
        body = digest(f"{shown.get('CertificateBody')}\n{shown.get('CertificateChain')}")
        into.add(of, {"name": name, "arn": each["Arn"], "digest": body if shown else whole})
