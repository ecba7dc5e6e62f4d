"""WordPress's own tables, and what its code writes into them: `wp_signon` and the like."""

# ruff: noqa: E501 - a statement, or a clause, is read in one line

from __future__ import annotations

import hashlib
import secrets
import time
from datetime import UTC, datetime
from typing import Any, Final

TABLES: Final = """
CREATE TABLE wp_users (ID bigint(20) unsigned NOT NULL auto_increment, user_login varchar(60) NOT NULL DEFAULT '', user_pass varchar(255) NOT NULL DEFAULT '', user_nicename varchar(50) NOT NULL DEFAULT '', user_email varchar(100) NOT NULL DEFAULT '', user_url varchar(100) NOT NULL DEFAULT '', user_registered datetime NOT NULL DEFAULT '0000-00-00 00:00:00', user_activation_key varchar(255) NOT NULL DEFAULT '', user_status int(11) NOT NULL DEFAULT 0, display_name varchar(250) NOT NULL DEFAULT '', PRIMARY KEY (ID), KEY user_login_key (user_login))
CREATE TABLE wp_usermeta (umeta_id bigint(20) unsigned NOT NULL auto_increment, user_id bigint(20) unsigned NOT NULL DEFAULT 0, meta_key varchar(255) DEFAULT NULL, meta_value longtext, PRIMARY KEY (umeta_id), KEY user_id (user_id))
CREATE TABLE wp_posts (ID bigint(20) unsigned NOT NULL auto_increment, post_author bigint(20) unsigned NOT NULL DEFAULT 0, post_date datetime NOT NULL DEFAULT '0000-00-00 00:00:00', post_date_gmt datetime NOT NULL DEFAULT '0000-00-00 00:00:00', post_content longtext NOT NULL, post_title text NOT NULL, post_excerpt text NOT NULL, post_status varchar(20) NOT NULL DEFAULT 'publish', comment_status varchar(20) NOT NULL DEFAULT 'open', post_name varchar(200) NOT NULL DEFAULT '', post_modified datetime NOT NULL DEFAULT '0000-00-00 00:00:00', post_modified_gmt datetime NOT NULL DEFAULT '0000-00-00 00:00:00', post_parent bigint(20) unsigned NOT NULL DEFAULT 0, guid varchar(255) NOT NULL DEFAULT '', post_type varchar(20) NOT NULL DEFAULT 'post', comment_count bigint(20) NOT NULL DEFAULT 0, PRIMARY KEY (ID), KEY post_parent (post_parent))
CREATE TABLE wp_postmeta (meta_id bigint(20) unsigned NOT NULL auto_increment, post_id bigint(20) unsigned NOT NULL DEFAULT 0, meta_key varchar(255) DEFAULT NULL, meta_value longtext, PRIMARY KEY (meta_id), KEY post_id (post_id))
CREATE TABLE wp_options (option_id bigint(20) unsigned NOT NULL auto_increment, option_name varchar(191) NOT NULL DEFAULT '', option_value longtext NOT NULL, autoload varchar(20) NOT NULL DEFAULT 'yes', PRIMARY KEY (option_id), UNIQUE KEY option_name (option_name))
CREATE TABLE wp_comments (comment_ID bigint(20) unsigned NOT NULL auto_increment, comment_post_ID bigint(20) unsigned NOT NULL DEFAULT 0, comment_author tinytext NOT NULL, comment_date_gmt datetime NOT NULL DEFAULT '0000-00-00 00:00:00', comment_content text NOT NULL, comment_approved varchar(20) NOT NULL DEFAULT '1', user_id bigint(20) unsigned NOT NULL DEFAULT 0, PRIMARY KEY (comment_ID), KEY comment_post_ID (comment_post_ID))
"""
CAPABILITIES: Final = {1: "administrator", 2: "editor", 3: "subscriber"}


def php(value: Any) -> str:
    """The text that `serialize` writes."""
    match value:
        case None:
            return "N;"
        case bool():
            return f"b:{value:d};"
        case int():
            return f"i:{value};"
        case str():
            return f's:{len(value.encode())}:"{value}";'
    return f"a:{len(value)}:{{{''.join(php(k) + php(v) for k, v in value.items())}}}"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")


