"""A Harbor environment without containers: a root folder with this machine's programs.

`/app`, `/opt`, `/logs`, `/tests` and `/solution` are the trial's own, in a mount namespace; the
rest is this machine's, read-only but for `/tmp` and `/run`. Of a Dockerfile it does what `COPY`
says and nothing else. It keeps nothing from an agent that means harm.
"""

import asyncio
import contextlib
import os
import shutil
import signal
from pathlib import Path

from harbor.environments.base import BaseEnvironment, ExecResult

OWN = ("app", "opt", "logs", "tests", "solution")
ENTER = """
PATH=$PATH:/usr/sbin:/sbin
for entry in /*; do
  name=${entry#/}
  case $name in app|opt|logs|tests|solution) continue;; esac
  if [ -h "$entry" ]; then [ -e "$1$entry" ] || ln -s "$(readlink "$entry")" "$1$entry"
  elif [ -d "$entry" ]; then
    mkdir -p "$1$entry"; mount --rbind "$entry" "$1$entry" || exit 125
    case $name in dev|proc|sys|tmp|run) ;; *) mount -o remount,bind,ro "$1$entry" || exit 125;; esac
  fi
done
exec chroot "$1" /bin/sh -c 'cd "$1" && eval "$2"' sh "$2" "$3"
"""


class Rooted(BaseEnvironment):
    """Commands run as root of a user namespace; files are copied."""

    @staticmethod
    def type() -> str:
        """Its name in logs."""
        return "rooted"

    def _validate_definition(self) -> None:
        self.root = (self.trial_paths.trial_dir / "root").absolute()

    async def start(self, force_build: bool) -> None:
        """The environment's files are in `/app`, or where its Dockerfile copies them to."""
        for name in OWN:
            (self.root / name).mkdir(parents=True)
        for name in ("agent", "verifier", "artifacts"):
            (self.root / "logs" / name).mkdir()
        places = [(".", "/app")]
        dockerfile = self.environment_dir / "Dockerfile"
        if dockerfile.exists():
            lines = (line.split() for line in dockerfile.read_text().splitlines())
            places = [(words[1], words[2]) for words in lines if words and words[0] == "COPY"]
        for source, target in places:
            place = self._place(target)
            shutil.copytree(self.environment_dir / source, place, dirs_exist_ok=True)

    async def stop(self, delete: bool) -> None:
        """What holds a trial is ended; the folder goes with the trial's."""
        pid = self.root / "opt" / "statediff" / "pid"
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int(pid.read_text()), signal.SIGTERM)

    def _place(self, path: str) -> Path:
        inside = Path(path).parts[1] in OWN
        return self.root / path.lstrip("/") if inside else Path(path)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        """One file goes in."""
        place = self._place(target_path)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source_path, place)

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        """One folder goes in."""
        shutil.copytree(source_dir, self._place(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        """One file comes out."""
        shutil.copy2(self._place(source_path), target_path)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        """One folder comes out."""
        shutil.copytree(self._place(source_dir), target_dir, dirs_exist_ok=True)

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        """A command in the root folder."""
        process = await asyncio.create_subprocess_exec(
            "unshare", "--map-root-user", "--mount", "sh", "-c", ENTER, "sh",
            str(self.root), cwd or "/app", command, env={**os.environ, **(env or {})},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, errors = await asyncio.wait_for(process.communicate(), timeout_sec)
        code = process.returncode or 0
        return ExecResult(stdout=out.decode(), stderr=errors.decode(), return_code=code)
