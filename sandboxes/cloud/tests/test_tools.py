"""The tools of an account: what they do, of what class a call is, and which transaction it made."""

import json

import pytest
from statediff_cloud.sandbox import EmbeddedAccount

from statediff.model.trace import ActionClass
from statediff.packs import sandbox_pack
from statediff.systems.base.registry import tools_of
from statediff.systems.base.tool import Done, ToolError

pytestmark = pytest.mark.pack("statediff[cloud]")


@pytest.fixture(scope="module")
def call(tmp_path_factory):
    [source] = sandbox_pack("cloud").sources
    made = EmbeddedAccount(source, (), tmp_path_factory.mktemp("tools") / "account")
    try:
        made.start()
        tools = {tool.name: tool for tool in tools_of("account", made.url)}

        def call(verb: str, **arguments: object) -> tuple[Done, ActionClass]:
            tool = tools[f"account_{verb}"]
            taken = tool.arguments.model_validate(arguments)
            return tool.act(taken), tool.class_of(taken)

        yield call
    finally:
        made.stop()


def test_objects_are_written_read_copied_listed_and_deleted(call):
    place = {"bucket": "fernway-archive", "key": "a b/ü.txt"}
    written, kind = call("write", **place, text="one", metadata={"author": "ada"})
    assert kind is ActionClass.CONDITIONAL_UPDATE
    assert len(written.marks) == 1
    read, kind = call("read", **place)
    assert kind is ActionClass.READ
    assert read.marks == ()
    assert (read.result["text"], read.result["metadata"]) == ("one", {"author": "ada"})
    call("copy", from_bucket=place["bucket"], from_key=place["key"], bucket="fernway-logs", key="c")
    assert call("read", bucket="fernway-logs", key="c")[0].result["text"] == "one"
    gone, kind = call("delete", **place)
    assert kind is ActionClass.IRREVERSIBLE_DELETION
    assert gone.result["marker"]
    listed = call("list", bucket=place["bucket"], prefix="a b/", versions=True)[0].result["objects"]
    assert [each.get("deleted", False) for each in listed].count(True) == 1
    with pytest.raises(ToolError, match="404"):
        call("read", **place)


def test_settings_say_of_what_class_they_are(call):
    policy = {"Version": "2012-10-17", "Statement": []}
    changed, kind = call(
        "change_setting", bucket="fernway-logs", setting="policy", document=json.dumps(policy)
    )
    assert kind is ActionClass.PERMISSION_CHANGE
    assert len(changed.marks) == 1
    found = call("setting", bucket="fernway-logs", setting="policy")[0].result["document"]
    assert json.loads(found) == policy
    rules, kind = call("change_setting", bucket="fernway-logs", setting="lifecycle", document=None)
    assert kind is ActionClass.CONDITIONAL_UPDATE
    assert rules.result == {"changed": True}
    with pytest.raises(ToolError, match="canned_acl goes with"):
        call(
            "change_setting",
            bucket="fernway-logs",
            setting="policy",
            document=None,
            canned_acl="public-read",
        )


def test_identities_are_asked_and_changed_and_refused(call):
    assert call("identity", action="ListUsers")[1] is ActionClass.READ
    made, kind = call("identity", action="CreateGroup", parameters={"GroupName": "new"})
    assert kind is ActionClass.PERMISSION_CHANGE
    assert len(made.marks) == 1
    with pytest.raises(ToolError, match="AccessDenied"):
        call("identity", action="CreateUser", parameters={"UserName": "new"})


def test_messages_are_sent_received_and_dropped(call):
    call("send", queue="invoices", body="one", attributes={"order": "1"})
    [message] = call("receive", queue="invoices")[0].result["messages"]
    assert (message["body"], message["attributes"]) == ("one", {"order": "1"})
    dropped, kind = call("drop", queue="invoices", receipt=message["receipt"])
    assert kind is ActionClass.IRREVERSIBLE_DELETION
    assert dropped.result == {"deleted": True}
    assert call("receive", queue="invoices", hidden_seconds=0)[0].result == {"messages": []}
