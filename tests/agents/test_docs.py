"""The examples of docs/agents.md are run: every way in is a copy-and-paste."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.chat_server import Step, speaking
from tests.test_docs import CHECKOUT, blocks, make_program, matches

pytestmark = pytest.mark.slow

PAGE = CHECKOUT / "docs" / "agents.md"
SHOWN = [content for language, _, content in blocks(PAGE) if language == "console"]
INSERT = (
    "INSERT INTO refunds (order_id, to_method_id, cents, reason, by_staff_id, created_at)"
    " VALUES (1009, 117, 3900, 'returned', 2, '2026-03-16 10:30:00')"
)
MAIL = {
    "sender": "care@hearthside.example",
    "to": ["nora.lindqvist@post.example"],
    "subject": "Your refund",
    "body": "Done.",
}
MODEL = (
    Step("", [("shop_db_execute", json.dumps({"statements": [INSERT]}))]),
    Step("", [("outbox_send", json.dumps(MAIL))]),
    Step('```json\n{"refunded_cents": 3900}\n```'),
)


@pytest.fixture
def folder(tmp_path: Path, forked: Path) -> Path:
    """A folder with the files of the page, `statediff` and `python`."""
    shutil.copytree(CHECKOUT / "docs" / "examples" / "agents", tmp_path, dirs_exist_ok=True)
    for _, name, content in blocks(PAGE):
        if name:
            (tmp_path / name).write_text(content, encoding="utf-8")
    make_program(tmp_path, forked)
    python = tmp_path / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    return tmp_path


@pytest.mark.timeout(300)
@pytest.mark.parametrize("shown", SHOWN, ids=lambda block: block.splitlines()[0][2:50])
def test_every_command_shown_prints_what_is_shown(shown: str, folder: Path) -> None:
    lines = shown.splitlines()
    commands = [line[2:] for line in lines if line.startswith("$ ")]
    expected = [line for line in lines if not line.startswith("$ ")]
    with speaking(*MODEL) as server:
        done = subprocess.run(
            ["/bin/sh", "-c", "\n".join(commands)],
            cwd=folder,
            check=False,
            capture_output=True,
            env={
                "PATH": f"{folder / 'bin'}:/usr/local/bin:/usr/bin:/bin",
                "HOME": str(folder),
                "PYTHONPATH": os.pathsep.join([str(CHECKOUT), *filter(None, sys.path)]),
                "PYTHONUTF8": "1",
                "MODEL_URL": server.url,
            },
        )
    printed = [line.rstrip() for line in done.stdout.decode().splitlines()]
    assert done.returncode == 0, done.stderr.decode()
    assert matches(expected, printed), "\n".join([*printed, done.stderr.decode()])
