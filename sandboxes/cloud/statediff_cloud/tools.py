"""Tools of an agent for an account of AWS: objects, settings of buckets, identities, queues.

The server decides what the agent's key allows. A tool says of what class a call is; where one tool
does several things, their names decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote
from xml.etree import ElementTree as ET

from pydantic import Field

from statediff.model.trace import ActionClass
from statediff.systems.base.tool import (
    MAX_TEXT,
    Arguments,
    Done,
    Tool,
    ToolError,
    tool_name,
)
from statediff_cloud.signing import Signed

ACCOUNT: Final = "123456789012"
Name = Annotated[str, Field(min_length=1, max_length=256)]
Key = Annotated[str, Field(min_length=1, max_length=1024)]
Setting = Literal[
    "acl",
    "cors",
    "encryption",
    "lifecycle",
    "notification",
    "ownershipControls",
    "policy",
    "publicAccessBlock",
    "tagging",
    "versioning",
    "website",
]
_RIGHTS: Final = frozenset({"acl", "ownershipControls", "policy", "publicAccessBlock"})


class Listed(Arguments):
    """Objects of a bucket whose keys begin in the same way."""

    bucket: Name
    prefix: str = Field(default="", max_length=1024)
    versions: bool = Field(default=False, description="All versions and delete markers.")


class Read(Arguments):
    """An object, or one version of it."""

    bucket: Name
    key: Key
    version: str | None = Field(default=None, max_length=100)


class Written(Arguments):
    """An object's new content; where the bucket keeps versions, a new version."""

    bucket: Name
    key: Key
    text: str = Field(max_length=MAX_TEXT)
    content_type: str = Field(default="text/plain", max_length=200)
    metadata: dict[Name, str] = Field(default={}, max_length=50)


class Copied(Arguments):
    """A copy of an object or a version, with its metadata and tags."""

    from_bucket: Name
    from_key: Key
    from_version: str | None = Field(default=None, max_length=100)
    bucket: Name
    key: Key


class SettingRead(Arguments):
    """One setting of a bucket, or of an object (acl, tagging), as XML or JSON."""

    bucket: Name
    setting: Setting
    key: str | None = Field(default=None, max_length=1024)


class SettingWritten(SettingRead):
    """The whole setting anew, as the service takes it: XML, a policy as JSON; null removes it."""

    document: str | None = Field(max_length=MAX_TEXT)
    canned_acl: Literal["private", "public-read", "public-read-write"] | None = None


class Asked(Arguments):
    """An action of IAM or STS with its parameters, e.g. ListAccessKeys, {"UserName": "ada"}."""

    service: Literal["iam", "sts"] = "iam"
    action: str = Field(pattern="^[A-Z][A-Za-z]{1,80}$")
    parameters: dict[Name, str] = Field(default={}, max_length=50)


class Received(Arguments):
    """Up to ten messages, which nobody else gets for so many seconds."""

    queue: Name
    hidden_seconds: int = Field(default=30, ge=0, le=43_200)


class Sent(Arguments):
    """A message; its attributes are texts."""

    queue: Name
    body: str = Field(min_length=1, max_length=MAX_TEXT)
    attributes: dict[Name, str] = Field(default={}, max_length=10)


class Dropped(Arguments):
    """The arguments that delete a message that was received."""

    queue: Name
    receipt: str = Field(max_length=1024)


def aws_tools(source: str, url: str) -> tuple[Tool[Any], ...]:
    """The tools for the account at this URL; the URL has the agent's key and secret."""

    def tool(
        verb: str,
        description: str,
        arguments: type[Arguments],
        act: Callable[[_Account, Any], Any],
        action_class: ActionClass | Callable[[Any], ActionClass],
    ) -> Tool[Any]:
        def run(taken: Arguments) -> Done:
            account = _Account(source, Signed(url))
            result = act(account, taken)
            return Done(result, account.signed.made())

        name = tool_name(source, verb)
        return Tool(name, description, arguments, run, action_class, is_one_step=True)

    return (
        tool("list", "Lists objects of a bucket.", Listed, _Account.list, ActionClass.READ),
        tool("read", "Reads an object as text.", Read, _Account.read, ActionClass.READ),
        tool(
            *("write", "Writes an object.", Written, _Account.write),
            ActionClass.CONDITIONAL_UPDATE,
        ),
        tool("copy", "Copies an object.", Copied, _Account.copy, ActionClass.CONDITIONAL_UPDATE),
        tool(
            "delete",
            "Deletes an object, which may leave a delete marker; a version goes for good.",
            *(Read, _Account.delete, ActionClass.IRREVERSIBLE_DELETION),
        ),
        tool("setting", "Reads a setting.", SettingRead, _Account.setting, ActionClass.READ),
        tool(
            "change_setting",
            "Replaces or removes a setting as a whole.",
            *(SettingWritten, _Account.change_setting, _setting_class),
        ),
        tool(
            "identity",
            "An action of IAM or STS: users, keys, groups, roles, policies. The answer is XML.",
            *(Asked, _Account.identity, _action_class),
        ),
        tool(
            *("receive", "Receives messages.", Received, _Account.receive),
            ActionClass.REVERSIBLE_UPDATE,
        ),
        tool("send", "Sends a message.", Sent, _Account.send, ActionClass.NOTIFICATION),
        tool(
            "drop",
            "Deletes a message that was received.",
            *(Dropped, _Account.drop, ActionClass.IRREVERSIBLE_DELETION),
        ),
    )


