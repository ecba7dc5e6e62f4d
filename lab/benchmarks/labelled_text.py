"""A recorded run as plain text for somebody who labels it: what was asked, done and changed.

Made from the recording alone, without our diff. Nothing of a verdict is in it: of a line only what
is named here is read. What is long is cut, the same way for every run.
"""

from __future__ import annotations

import ast
import gzip
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

Json = Any
BUDGET: Final = 7000
"""Characters of one run, about 1,700 tokens; a run that is longer still is not cut further."""
LIMITS: Final = (
    (700, 420),
    (500, 300),
    (420, 180),
    (340, 120),
    (260, 80),
    (190, 60),
    (130, 45),
    (90, 40),
)
"""Characters kept of what somebody said or ran, and of what came back, until the run is short."""
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def run_text(domain: str, raw: Mapping[str, Json], runs: Path) -> str:
    """The run, in a text of about `BUDGET` characters."""
    suite, _, name = domain.partition(" ")
    parts = _PARTS[suite]
    for said, replied in LIMITS:
        text = "\n".join(_once(parts(raw, runs / suite, name, said, replied)))
        if len(text) <= BUDGET:
            break
    return text


def _once(lines: Iterator[str]) -> Iterator[str]:
    """The lines, one that repeats itself at once only once."""
    for line, again in itertools.groupby(lines):
        yield line
        if more := len(list(again)) - 1:
            yield f"     (the same {more} times more)"


def _cut(value: Json, most: int) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    head = most * 2 // 3
    return f"{text[:head]} … {text[len(text) - (most - head) :]}"


def _read(path: Path) -> Json:
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


# ---------------------------------------------------------------- agent-diff


def _agent_diff(
    raw: Mapping[str, Json], folder: Path, _: str, said: int, replied: int
) -> Iterator[str]:
    names = _named_ids(folder)
    own = {
        str(row["id"]): _row_name(row)
        for row in raw["diff"]["inserts"]
        if isinstance(row.get("id"), str)
    }

    def named(text: str) -> str:
        known = {**names, **own}
        return _UUID.sub(
            lambda m: f"{m[0][:8]}({known[m[0]]})" if m[0] in known else m[0][:8], text
        )

    yield (
        "SYSTEM: an issue tracker (a replica of Linear), by its GraphQL API; the agent acts as "
        "user 'AI Agent'."
    )
    yield f"TASK: {raw['prompt']}"
    yield "CALLS AND REPLIES:"
    messages = raw["trace"].get("messages") or []
    for message in messages[1:]:
        yield from (named(line) for line in _message(str(message), said, replied))
    if raw["trace"].get("error"):
        yield f"(the run ended: {_cut(raw['trace']['error'], 120)})"
    yield "DIFFERENCES OF STATE (journal of the database, in order of kind):"
    changes = raw["diff"]
    for row in changes["inserts"]:
        yield named(f"+ {row['__table__']}: {_cut(_filled(row), 900)}")
    for update in changes["updates"]:
        before, after = update["before"], update["after"]
        fields = [
            f"{k}: {_cut(before.get(k), said)} -> {_cut(after.get(k), said)}"
            for k in sorted({*before, *after})
            if before.get(k) != after.get(k)
        ]
        label = _row_name(after) or after.get("id")
        yield named(f"~ {update['__table__']} [{label}]: {'; '.join(fields) or 'no field'}")
    for row in changes["deletes"]:
        yield named(f"- {row['__table__']}: {_cut(_filled(row), 500)}")
    if not any(changes[kind] for kind in ("inserts", "updates", "deletes")):
        yield "none"


_DULL: Final = frozenset(
    {"__table__", "url", "branchName", "sortOrder", "boardOrder", "prioritySortOrder"}
)


def _filled(row: Mapping[str, Json]) -> dict[str, Json]:
    return {k: v for k, v in row.items() if v not in (None, [], {}, "", False) and k not in _DULL}


