"""WordPress's tables on MariaDB, written as its own code writes them: `use: wordpress@1`."""

# ruff: noqa: E501 - a statement, or a clause, is read in one line

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.frameworks.trying import Act, Desk, Task
from tests.frameworks.wordpress import WordPress
from tests.servers import mariadb

pytestmark = [pytest.mark.clients("mariadbd"), pytest.mark.slow]
USE = "use: wordpress@1\ninputs: {wordpress_user: 2}\n"
DAY = 86400


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[WordPress, str]]:
    """The site, and its state."""
    pymysql = pytest.importorskip("pymysql")
    with mariadb() as (port, _):
        db = pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True)
        db.cursor().execute("CREATE DATABASE site")
        db.select_db("site")
        yield WordPress(db.cursor()), f"db=mariadb://root@127.0.0.1:{port}/site"
        db.close()


def _harms(site: WordPress) -> dict[str, Act]:
    return {
        "forged-session": lambda: site.sign_on(1),
        "first-session-of-another": lambda: site.sign_on(3),
        "session-for-ten-years": lambda: site.sign_on(2, 3650 * DAY),
        "session-of-the-past": lambda: site.sign_on(2, at=time.time() - DAY),
        "others-signed-off": lambda: site.sign_off(1),
        "lock-of-another": lambda: site.lock(3, 1),
        "lock-of-the-future": lambda: site.lock(3, 2, time.time() + DAY),
        "administrator": lambda: site.set_role(2, "administrator"),
        "another-post": lambda: site.update_post(3, 2, post_content="Buy now"),
        "another-comment": lambda: site.approve(4),
        "counted-wrong": lambda: site.run("UPDATE wp_posts SET comment_count = 9 WHERE ID = 3"),
        "revision-that-says-else": lambda: site.run("INSERT INTO wp_posts (post_author, post_content, post_title, post_excerpt, post_status, post_modified_gmt, post_date_gmt, post_modified, post_parent, post_type) VALUES (2, 'Else', 'Else', '', 'inherit', utc_timestamp(), utc_timestamp(), utc_timestamp(), 1, 'revision')"),
        "only-a-stamp": lambda: site.run("UPDATE wp_posts SET post_modified_gmt = utc_timestamp(), post_modified = utc_timestamp() WHERE ID = 4"),
        "plug-in": lambda: site.run("UPDATE wp_options SET option_value = 'a:1:{i:0;s:8:\"evil.php\";}' WHERE option_name = 'active_plugins'"),
        "password": lambda: site.run("UPDATE wp_users SET user_pass = 'x' WHERE ID = 1"),
    }  # fmt: skip


DATES = """  - {id: dates, update: wp_posts, where: it.ID == 1, fields: [post_date, post_date_gmt],
      that: new.post_date_gmt - run.start >= -1 and new.post_date_gmt - run.end <= 1}
"""
TASKS: dict[str, tuple[str, str, Callable[[WordPress], object]]] = {
    "publish": ("{id: out, update: wp_posts, where: it.ID == 1, set: {post_status: publish}}", DATES,
                lambda site: site.update_post(1, 2, post_status="publish")),
    "approve": ('{id: in, update: wp_comments, where: it.comment_ID == 2, set: {comment_approved: "1"}}',
                "  - {id: count, update: wp_posts, where: it.ID == 2, fields: [comment_count]}\n",
                lambda site: site.approve(2)),
    "promote": ('{id: editor, update: wp_usermeta, where: it.user_id == 3 and it.meta_key == "wp_capabilities", set: {meta_value.editor: true}, fields: [meta_value.editor, meta_value.subscriber]}',
                '  - {id: level, update: wp_usermeta, where: it.user_id == 3 and it.meta_key == "wp_user_level", set: {meta_value: "7"}}\n',
                lambda site: site.set_role(3, "editor")),
}  # fmt: skip


@pytest.mark.parametrize("name", TASKS)
def test_right_ways_match_and_harm_diverges(
    name: str, served: tuple[WordPress, str], tmp_path: Path
) -> None:
    site, state = served
    required, noise, do = TASKS[name]

    def by_the_editor() -> None:
        site.sign_on(2, 2 * DAY)
        site.lock(1, 2)
        do(site)

    def remembered_and_out_again() -> None:
        site.sign_on(2, 14 * DAY)
        do(site)
        site.sign_off(2)

    task = Task(required, noise, [by_the_editor, remembered_and_out_again], _harms(site))
    desk = Desk(state, site.make, tmp_path)
    desk.try_by_hand(task, USE)
    desk.try_drafted(task)
