"""What a trial leaves in its folder: the run as it ended, what was captured, one file a document.

Nothing that exists is written over; what cannot be written is a `StorageError` with a way out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from statediff.agents.trial import Agent, AgentRun, Output
from statediff.atomic import write_atomically
from statediff.capture.guard import SourceCheck
from statediff.errors import StorageError
from statediff.evidence import documents
from statediff.evidence.canonical import write
from statediff.evidence.histories import seen_document
from statediff.evidence.states import states_document
from statediff.evidence.traces import trace_lines
from statediff.model.readings import Capture

AGENT_FORM: Final = "statediff.agent-run/1"


def save_run(folder: Path, agent: Agent, run: AgentRun) -> None:
    """What the agent did and said, and how it ended."""
    write_file(folder / "trace.jsonl", trace_lines(run.trace))
    save_document(folder / "answer.json", documents.answer_document(run.answer))
    save_document(
        folder / "agent.json",
        {
            "form": AGENT_FORM,
            "agent": agent.name,
            "started_at": run.started_at.isoformat(),
            "finished_at": run.finished_at.isoformat(),
            "exit_code": run.exit_code,
            "error": run.error,
            "stdout": _output(run.stdout),
            "stderr": _output(run.stderr),
            **({} if run.usage is None else {"usage": run.usage.as_json()}),
        },
    )


def save_captures(
    folder: Path, before: Capture, after: Capture, checks: Sequence[SourceCheck]
) -> None:
    """Both captures, what was seen in between, and how each source was checked."""
    captures = {
        "before": documents.capture_document(before),
        "after": documents.capture_document(after),
        "during": seen_document(after.history),
        "checks": [_check_document(check) for check in checks],
    }
    save_document(folder / "captures.json", captures)
    save_document(folder / "states.json", states_document((before, after)))


def _check_document(check: SourceCheck) -> dict[str, Any]:
    return {
        "source": check.source,
        "by": [way for way in ("feed", "pages", "scan") if getattr(check, f"by_{way}")],
        "doubts": [{"type": doubt.type, "cause": doubt.cause} for doubt in check.doubts],
        "disagreement": list(check.disagreement),
    }


def _output(output: Output) -> dict[str, Any]:
    return {
        "text": output.text,
        "bytes_seen": output.bytes_seen,
        "bytes_kept": output.bytes_kept,
    }


def make_folder(folder: Path) -> None:
    """A folder that was not there; `StorageError` where it was, or cannot be made."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise StorageError(
            f"{folder} exists already; nothing in it is overwritten. Choose another name"
        ) from error
    except OSError as error:
        raise StorageError(f"{folder} cannot be made: {error.strerror}") from error


def save_document(path: Path, document: Any) -> None:
    """The document in canonical JSON, as one line."""
    write_file(path, write(document) + b"\n")


def write_file(path: Path, content: bytes) -> None:
    """The bytes, all or none of them."""
    try:
        write_atomically(path, content)
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written: {error.strerror}; free some space or choose another folder"
        ) from error
