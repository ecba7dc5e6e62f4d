"""Calendars over CalDAV."""