@lru_cache
def _named_ids(folder: Path) -> Mapping[str, str]:
    return {
        str(row["id"]): name
        for path in sorted(folder.glob("seed-linear*.json"))
        for rows in _read(path).values()
        for row in rows
        if isinstance(row.get("id"), str) and (name := _row_name(row))
    }


def _row_name(row: Mapping[str, Json]) -> str:
    for field in ("identifier", "displayName", "name", "title", "email", "body"):
        if isinstance(row.get(field), str) and row[field]:
            named = str(row[field])[:40]
            return (
                f"{named} {row['title'][:40]}"
                if field == "identifier" and row.get("title")
                else named
            )
    return ""


def _message(text: str, said: int, replied: int) -> Iterator[str]:
    body, _, rest = text.partition(" additional_kwargs=")
    is_reply = not rest
    if is_reply:
        body = re.split(r" name='[\w-]+' (?:id|tool_call_id)=", text)[0]
    content = _literal(body.removeprefix("content="))
    if is_reply:
        yield f"  <- {_cut(content, replied)}"
        return
    if content:
        yield f"  agent says: {_cut(content, said)}"
    found = re.search(r" tool_calls=(\[.*\]) usage_metadata=", rest, re.DOTALL)
    for call in _literal(found[1]) if found else []:
        code = call["args"].get("code", call["args"]) if isinstance(call, dict) else call
        yield f"  -> {_cut(code, said)}"


def _literal(text: str) -> Json:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


# ---------------------------------------------------------------- tau2


def _tau2(
    raw: Mapping[str, Json], folder: Path, name: str, said: int, replied: int
) -> Iterator[str]:
    yield f"SYSTEM: {_SYSTEMS[name]}"
    yield f"TASK: {_asked(raw, folder, name)}"
    init = raw["before"].get("init_delta") or []
    if init:
        yield "THE TASK BEGINS WITH (set up before the run):"
        yield from (f"  {line}" for step in init for line in _steps(step))
    if name in ("retail", "tb_retail"):
        yield from _shop_before(raw, folder, name)
    yield "CONVERSATION AND CALLS:"
    # What reads of the shop show is said before; of the phone's, nothing else says it.
    yield from _course(raw, said, replied, 70 if "retail" in name else 160)
    if raw.get("termination") not in (None, "user_stop", "agent_stop"):
        yield f"(the run ended: {raw['termination']})"
    yield "DIFFERENCES OF STATE, after against before:"
    delta = raw["after"]["delta"]
    yield from (f"  {line}" for step in delta for line in _steps(step))
    if not delta:
        yield "  none"


_SYSTEMS: Final = {
    "retail": "customer service of a shop. Policy: POLICY-retail.md",
    "tb_retail": "customer service of a shop. Policy: POLICY-retail.md",
    "telecom": "customer service of a phone company; `user …` is the state of the customer's own "
    "phone. Policy: POLICY-telecom.md",
    "mock": "a list of tasks of a team, kept by an assistant. Policy: none given",
}


def _asked(raw: Mapping[str, Json], folder: Path, name: str) -> str:
    if "instruction" in raw:
        return f"(the customer, played by a program, was told) {raw['instruction']}"
    tasks = _tasks(folder, name)
    task = tasks.get(str(raw.get("task_key"))) or {}
    if raw.get("solo_mode") and task.get("ticket"):
        return (
            "(ticket; no customer to talk to, the agent works alone, the phone too) "
            f"{task['ticket']}"
        )
    told = task["user_scenario"]["instructions"]
    if isinstance(told, str):
        return f"(the user, played by a program, was told) {told}"
    parts = [
        f"{part}: {' '.join(str(told[part]).split())}"
        for part in ("reason_for_call", "known_info", "unknown_info", "task_instructions")
        if told.get(part)
    ]
    whole = " | ".join(parts)[: 900 if name == "telecom" else 1800]
    return f"(the customer, played by a program, was told) {whole}"


@lru_cache
def _tasks(folder: Path, name: str) -> Mapping[str, Json]:
    return {each["task_key"]: each["task"] for each in _read(folder / f"tasks_{name}.json.gz")}