def _setting_class(taken: SettingWritten) -> ActionClass:
    is_right = taken.setting in _RIGHTS
    return ActionClass.PERMISSION_CHANGE if is_right else ActionClass.CONDITIONAL_UPDATE


def _action_class(taken: Asked) -> ActionClass:
    is_read = taken.action.startswith(("List", "Get", "Simulate"))
    return ActionClass.READ if is_read else ActionClass.PERMISSION_CHANGE


class _Account:
    """One call."""

    def __init__(self, source: str, signed: Signed) -> None:
        self._source = source
        self.signed = signed

    def _s3(
        self,
        method: str,
        bucket: str,
        key: str | None = None,
        query: str = "",
        headers: Mapping[str, str] | None = None,
        body: str = "",
    ) -> Any:
        path = f"/{quote(bucket, safe='~')}" + (f"/{quote(key, safe='/~')}" if key else "")
        return self.signed.ask(self._source, "s3", method, path, query, headers, body.encode())

    def list(self, asked: Listed) -> Any:
        more = "versions=" if asked.versions else "list-type=2"
        said = self._s3("GET", asked.bucket, query=f"{more}&prefix={quote(asked.prefix)}").text
        found = []
        for each in ET.fromstring(said):  # noqa: S314 - of our own server, bounded
            kind = each.tag.rpartition("}")[2]
            if kind in ("Contents", "Version", "DeleteMarker"):
                parts = {part.tag.rpartition("}")[2]: part.text for part in each}
                entry = {"key": parts["Key"], "modified": parts.get("LastModified")}
                if asked.versions:
                    entry |= {"version": parts.get("VersionId"), "latest": parts.get("IsLatest")}
                found.append({**entry, **({"deleted": True} if kind == "DeleteMarker" else {})})
        return {"objects": found}

    def read(self, asked: Read) -> Any:
        answer = self._s3("GET", asked.bucket, asked.key, _version(asked.version))
        meta = {n[11:]: v for n, v in answer.headers.items() if n.startswith("x-amz-meta-")}
        return {
            "text": answer.text,
            "content_type": answer.headers.get("content-type"),
            "metadata": meta,
            "version": answer.headers.get("x-amz-version-id"),
        }

    def write(self, asked: Written) -> Any:
        meta = {f"x-amz-meta-{name}": value for name, value in asked.metadata.items()}
        headers = {"content-type": asked.content_type, **meta}
        answer = self._s3("PUT", asked.bucket, asked.key, headers=headers, body=asked.text)
        return {"version": answer.headers.get("x-amz-version-id")}

    def copy(self, asked: Copied) -> Any:
        place = f"/{asked.from_bucket}/{quote(asked.from_key)}"
        if asked.from_version is not None:
            place += f"?{_version(asked.from_version)}"
        headers = {"x-amz-copy-source": place}
        answer = self._s3("PUT", asked.bucket, asked.key, headers=headers)
        return {"version": answer.headers.get("x-amz-version-id")}

    def delete(self, asked: Read) -> Any:
        answer = self._s3("DELETE", asked.bucket, asked.key, _version(asked.version))
        return {"deleted": True, "marker": answer.headers.get("x-amz-version-id")}

    def setting(self, asked: SettingRead) -> Any:
        return {"document": self._s3("GET", asked.bucket, asked.key, f"{asked.setting}=").text}

    def change_setting(self, asked: SettingWritten) -> Any:
        query = f"{asked.setting}="
        if asked.canned_acl is not None:
            if asked.setting != "acl" or asked.document is not None:
                raise ToolError("canned_acl goes with the setting acl and no document")
            headers = {"x-amz-acl": asked.canned_acl}
            self._s3("PUT", asked.bucket, asked.key, query, headers)
        elif asked.document is None:
            self._s3("DELETE", asked.bucket, asked.key, query)
        else:
            self._s3("PUT", asked.bucket, asked.key, query, body=asked.document)
        return {"changed": True}

    def identity(self, asked: Asked) -> Any:
        parameters = asked.parameters
        return {"answer": self.signed.form(self._source, asked.service, asked.action, parameters)}

    def receive(self, asked: Received) -> Any:
        found = self._sqs(
            "ReceiveMessage",
            asked.queue,
            MaxNumberOfMessages=10,
            VisibilityTimeout=asked.hidden_seconds,
            MessageAttributeNames=["All"],
        )
        return {
            "messages": [
                {
                    "id": each["MessageId"],
                    "body": each["Body"],
                    "receipt": each["ReceiptHandle"],
                    "attributes": {
                        name: value.get("StringValue")
                        for name, value in each.get("MessageAttributes", {}).items()
                    },
                }
                for each in found.get("Messages", ())
            ]
        }

    def send(self, asked: Sent) -> Any:
        given = {
            name: {"DataType": "String", "StringValue": value}
            for name, value in asked.attributes.items()
        }
        answer = self._sqs(
            "SendMessage", asked.queue, MessageBody=asked.body, MessageAttributes=given
        )
        return {"id": answer["MessageId"]}

    def drop(self, asked: Dropped) -> Any:
        self._sqs("DeleteMessage", asked.queue, ReceiptHandle=asked.receipt)
        return {"deleted": True}

    def _sqs(self, action: str, queue: str, **more: Any) -> Any:
        return self.signed.queue(self._source, action, queue, ACCOUNT, **more)


def _version(version: str | None) -> str:
    return "" if version is None else f"versionId={quote(version)}"
