"""Serve the benchmark's own code: a program for an environment that has `bfcl-eval`.

    .hosts/bfcl/bin/python lab/statediff_lab/importers/bfcl/host.py

Reads requests and writes answers, each a line of JSON, and imports nothing of statediff. `{"do":
"tasks", "category": NAME}` executes the ground truth of each task and writes the results, then
`{"end": true}`. `{"do": "run", "task": ID, "turns": [[CALL, …], …]}` executes the calls and writes
the verdict of the benchmark's checker; with `states`, it also writes the result of each call.
`patch`, `{SYSTEM: {ATTRIBUTE: VALUE}}`, sets attributes after the last turn's calls: all of them or
none. A request that fails gets `{"error": TEXT}`.

A call is a text as a model writes it. An attribute is JSON: a map whose keys are not all texts is
`{"#": [[key, value], …]}`, a folder `{"folder": name, "holds": {…}}`, a file `{"file": name,
"content": text}`, and a set a sorted list.
"""

import ast
import builtins
import copy
import datetime as dt
import importlib
import itertools
import json
import os
import random
import re
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

PACKAGE = "bfcl_eval"
PATCH = "statediff_patch"
SETTING = "long_context"
MORE_TOOLS = "(more tools are offered)"
NUMBERED = re.compile(r"turn (\d+)")


class Draws(random.Random):
    """A generator that notes what it drew, so that it is known which values nobody chose."""

    drawn: ClassVar[list[Any]] = []

    def randint(self, a: int, b: int) -> int:
        found = super().randint(a, b)
        self.drawn.append(found)
        return found

    def uniform(self, a: float, b: float) -> float:
        found = super().uniform(a, b)
        self.drawn.append(found)
        return found


class Seeding:
    """The object that the simulators find where they look for the module `random`."""

    Random = Draws


