"""The folder of a trial: the run as it ended, what was captured, one file a document.

What was captured of a source whose values are kept for a time only (`retain`) is encrypted, its
chunks and the list of them, `states-NAME.kept`: NAME is what the key is called in the vault that
`run.json` names. Without the key nobody reads them, in no copy of the folder.

Nothing that exists is written over; what cannot be written is a `StorageError` with a way out.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import platform
import re
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from statediff._version import __version__
from statediff.agents.room import Room
from statediff.agents.trial import Agent, AgentRun, Output, Trial
from statediff.atomic import sync_below, write_atomically
from statediff.capture.guard import SourceCheck
from statediff.capture.held_chunks import settle
from statediff.capture.keyed_store import KEY_BYTES, KeyedChunks, SourceChunks
from statediff.capture.standing import give_back, look_at
from statediff.capture.store import DiskChunks
from statediff.contract.parts import seconds
from statediff.errors import BundleError, StorageError
from statediff.evidence import documents
from statediff.evidence.canonical import read, write
from statediff.evidence.disclosure.rules import Disclosure
from statediff.evidence.disclosure.undisclosed import withheld
from statediff.evidence.documents import trace_document, trace_lines
from statediff.evidence.histories import seen_document
from statediff.evidence.package import RUN_FORM, Bundle, file_bytes, save_undisclosed
from statediff.evidence.states import captures_from, states_document, states_from, states_in
from statediff.evidence.vault import Vault
from statediff.kernel import KERNEL
from statediff.model.readings import Capture, PathFacts
from statediff.model.state import ChunkStore, State
from statediff.model.trace import NoAnswer, Trace
from statediff.model.values import Value
from statediff.total import in_any_case, words_of

AGENT_FORM: Final = "statediff.agent-run/1"
BUNDLE: Final = "bundle"
"""The folder of a trial's bundle in the trial's."""


def write_run(
    folder: Path,
    run_id: str,
    contracts: Mapping[str, str],
    settings: Any,
    pins: Mapping[str, Any] | None = None,
) -> None:
    """`folder/run.json` says by which versions the run's trials are made and judged.

    `contracts` maps each contract's `name@version` to its digest; `settings`, and `pins` of what
    else the run rests on, are JSON without floats. Raises `StorageError` if the folder already
    holds a run.
    """
    make_folder(folder, mode=0o700)  # traces, answers and states are nobody else's to read
    save_document(
        folder / "run.json",
        {
            **(pins or {}),
            "form": RUN_FORM,
            "run": run_id,
            "statediff": __version__,
            "kernel": KERNEL,
            "contracts": dict(sorted(contracts.items())),
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            "platform": platform.platform(),
            "settings": settings,
        },
        durable=True,
    )


def as_printed(run: AgentRun) -> AgentRun:
    """The run with what it printed as people are shown it, of which nobody judges anything."""
    shown = Disclosure()
    shown.trace(run.trace)
    shown.value(run.answer)
    return replace(
        run,
        command=shown.command(run.command),
        error=None if run.error is None else shown.elsewhere(run.error),
        stdout=replace(run.stdout, text=shown.elsewhere(run.stdout.text)),
        stderr=replace(run.stderr, text=shown.elsewhere(run.stderr.text)),
    )


def save_run(folder: Path, agent: Agent, run: AgentRun) -> None:
    """Write what the agent did and said, and how it ended, as people are shown it."""
    shown = save_trace(folder / "trace.jsonl", run.trace)
    answer = shown.value(run.answer)
    hidden = withheld(
        _run_documents(run.trace, run.answer), _run_documents(shown.trace(run.trace), answer)
    )
    if hidden is not None:  # before anything is judged: nothing that was recorded gets lost
        save_undisclosed(Bundle({}, {}, hidden[1]), folder / BUNDLE)
    save_document(folder / "answer.json", documents.answer_document(answer))
    save_document(
        folder / "agent.json",
        {
            "form": AGENT_FORM,
            "agent": agent.name,
            **({"command": list(run.command)} if run.command else {}),
            "started_at": run.started_at.isoformat(),
            "finished_at": run.finished_at.isoformat(),
            "exit_code": run.exit_code,
            "error": run.error,
            "stdout": _output(run.stdout),
            "stderr": _output(run.stderr),
            **({} if run.usage is None else {"usage": run.usage.as_json()}),
        },
    )


def _run_documents(trace: Trace, answer: Value | NoAnswer) -> dict[str, Any]:
    """The documents of a bundle with what an agent did and said."""
    return {
        "trace.json": trace_document(trace),
        "answer.json": documents.answer_document(answer),
    }


def save_trace(path: Path, trace: Trace) -> Disclosure:
    """The calls as people are shown them, in the file; what shows the rest of the trial alike."""
    shown = Disclosure()
    write_file(path, trace_lines(shown.trace(trace)))
    return shown


def save_captures(
    folder: Path,
    before: Capture,
    after: Capture,
    checks: Sequence[SourceCheck],
    store: ChunkStore,
    trial: str,
) -> None:
    """Both captures, what was seen in between, and how each source was checked.

    `trial` is its name, also where the folder has another for now; `timeline.json` is there.
    """
    captures = {
        "before": documents.capture_document(before),
        "after": documents.capture_document(after),
        "during": seen_document(after.history),
        "checks": [_check_document(check) for check in checks],
    }
    save_document(folder / "captures.json", captures)
    if not isinstance(store, SourceChunks):
        save_document(folder / "states.json", states_document((before, after)))
        return
    save_document(folder / "states.json", _settled((before, after), store, None))
    for source, keyed in store.keyed.items():
        listed = _settled((before, after), store, source)
        plain = {**_about(folder, source, trial), "retain": keyed.retain, "states": listed}
        data = keyed.encrypt(write(plain), STATES_FILE)
        save_document(
            folder / f"states-{keyed.name}.kept",
            {"form": KEPT_STATES, "source": source, "data": base64.b64encode(data).decode()},
        )


def _settled(captures: Sequence[Capture], store: SourceChunks, source: str | None) -> Any:
    """The states of a source, or of all without a key; each chunk is where it belongs."""

    def wanted(name: str) -> bool:
        return name not in store.keyed if source is None else name == source

    own = store.plain if source is None else store.keyed[source]
    for state in states_in(captures, wanted):
        for table in state.tables.values():
            settle(own, table.store, table.chunks)
    return states_document(captures, wanted)


KEPT_STATES: Final = "statediff/kept-states/1"
STATES_FILE: Final = "states.json"
_KEPT_NAME: Final = re.compile(rf"states-([0-9a-f]{{{KEY_BYTES}}})\.kept")


def _about(folder: Path, source: str, trial: str) -> dict[str, str]:
    """The source and trial of states: no other trial has this name and these times."""
    times = (folder / "timeline.json").read_bytes().removesuffix(b"\n")
    return {
        "source": source,
        "trial": trial,
        "timeline": hashlib.sha256(times).hexdigest(),
    }


def retained_chunks(
    chunks: DiskChunks, retain: Mapping[str, str], vault: Vault | None
) -> ChunkStore:
    """The store of a trial's chunks: sources with `retain` under new keys, in the vault."""
    if not retain:
        return chunks
    if vault is None:
        raise StorageError(
            f"the contract says `retain` of {', '.join(sorted(retain))}, and the run names no "
            "vault for the keys; begin a new run"
        )
    keyed = {}
    for source, text in sorted(retain.items()):
        name, key = secrets.token_hex(KEY_BYTES // 2), secrets.token_bytes(KEY_BYTES)
        vault.put(name, key)
        keyed[source] = KeyedChunks(chunks.folder, name, key, text)
    return SourceChunks(chunks, keyed)


def destroy_keys(store: ChunkStore, vault: Vault | None) -> None:
    """The keys are gone of a trial that nobody will judge."""
    if isinstance(store, SourceChunks) and vault is not None:
        for keyed in store.keyed.values():
            vault.destroy(keyed.name)


def vault_of(run: Path) -> Vault | None:
    """The vault that the run names for its keys."""
    try:
        settings = json.loads((run / "run.json").read_bytes())["settings"]
        return Vault(Path(settings["vault"]))
    except (OSError, ValueError, LookupError, TypeError):
        return None


@dataclass(frozen=True, kw_only=True)
class KeptStates:
    """The states of one source and trial, which were encrypted under the key `name`."""

    name: str
    about: Mapping[str, str]
    """`source`, `trial`, and the SHA-256 of its times, `timeline`."""
    retain_seconds: float
    """How long they are kept after the trial is sealed."""
    document: Any
    chunks: KeyedChunks


def trial_states(folder: Path, chunks: Path, vault: Vault | None) -> list[tuple[Any, DiskChunks]]:
    """Each list of states of a trial, with the store of their chunks.

    `BundleError` if one is damaged, or its key is not in the vault.
    """
    found: list[tuple[Any, DiskChunks]] = [(_read(folder / STATES_FILE), DiskChunks(chunks))]
    for name in kept_names(folder):
        kept = kept_states(folder, name, chunks, vault)
        if kept is None:
            where = "no vault was named" if vault is None else f"its key is not in {vault.folder}"
            raise BundleError(
                f"{folder / f'states-{name}.kept'}: cannot be read: {where}; it was destroyed when "
                "the time of the source was over (`retain`), or the vault is another"
            )
        found.append((kept.document, kept.chunks))
    return found


def trial_captures(folder: Path, run: Path, vault: Vault | None) -> tuple[Capture, Capture]:
    """Before and after of a trial of the run, whole, with all that feeds saw. `BundleError`."""
    states: dict[str, State] = {}
    for document, chunks in trial_states(folder, run / "chunks", vault):
        states |= states_from(document, chunks)
    data = file_bytes(folder / "captures.json")
    return captures_from(read(data.removesuffix(b"\n"), "captures.json"), states)


def kept_names(folder: Path) -> Iterator[str]:
    """The names of the keys of a trial's encrypted states."""
    for path in sorted(folder.glob("states-*.kept")):
        if (named := _KEPT_NAME.fullmatch(path.name)) is not None and not path.is_symlink():
            yield named[1]


def kept_states(folder: Path, name: str, chunks: Path, vault: Vault | None) -> KeptStates | None:
    """The states under that key, which are of this trial; None without the key. `BundleError`."""
    path = folder / f"states-{name}.kept"
    try:
        document = _read(path)
        if sorted(document) != ["data", "form", "source"] or document["form"] != KEPT_STATES:
            raise ValueError(f"expected {KEPT_STATES}")
        key = None if vault is None else vault.get(name)
        if key is None:
            return None
        if len(key) != KEY_BYTES:
            raise ValueError(f"{name} is no key of {KEY_BYTES} bytes")
        keyed = KeyedChunks(chunks, name, key, "")
        data = base64.b64decode(document["data"], validate=True)
        plain = read(keyed.decrypt(data, STATES_FILE), path.name)
        about = {part: str(plain[part]) for part in ("source", "trial", "timeline")}
        expected = _about(folder, document["source"], folder.name)
        if about != expected:
            raise ValueError("it is of another trial")
        return KeptStates(
            name=name,
            about=about,
            retain_seconds=float(seconds(plain["retain"])),
            document=plain["states"],
            chunks=keyed,
        )
    except (OSError, LookupError, TypeError, ValueError) as error:
        raise BundleError(f"{path}: {error}") from error


def _read(path: Path) -> Any:
    return read(path.read_bytes().removesuffix(b"\n"), path.name)


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


class TrialFiles:
    """Writes of a trial once its agent has begun: at once, or when the trial ends.

    An agent may fill the disk, or take the folder away. So some room is reserved while it acts, and
    the rights of the folders above are given back when it has ended. What cannot be written even
    then is named, and keeps no verdict from anybody.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._places: list[PathFacts] = []
        self._steps: list[tuple[str, Callable[[], object]]] = []
        self._failed: dict[str, str] = {}

    @contextlib.contextmanager
    def reserved(self, trial: Trial) -> Iterator[None]:
        """The agent acts in the block. `StorageError` where there is no room for its trial."""
        self._places = [look_at(self.folder)]
        try:
            with Room.of(trial, self.folder):
                yield
        finally:
            give_back(self._places)

    def write(self, what: str, step: Callable[[], object]) -> None:
        """The step writes `what` into the folder, now or at the end; it may be taken again."""
        self._steps.append((what, step))
        self._take(what, step)

    def note(self, what: str, step: Callable[[], object]) -> None:
        """The step keeps `what` elsewhere; it is not taken again at the end."""
        self._take(what, step)

    def name(self, what: str, why: str) -> None:
        """Note that `what` is not kept, and why."""
        self._failed[what] = why

    def finish(self) -> tuple[str, ...]:
        """Sync all that was written; returns what could not be, and why."""
        if self._failed or not in_any_case(self.folder.is_dir, lambda _: False):
            self._write_again()
        self.note("all of it on the disk", partial(sync_below, self.folder))
        return tuple(f"{what} is not kept: {why}" for what, why in self._failed.items())

    def _write_again(self) -> None:
        give_back(self._places)
        with contextlib.suppress(OSError):
            if not self.folder.is_dir():  # nothing of it is left
                self.folder.mkdir(parents=True)
                self._failed = dict.fromkeys((what for what, _ in self._steps), "")
        for what, step in self._steps:
            if what in self._failed:
                self._take(what, step)

    def _take(self, what: str, step: Callable[[], object]) -> None:
        def give_up(error: Exception) -> object:
            self._failed[what] = words_of(error)
            return None

        self._failed.pop(what, None)
        in_any_case(step, give_up)


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """A folder that was not there; `StorageError` where it was, or cannot be made."""
    try:
        folder.mkdir(parents=True, mode=mode)
    except FileExistsError as error:
        raise StorageError(
            f"{folder} exists already; nothing in it is overwritten. Choose another name"
        ) from error
    except OSError as error:
        raise StorageError(f"{folder} cannot be made: {error.strerror}") from error


def save_document(path: Path, document: Any, *, durable: bool = False) -> None:
    """The document in canonical JSON, as one line."""
    write_file(path, write(document) + b"\n", durable=durable)


def write_file(path: Path, content: bytes, *, durable: bool = False) -> None:
    """The bytes, all or none of them; `durable`: also after a power cut."""
    try:
        write_atomically(path, content, durable=durable)
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written: {error.strerror}; free some space or choose another folder"
        ) from error