class WordPress:
    """A site over a cursor; each method writes what WordPress writes."""

    def __init__(self, cursor: Any) -> None:
        self.cursor = cursor

    def run(self, sql: str, *values: object) -> list[Any]:
        self.cursor.execute(sql, values or None)
        return list(self.cursor.fetchall())

    def make(self) -> None:
        self.run("SET sql_mode = ''")
        for name in ("users", "usermeta", "posts", "postmeta", "options", "comments"):
            self.run(f"DROP TABLE IF EXISTS wp_{name}")
        for statement in TABLES.strip().splitlines():
            self.run(statement)
        for key, role in CAPABILITIES.items():
            self.run("INSERT INTO wp_users (user_login, user_pass, user_email, user_registered) VALUES (%s, %s, %s, '2026-01-01')", f"user{key}", f"$wp${key}", f"u{key}@site.example")  # fmt: skip
            self.add_meta("user", key, "wp_capabilities", php({role: True}))
            self.add_meta("user", key, "wp_user_level", {1: "10", 2: "7"}.get(key, "0"))
        old = {hashlib.sha256(b"old").hexdigest(): self._token(2 * 86400, time.time() - 3600)}
        self.add_meta("user", 1, "session_tokens", php(old))
        self.add_meta("user", 2, "session_tokens", php(old))
        for n in range(1, 5):
            self.run("INSERT INTO wp_posts (post_author, post_content, post_title, post_excerpt, post_status, post_name, post_modified, post_modified_gmt, guid) VALUES (2, %s, %s, '', 'draft', %s, '2026-01-02', '2026-01-02', %s)", f"Text {n}", f"Post {n}", f"post-{n}", f"https://site.example/?p={n}")  # fmt: skip
            self.run("INSERT INTO wp_comments (comment_post_ID, comment_author, comment_content, comment_approved) VALUES (%s, 'Ann', 'Well', '0')", n)  # fmt: skip
        self.run("INSERT INTO wp_options (option_name, option_value) VALUES ('active_plugins', %s), ('blogname', 'Site')", php({0: "akismet/akismet.php"}))  # fmt: skip

    def add_meta(self, of: str, key: int, name: str, value: str) -> None:
        table, column = f"wp_{of}meta", f"{of}_id"
        self.run(f"INSERT INTO {table} ({column}, meta_key, meta_value) VALUES (%s, %s, %s)", key, name, value)  # fmt: skip

    def set_meta(self, of: str, key: int, name: str, value: str) -> None:
        table, column = f"wp_{of}meta", f"{of}_id"
        if self.run(f"SELECT 1 FROM {table} WHERE {column} = %s AND meta_key = %s", key, name):
            self.run(f"UPDATE {table} SET meta_value = %s WHERE {column} = %s AND meta_key = %s", value, key, name)  # fmt: skip
        else:
            self.add_meta(of, key, name, value)

    def _token(self, seconds: float, at: float) -> dict[str, Any]:
        return {"expiration": int(at + seconds), "ip": "127.0.0.1", "ua": "agent", "login": int(at)}

    def sign_on(self, user: int, seconds: float = 2 * 86400, at: float | None = None) -> str:
        """A session more, beside those that have not expired."""
        verifier = hashlib.sha256(secrets.token_bytes(32)).hexdigest()
        ((held,),) = self.run("SELECT meta_value FROM wp_usermeta WHERE user_id = %s AND meta_key = 'session_tokens'", user) or [("a:0:{}",)]  # fmt: skip
        token = php({verifier: self._token(seconds, time.time() if at is None else at)})
        count = int(held.split(":")[1]) + 1
        inside = held[held.index("{") + 1 : -1] + token[token.index("{") + 1 : -1]
        self.set_meta("user", user, "session_tokens", f"a:{count}:{{{inside}}}")
        return verifier

    def sign_off(self, user: int) -> None:
        self.set_meta("user", user, "session_tokens", "a:0:{}")

    def update_post(self, key: int, user: int, **values: str) -> None:
        """`edit_post`: the stamps, the last editor, and a revision of what is there then."""
        now = _now()
        if values.get("post_status") == "publish":
            values |= {"post_date": now, "post_date_gmt": now}
        values |= {"post_modified": now, "post_modified_gmt": now}
        named = ", ".join(f"{name} = %s" for name in values)
        self.run(f"UPDATE wp_posts SET {named} WHERE ID = %s", *values.values(), key)
        self.set_meta("post", key, "_edit_last", str(user))
        self.run("INSERT INTO wp_posts (post_author, post_date, post_date_gmt, post_content, post_title, post_excerpt, post_status, comment_status, post_name, post_modified, post_modified_gmt, post_parent, post_type) SELECT %s, %s, %s, post_content, post_title, post_excerpt, 'inherit', 'closed', concat(ID, '-revision-v1'), %s, %s, ID, 'revision' FROM wp_posts WHERE ID = %s", user, now, now, now, now, key)  # fmt: skip
        self.run("UPDATE wp_posts SET guid = concat('https://site.example/?p=', ID) WHERE ID = last_insert_id()")  # fmt: skip

    def lock(self, key: int, user: int, at: float | None = None) -> None:
        self.set_meta("post", key, "_edit_lock", f"{int(at or time.time())}:{user}")

    def approve(self, key: int) -> None:
        self.run("UPDATE wp_comments SET comment_approved = '1' WHERE comment_ID = %s", key)
        self.run("UPDATE wp_posts SET comment_count = (SELECT count(*) FROM wp_comments WHERE comment_post_ID = wp_posts.ID AND comment_approved = '1') WHERE ID = (SELECT comment_post_ID FROM wp_comments WHERE comment_ID = %s)", key)  # fmt: skip

    def set_role(self, user: int, role: str) -> None:
        self.set_meta("user", user, "wp_capabilities", php({role: True}))
        self.set_meta("user", user, "wp_user_level", {"editor": "7"}.get(role, "10"))
