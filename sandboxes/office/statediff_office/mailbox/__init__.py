"""Mailboxes over IMAP."""