class Host:
    """The package, with its data; `ImportError` where it is not installed."""

    def __init__(self) -> None:
        package = importlib.import_module(PACKAGE)
        inside = f"{PACKAGE}.eval_checker.multi_turn_eval"
        self.utils: Any = importlib.import_module(f"{inside}.multi_turn_utils")
        self.checker: Any = importlib.import_module(f"{inside}.multi_turn_checker")
        config: Any = importlib.import_module(f"{PACKAGE}.constants.executable_backend_config")
        self.data = Path(str(package.__file__)).parent / "data"
        self.modules = config.CLASS_FILE_PATH_MAPPING
        self.tasks: dict[str, tuple[dict[str, Any], list[list[str]]]] = {}
        self.runs = 0
        self.defaults: dict[Any, tuple[Any, ...]] = {}
        """What each method takes where a call does not say: a list there outlives the run."""

    def load(self, category: str) -> list[str]:
        """The names of a category's tasks; they are known from now on."""
        name = f"BFCL_v4_multi_turn_{category}.json"
        entries = [json.loads(line) for line in _lines(self.data / name)]
        answers = {
            a["id"]: a for a in map(json.loads, _lines(self.data / "possible_answer" / name))
        }
        for entry in entries:
            self.tasks[entry["id"]] = (entry, answers[entry["id"]]["ground_truth"])
            for system in entry["involved_classes"]:
                module = importlib.import_module(self.modules[system])
                if hasattr(module, "random"):
                    vars(module)["random"] = Seeding
                for method in vars(getattr(module, system)).values():
                    if getattr(method, "__defaults__", None):
                        self.defaults.setdefault(method, copy.deepcopy(method.__defaults__))
        return [entry["id"] for entry in entries]

    def task(self, name: str) -> dict[str, Any]:
        """The task, and what its ground truth does call by call."""
        entry, truth = self.tasks[name]
        session = Session(self, name)
        states, turns = [session.attributes()], []
        for calls in truth:
            turns.append([session.call(text) for text in calls])
            states.append(session.attributes())
        session.end()
        return {
            "id": name,
            "category": _category(name),
            "messages": [
                "\n".join(m["content"] for m in turn if m["role"] == "user") or MORE_TOOLS
                for turn in entry["question"]
            ],
            "systems": sorted(entry["involved_classes"]),
            "turns": turns,
            "states": _changes(states),
            "drawn": sorted({text for value in session.drawn for text in _spellings(value)}),
        }

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """The result of a run, and what the checker says of it."""
        name, turns, patch = request["task"], request["turns"], request.get("patch")
        entry, truth = self.tasks[name]
        if patch is not None:
            turns = [*turns[:-1], [*turns[-1], f"{PATCH}()"]]
        for call in (each for turn in request["turns"] for each in turn):
            check(call)
        self.runs += 1
        model = f"statediff{self.runs}"
        prefix = re.sub(r"[-./:]", "_", f"{model}_eval_{name}_")
        failures: list[str] = []
        vars(self.utils)[PATCH] = lambda: self.set(prefix, patch or {}, failures)
        found: dict[str, Any] = self.checker.multi_turn_checker(
            [[[call] for call in turn] for turn in turns], truth, entry, "", model
        )
        self.forget(re.sub(r"[-./:]", "_", f"{model}_"))
        if failures:
            raise ValueError(f"not as the patch says: {failures[0]}")
        answer: dict[str, Any] = {"official": _said(found, len(truth))}
        if request.get("states"):
            session = Session(self, name)
            states, made = [session.attributes()], []
            for turn in turns:
                made.append([session.call(call) for call in turn])
                states.append(session.attributes())
            session.end()
            answer |= {"turns": made, "states": _changes(states)}
        return answer

    def set(self, prefix: str, patch: dict[str, dict[str, Any]], failures: list[str]) -> None:
        """The attributes of the run's systems are what the patch says, or why not is noted.

        The benchmark takes an exception for a result of the call, and goes on.
        """
        values = []
        try:
            for system, attributes in patch.items():
                instance = vars(self.utils)[f"{prefix}{system}_instance"]
                for attribute, told in attributes.items():
                    now = getattr(instance, attribute)
                    value = self.value(told, now, type(instance).__module__)
                    values.append((instance, attribute, value))
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error}")
            raise
        for instance, attribute, value in values:
            setattr(instance, attribute, value)

    def value(self, told: Any, now: Any, module: str) -> Any:
        """The value that the JSON tells, of the kind of what is there now."""
        if isinstance(now, set):
            return set(told)
        if isinstance(told, dict) and "#" in told:
            return {key: self.value(each, None, module) for key, each in told["#"]}
        if isinstance(told, dict) and "holds" in told:
            return self.folder(told, None, sys.modules[module])
        if isinstance(told, dict):
            return {key: self.value(each, None, module) for key, each in told.items()}
        return told

    def folder(self, told: dict[str, Any], parent: Any, module: Any) -> Any:
        """A folder of the file system with all in it."""
        made = module.Directory(told["folder"], parent)
        for name, each in told["holds"].items():
            made.contents[name] = (
                self.folder(each, made, module)
                if "holds" in each
                else module.File(each["file"], each["content"])
            )
        return made

    def forget(self, prefix: str) -> None:
        """Nothing is left of one run: its simulators, and what it wrote into default arguments."""
        for method, defaults in self.defaults.items():
            method.__defaults__ = copy.deepcopy(defaults)
        for name in [name for name in vars(self.utils) if name.startswith(prefix)]:
            del vars(self.utils)[name]


class Session:
    """One run of a task, call by call."""

    def __init__(self, host: Host, name: str) -> None:
        self.host = host
        self.entry = host.tasks[name][0]
        host.runs += 1
        self.model = f"statediff{host.runs}"
        self.drawn: list[Any] = []
        Draws.drawn = self.drawn
        self.systems = self._carry_out([])[1]
        self._state = self.attributes()
        self._places = self._pointers()

    def call(self, text: str) -> dict[str, Any]:
        """The call with its result, whether it changed anything, and whether it moved the agent."""
        (result,), _ = self._carry_out([text])
        state, places = self.attributes(), self._pointers()
        found = {
            "call": text,
            "result": result,
            "writes": state != self._state,
            "moves": places != self._places,
        }
        self._state, self._places = state, places
        return found

    def attributes(self) -> dict[str, dict[str, Any]]:
        """Everything public of every system."""
        return {
            system: {
                name: plain(value)
                for name, value in vars(each).items()
                if not name.startswith("_") and name != SETTING
            }
            for system, each in sorted(self.systems.items())
        }

    def end(self) -> None:
        """The simulators are gone."""
        self.host.forget(re.sub(r"[-./:]", "_", f"{self.model}_"))

    def _pointers(self) -> list[int]:
        """Which of its own objects each system points to: where the agent is, in a file system."""
        return [
            id(value)
            for _, each in sorted(self.systems.items())
            for name, value in sorted(vars(each).items())
            if name.startswith("_") and type(value).__module__ == type(each).__module__
        ]

    def _carry_out(self, calls: list[str]) -> tuple[list[str], dict[str, Any]]:
        made: tuple[list[str], dict[str, Any]] = self.host.utils.execute_multi_turn_func_call(
            func_call_list=calls,
            initial_config=self.entry["initial_config"],
            involved_classes=self.entry["involved_classes"],
            model_name=self.model,
            test_entry_id=self.entry["id"],
            long_context="long_context" in self.entry["id"],
        )
        return made


