"""Mail, mailboxes and calendars as systems of statediff."""