def _course(raw: Mapping[str, Json], said: int, replied: int, shown: int) -> Iterator[str]:
    """Conversation and calls in order; of what was only read, `shown` characters."""
    events: list[tuple[int, int, str]] = []
    for call in raw["trace"]:
        who = "" if call["requestor"] == "assistant" else f"({call['requestor']}'s own call) "
        error = " ERROR" if call.get("error") else ""
        args = json.dumps(call["args"], ensure_ascii=False)
        line = f"  {who}-> {call['name']}({_cut(args, max(said, 260))})"
        kept = replied if call["mutating"] or error else min(replied, shown)
        events.append(
            (call["m"], call["i"], f"{line} <-{error} {_cut(call['output'] or '', kept)}")
        )
    events += [
        (text["m"], -1, f"  {text['role']}: {_cut(text['text'] or '', said)}")
        for text in raw["texts"]
    ]
    yield from (text for *_, text in sorted(events, key=lambda e: e[:2]))


def _steps(step: Mapping[str, Json]) -> Iterator[str]:
    """The step; of lists of things with names of their own, what changed in each thing."""
    old, new = step.get("old"), step.get("new")
    if step["op"] != "replace" or not (_by_id(old) and _by_id(new)):
        yield _step(step, 420)
        return
    path = " / ".join(str(part) for part in step["path"])
    yield from _differences(_by_id(old), _by_id(new), path)


def _by_id(listed: Json) -> dict[str, Json]:
    """Things by the value of their first field, where that names each; else nothing."""
    if not isinstance(listed, list) or not all(isinstance(each, dict) and each for each in listed):
        return {}
    first = [next(iter(each)) for each in listed]
    found = {f"{name} {each[name]}": each for name, each in zip(first, listed, strict=True)}
    return found if all(n.endswith("_id") for n in first) and len(found) == len(listed) else {}


def _step(step: Mapping[str, Json], most: int) -> str:
    path = " / ".join(str(part) for part in step["path"])
    old, new = step.get("old"), step.get("new")
    if isinstance(old, list) and isinstance(new, list):
        same = sum(each in new for each in old)
        old, new = [e for e in old if e not in new], [e for e in new if e not in step["old"]]
        path += f" ({same} entries as before)" if same else ""
    match step["op"]:
        case "add":
            return f"+ {path}: {_cut(new, most)}"
        case "remove":
            return f"- {path}: {_cut(old, most)}"
    return f"~ {path}: {_cut(old, most)} -> {_cut(new, most)}"


@lru_cache
def _shop(folder: Path, name: str) -> Json:
    state = _read(folder / f"initial_{name}.json.gz")
    return state.get("agent", state)


def _shop_before(raw: Mapping[str, Json], folder: Path, name: str) -> Iterator[str]:
    """What the shop knew of the customer and of the items that were touched, before the run."""
    shop = _shop(folder, name)
    user = raw.get("user_id") or _customer(raw, shop)
    if user not in shop["users"]:
        return
    known = shop["users"][user]
    ways = {k: _way(v) for k, v in known["payment_methods"].items()}
    address = _cut(known["address"], 200)
    yield f"BEFORE THE RUN, customer {user}: {address}; pays by {_cut(ways, 200)}"
    for order in known["orders"]:
        it = shop["orders"][order]
        items = ", ".join(
            f"{i['name']} {i['item_id']} ${i['price']} {_options(i)}" for i in it["items"]
        )
        paid = ", ".join(f"{p['amount']} {p['payment_method_id']}" for p in it["payment_history"])
        yield f"  order {order} {it['status']}, paid {paid}: {items}"
    for item in _bought(raw):
        for product in shop["products"].values():
            if item in product["variants"]:
                it = product["variants"][item]
                there = "available" if it["available"] else "NOT available"
                yield f"  new item {item}: {product['name']} ${it['price']} {_options(it)} {there}"
                near = [
                    f"{v['item_id']} ${v['price']} {_options(v)}"
                    for v in product["variants"].values()
                    if v["available"] and v["item_id"] != item
                ]
                others = _cut("; ".join(near), 420)
                yield f"    other {product['name']} variants available: {others}"


