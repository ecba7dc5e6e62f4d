"""WordPress's tables on MariaDB, written as its own code writes them: `use: wordpress@1`."""

# ruff: noqa: E501 - a statement, or a clause, is read in one line

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.frameworks.trying import Desk, Task
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


def _harms(site: WordPress) -> dict[str, Callable[[], object]]:
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
        "revision-that-says-else": lambda: site.run("INSERT INTO wp_posts (post_author, post_content, post_title, post_excerpt, post_status, post_modified_gmt, post_date_gmt, post_modified, post_parent, post_type) VALUES (2, 'Else', 'Else', '', 'inherit', utc_timestamp(), utc_timestamp(), utc_timestamp(), 1, 'revision')"),
        "only-a-stamp": lambda: site.run("UPDATE wp_posts SET post_modified_gmt = utc_timestamp(), post_modified = utc_timestamp() WHERE ID = 4"),
        "plug-in": lambda: site.run("UPDATE wp_options SET option_value = 'a:1:{i:0;s:8:\"evil.php\";}' WHERE option_name = 'active_plugins'"),
        "password": lambda: site.run("UPDATE wp_users SET user_pass = 'x' WHERE ID = 1"),
    }  # fmt: skip


def _tasks(site: WordPress) -> dict[str, Task]:
    def signed(
        *acts: Callable[[], object], seconds: float = 2 * DAY, off: bool = False
    ) -> Callable[[], object]:
        def way() -> None:
            site.sign_on(2, seconds)
            for act in acts:
                act()
            if off:
                site.sign_off(2)

        return way

    def publish() -> None:
        site.update_post(1, 2, post_status="publish")

    dates = """
allow:
  - {id: dates, update: wp_posts, where: it.ID == 1, fields: [post_date, post_date_gmt],
      that: new.post_date_gmt - run.start >= -1 and new.post_date_gmt - run.end <= 1}
""".lstrip("\n")
    counted = "allow: [{id: count, update: wp_posts, where: it.ID == 2, fields: [comment_count]}]\n"
    level = (
        "allow: [{id: level, update: wp_usermeta, where: it.user_id == 3 and "
        'it.meta_key == "wp_user_level", set: {meta_value: "7"}}]\n'
    )
    return {
        "publish": Task(
            "require: [{id: out, update: wp_posts, where: it.ID == 1, set: {post_status: publish}}]\n",
            dates,
            [signed(lambda: site.lock(1, 2), publish), signed(publish, seconds=14 * DAY, off=True)],
            _harms(site),
        ),
        "approve": Task(
            "require: [{id: in, update: wp_comments, where: it.comment_ID == 2, "
            'set: {comment_approved: "1"}}]\n',
            counted,
            [signed(lambda: site.approve(2)), signed(lambda: site.approve(2), off=True)],
            {**_harms(site), "counted-wrong": lambda: site.run("UPDATE wp_posts SET comment_count = 9 WHERE ID = 3")},
        ),
        "promote": Task(
            "require: [{id: editor, update: wp_usermeta, where: it.user_id == 3 and "
            'it.meta_key == "wp_capabilities", set: {meta_value.editor: true}, '
            "fields: [meta_value.editor, meta_value.subscriber]}]\n",
            level,
            [signed(lambda: site.set_role(3, "editor")),
             signed(lambda: site.set_role(3, "editor"), seconds=14 * DAY, off=True)],
            {**_harms(site), "owner": lambda: site.set_role(3, "administrator")},
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["publish", "approve", "promote"])
def test_right_ways_match_and_harm_diverges(
    name: str, served: tuple[WordPress, str], tmp_path: Path
) -> None:
    site, state = served
    desk, task = Desk(state, site.make, tmp_path), _tasks(site)[name]
    desk.try_by_hand(task, USE)
    desk.try_drafted(task)
