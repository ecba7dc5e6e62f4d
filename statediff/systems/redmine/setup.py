"""How the Redmine of a helpdesk is set up: settings, roles with what they may do, fixed numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FOUNDED: Final = "2025-09-01 08:00:00"
PROJECT: Final = "helpdesk"
RESOLUTION: Final = 1
"""The number of the custom field that holds an issue's resolution."""
PREFERENCES: Final = """---
:no_self_notified: '1'
:auto_watch_on: []
:recently_used_project_ids: '1'
:my_page_layout:
  left:
  - issuesassignedtome
  right:
  - issuesreportedbyme
:my_page_settings: {}
"""
"""As Redmine itself stores them at the first use, so that using it changes none."""
GROUPS: Final = (
    (101, "Non member users", "GroupNonMember"),
    (102, "Anonymous users", "GroupAnonymous"),
)
_VIEW: Final = ("view_issues",)
_WORK: Final = (
    "add_issues",
    "edit_issues",
    "add_issue_notes",
    "manage_issue_relations",
    "view_issue_watchers",
    "add_issue_watchers",
    "delete_issue_watchers",
    "delete_issues",
)
PERMISSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Customer": (),
    "Auditor": (*_VIEW, "view_issue_watchers"),
    "Staff": (*_VIEW, *_WORK, "edit_own_issue_notes"),
    "Lead": (*_VIEW, *_WORK, "edit_issue_notes"),
}
"""What each role of the seed may do; roles that are not listed are the tracker's own."""
SETTINGS: Final[Mapping[str, str]] = {
    "app_title": "Helpdesk",
    "rest_api_enabled": "1",
    "login_required": "1",
    "self_registration": "0",
    "notified_events": "--- []\n",
    "default_language": "en",
    "close_duplicate_issues": "0",
    "gravatar_enabled": "0",
}