HARMLESS = (
    ast.Expression,
    ast.Call,
    ast.Name,
    ast.Load,
    ast.keyword,
    ast.Constant,
    ast.List,
    ast.Tuple,
    ast.Dict,
    ast.UnaryOp,
    ast.USub,
)


def check(call: str) -> None:
    """`ValueError` for what is more than calls of tools: the benchmark evaluates it as Python."""
    for node in ast.walk(ast.parse(call, mode="eval")):
        is_tool = not isinstance(node, ast.Call) or isinstance(node.func, ast.Name)
        if isinstance(node, ast.Name):
            is_tool = not node.id.startswith("_") and not hasattr(builtins, node.id)
        if not isinstance(node, HARMLESS) or not is_tool:
            raise ValueError(f"no call of a tool: {call[:200]}")


def plain(value: Any) -> Any:
    """The value as JSON; nothing is lost but the order within a set."""
    if hasattr(value, "contents"):
        inside = {name: plain(each) for name, each in value.contents.items()}
        return {"folder": value.name, "holds": inside}
    if hasattr(value, "content"):
        return {"file": value.name, "content": value.content}
    if isinstance(value, dict):
        items = [[key, plain(each)] for key, each in value.items()]
        is_plain = all(isinstance(key, str) and key != "#" for key, _ in items)
        return dict(items) if is_plain else {"#": items}
    if isinstance(value, set):
        return sorted(value)
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


def _changes(states: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first state, then of each the systems that are otherwise than in the one before it."""
    return [
        states[0],
        *(
            {name: system for name, system in now.items() if system != then[name]}
            for then, now in itertools.pairwise(states)
        ),
    ]


def _said(found: dict[str, Any], turns: int) -> dict[str, Any]:
    """The checker's verdict, its kind of error, and where it saw it."""
    details = found.get("details") or {}
    said: dict[str, Any] = {"valid": bool(found["valid"])}
    if not said["valid"]:
        said["error"] = str(found["error_type"]).removeprefix("multi_turn:")
        numbered = NUMBERED.search(str(found.get("error_message")))
        executed = found.get("execution_result") or details.get("execution_result") or []
        said["turn"] = int(numbered[1]) + 1 if numbered else len(executed) or turns
        said["attributes"] = sorted(details.get("differences", ()))
    return said


def _spellings(value: Any) -> list[str]:
    found = [str(value)]
    if isinstance(value, int) and 10**9 < value < 4 * 10**9:
        found.append(dt.datetime.fromtimestamp(value, dt.UTC).strftime("%Y-%m-%d %H:%M:%S"))
    return found


def _category(name: str) -> str:
    return name.removeprefix("multi_turn_").rpartition("_")[0]


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def main() -> None:
    """Requests are answered until there are no more."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    host, out = Host(), sys.stdout
    sys.stdout = sys.stderr  # whatever the simulators print is no answer

    def answer(told: dict[str, Any]) -> None:
        out.write(json.dumps(told) + "\n")
        out.flush()

    for line in sys.stdin:
        try:
            request = json.loads(line)
            if request["do"] == "tasks":
                for name in host.load(request["category"]):
                    answer(host.task(name))
                answer({"end": True})
            else:
                if request["task"] not in host.tasks:
                    host.load(_category(request["task"]))
                answer(host.run(request))
        except Exception as error:  # noqa: BLE001 - the asker learns of it, and asks on
            answer({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
