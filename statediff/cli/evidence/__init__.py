"""Commands for evidence: sign, verify, review, adjudicate, expire, log."""