def _way(method: Mapping[str, Json]) -> str:
    return f"{method['source']} {method.get('balance', '')}".strip()


def _options(item: Mapping[str, Json]) -> str:
    return f"({', '.join(str(v) for v in item['options'].values())})"


def _customer(raw: Mapping[str, Json], shop: Json) -> str:
    for call in raw["trace"]:
        given = call["args"].get("user_id")
        if isinstance(given, str):
            return given
        order = call["args"].get("order_id")
        if order in shop["orders"]:
            return str(shop["orders"][order]["user_id"])
        if call["name"].startswith("find_user") and call["output"] in shop["users"]:
            return str(call["output"])
    return ""


def _bought(raw: Mapping[str, Json]) -> list[str]:
    made = [
        item
        for call in raw["trace"]
        for item in call["args"].get("new_item_ids") or ()
        if isinstance(call["args"].get("new_item_ids"), list)
    ]
    return list(dict.fromkeys(map(str, made)))


# ---------------------------------------------------------------- bfcl


def _bfcl(
    raw: Mapping[str, Json], folder: Path, name: str, said: int, replied: int
) -> Iterator[str]:
    task = _bfcl_tasks(folder, name)[raw["task"]]
    before = raw["states"][0] or task["states"][0]
    yield (
        "SYSTEM: simulated systems, called as functions; the agent has no words of its own here, "
        "only calls. Policy: none"
    )
    yield "STATE BEFORE: " + _cut(_plain(before), 1400 if said > 200 else 800)
    state = dict(before)
    for number, (message, calls) in enumerate(zip(task["messages"], raw["turns"], strict=True), 1):
        yield f"TURN {number}, user: {message}"
        for call in calls:
            yield f"  -> {_cut(call['call'], max(said, 260))}"
            yield f"     <- {_cut(call['result'], replied)}"
        if not calls:
            yield "  (no call)"
        later = {**state, **raw["states"][number]}
        yield from (f"  changed: {line}" for line in _differences(_plain(state), _plain(later), ""))
        state = later
    yield "DIFFERENCES OF STATE, after the last turn against before:"
    found = list(_differences(_plain(before), _plain(state), ""))
    yield from (f"  {line}" for line in found)
    if not found:
        yield "  none"


@lru_cache
def _bfcl_tasks(folder: Path, name: str) -> Mapping[str, Json]:
    lines = (folder / "tasks" / f"{name}.jsonl").read_text("utf-8").splitlines()
    return {task["id"]: task for task in map(json.loads, lines)}


def _plain(tree: Json) -> Json:
    """Files and folders by name, and lists of pairs as objects: how people write them."""
    if isinstance(tree, Mapping):
        if set(tree) == {"folder", "holds"}:
            return {f"{k}/" if "holds" in v else k: _plain(v) for k, v in tree["holds"].items()}
        if set(tree) == {"file", "content"}:
            return tree["content"]
        if set(tree) == {"#"}:
            return {str(k): _plain(v) for k, v in tree["#"]}
        return {k: _plain(v) for k, v in tree.items()}
    return [_plain(each) for each in tree] if isinstance(tree, list) else tree


def _differences(old: Json, new: Json, path: str) -> Iterator[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}, key=str):
            where = f"{path} / {key}" if path else str(key)
            if key not in old:
                yield f"+ {where}: {_cut(new[key], 300)}"
            elif key not in new:
                yield f"- {where}: {_cut(old[key], 200)}"
            else:
                yield from _differences(old[key], new[key], where)
    elif old != new:
        yield f"~ {path}: {_cut(old, 200)} -> {_cut(new, 300)}"


_PARTS: Final[Mapping[str, Any]] = {"agent-diff": _agent_diff, "bfcl": _bfcl, "tau2": _tau2}
