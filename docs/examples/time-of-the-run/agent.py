"""Makes Ada a member, as of now or of when it is told, and enters the renewal of Bo."""

import sqlite3
import sys
from datetime import UTC, datetime

FORM = "%Y-%m-%dT%H:%M:%SZ"
path, joined, renewed = sys.argv[1:]
joined = datetime.now(UTC).strftime(FORM) if joined == "now" else joined
with sqlite3.connect(path) as db:
    db.execute("INSERT INTO members (id, name, joined_at) VALUES (2, 'Ada', ?)", (joined,))
    db.execute("UPDATE members SET renewed_at = ? WHERE name = 'Bo'", (renewed,))
