"""The helpdesk's classes and permissions, as Roundup reads them whenever it opens the tracker.

`db`, `Class`, `FileClass`, `IssueClass` and the types of properties are given by Roundup. Nothing
is indexed for full-text search, so that no search index changes beside the texts themselves.
"""
# ruff: noqa: F821 - Roundup runs this file with its own names in place


def named(name):
    """A class of things that are told apart by a name, e.g. the statuses."""
    made = Class(db, name, name=String(), order=Integer())
    made.setkey("name")
    return made


def link(target):
    """A reference that is journalled where it stands and not at what it points to."""
    return Link(target, do_journal="no")


def links(target):
    """Several of them."""
    return Multilink(target, do_journal="no")


for each in ("component", "status", "priority", "resolution"):
    named(each)

user = Class(
    db,
    "user",
    username=String(),
    password=Password(),
    realname=String(),
    address=String(),
    roles=String(),
)
user.setkey("username")

FileClass(db, "msg", author=link("user"), date=Date(), content=String(), type=String())
FileClass(db, "file", name=String(), content=String(), type=String())
IssueClass(
    db,
    "issue",
    title=String(),
    component=link("component"),
    priority=link("priority"),
    status=link("status"),
    assignee=link("user"),
    resolution=link("resolution"),
    closed=Date(),
    superseder=link("issue"),
    nosy=links("user"),
    messages=links("msg"),
    files=links("file"),
)


def allow(role, actions, *classes, **limits):
    """The role may do these things with all items of the classes, within the limits."""
    for name in classes:
        for action in actions:
            permission = db.security.addPermission(name=action, klass=name, **limits)
            db.security.addPermissionToRole(role, permission)


def is_own_message(db, userid, itemid):
    """Whether the user wrote the message."""
    return db.msg.get(itemid, "creator") == userid


LISTS = ("component", "status", "priority", "resolution")
PUBLIC = ("id", "username", "realname", "address", "roles")

for role, about in (
    ("Auditor", "Sees everything, changes nothing."),
    ("Staff", "Works on issues."),
    ("Lead", "Works on issues and tidies up what others wrote."),
    ("Customer", "Asks, by telephone or mail; never signs in."),
):
    db.security.addRole(name=role, description=about)

for role in ("Auditor", "Staff", "Lead"):
    db.security.addPermissionToRole(role, "Web Access")
    db.security.addPermissionToRole(role, "Rest Access")
    allow(role, ["View"], "issue", "msg", "file", *LISTS)
    allow(role, ["View"], "user", properties=PUBLIC)
allow("Auditor", ["View"], "user")

for role in ("Staff", "Lead"):
    allow(role, ["Create", "Edit"], "issue", "file")
    allow(role, ["Create"], "msg")
    allow(role, ["Retire"], "issue")
allow("Staff", ["Edit", "Retire"], "msg", check=is_own_message)
allow("Lead", ["Edit", "Retire", "Restore"], "msg", "file")
allow("Lead", ["Restore"], "issue")
