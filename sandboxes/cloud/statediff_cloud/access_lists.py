"""Access lists of buckets and objects: who is meant, and what a grant allows."""

from __future__ import annotations

from typing import Final

from statediff_cloud.policies import ANYBODY, Grant

_GROUPS: Final = {
    "http://acs.amazonaws.com/groups/global/AllUsers": ANYBODY,
    "http://acs.amazonaws.com/groups/global/AuthenticatedUsers": "any-account",
    "http://acs.amazonaws.com/groups/s3/LogDelivery": "service/log-delivery",
}
_BY_LIST: Final = {
    "READ": ("s3:GetObject",),
    "READ_ACP": ("s3:GetObjectAcl",),
    "WRITE_ACP": ("s3:PutObjectAcl",),
    "FULL_CONTROL": ("s3:GetObject", "s3:GetObjectAcl", "s3:PutObjectAcl"),
}
_BY_BUCKET_LIST: Final = {
    "READ": ("s3:ListBucket",),
    "WRITE": ("s3:PutObject", "s3:DeleteObject"),
    "READ_ACP": ("s3:GetBucketAcl",),
    "WRITE_ACP": ("s3:PutBucketAcl",),
    "FULL_CONTROL": (
        *("s3:ListBucket", "s3:PutObject", "s3:DeleteObject"),
        *("s3:GetBucketAcl", "s3:PutBucketAcl"),
    ),
}


def grantee_of(uri: str | None, canonical: str | None, owner: str | None) -> str:
    """Whom a grant means: a group that all know, the owner, or a canonical user."""
    if uri:
        return _GROUPS.get(uri, uri)
    return "owner" if canonical == owner else f"canonical/{canonical}"


def is_heeded(grantee: str, ignores_public: bool) -> bool:
    """True if an access list's grant is heeded."""
    return grantee != "owner" and not (grantee in (ANYBODY, "any-account") and ignores_public)


def by_object_list(grantee: str, permission: str, arn: str) -> list[Grant]:
    """The grants of an entry in an object's access list."""
    return [Grant(grantee, action, arn, "") for action in _BY_LIST.get(permission, ())]


def by_bucket_list(grantee: str, permission: str, arn: str) -> list[Grant]:
    """The grants of an entry in a bucket's access list, on it or on what is in it."""
    return [
        Grant(grantee, action, f"{arn}/*" if action.endswith("Object") else arn, "")
        for action in _BY_BUCKET_LIST.get(permission, ())
    ]
