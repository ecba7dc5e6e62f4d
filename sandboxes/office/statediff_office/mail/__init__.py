"""Mail outboxes."""
