"""The pages that the site makes of code and packs: `PAGES`, each by its name."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import wrap
from typing import Any, Final

import click
import typer
from ruamel.yaml import YAML
from statediff_lab.importers.taxonomy import Cause

from statediff.cli.main import parser
from statediff.contract.document.jsonschema import (
    contract_schema,
    sandbox_schema,
    state_schema_schema,
)
from statediff.contract.file import load_contract
from statediff.contract.language.names import FUNCTIONS
from statediff.contract.lint import CATALOGUE
from statediff.entrypoints import plug_ins
from statediff.kernel.canonicalize.rules import RULES
from statediff.meta.cases import read_cases
from statediff.model.codes import FindingCode, Truth
from statediff.packs import SandboxPack, contract_folders, sandbox_names, sandbox_pack
from statediff.systems.base.registry import GROUP, plugins

DOCS: Final = Path(__file__).parent
OURS: Final = frozenset(
    name for name, each in plug_ins(GROUP).items() if each.module.startswith("statediff")
)
_SHAPES: Final = {
    "quantifier": "(CONDITION for x in COLLECTION)",
    "elements": "(VALUE for x in COLLECTION)",
    "numbers": "(NUMBER for x in COLLECTION)",
    "ordered": "(VALUE for x in COLLECTION)",
    "entities": "(x for x in COLLECTION)",
    "entity": "(ENTITY)",
    "sized": "(TEXT or LIST)",
    "within": "(NUMBER, NUMBER, TOLERANCE)",
    "regex": "(TEXT, PATTERN)",
    "text2": "(TEXT, PART)",
    "instant": "(TEXT)",
    "lower": "(TEXT)",
    "same": "(LIST, LIST)",
    "path": "(ENTITY, ENTITY, via=[TYPE.REFERENCE, (TYPE.IN, TYPE.OUT)])",
}


def row(*cells: str) -> str:
    """A line of a table; bars in cells are escaped."""
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def table(*head: str) -> list[str]:
    """The head of a table."""
    return [row(*head), "|" + "---|" * len(head)]


def shape_of(schema: dict[str, Any]) -> str:
    """What a JSON Schema asks for, in a few words."""
    if "description" in schema and "$ref" not in schema:
        named = schema.get("items", schema.get("additionalProperties"))
        choices = named.get("anyOf", [named]) if isinstance(named, dict) else []
        links = " or ".join(shape_of(one)[4:] for one in choices if "$ref" in one)
        return f"{schema['description']}{f'; see {links}' if links else ''}"
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"see [{name}](#{name.lower()})"
    if "enum" in schema:
        return "one of " + ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "anyOf" in schema:
        return "; or ".join(shape_of(choice) for choice in schema["anyOf"])
    if schema.get("type") == "array":
        return f"a list of: {shape_of(schema.get('items', {}))}"
    if schema.get("type") == "object":
        inner = schema.get("additionalProperties")
        return f"a mapping to: {shape_of(inner)}" if isinstance(inner, dict) else "a mapping"
    words = {"string": "text", "boolean": "true or false", "integer": "a whole number"}
    return words.get(schema.get("type", ""), "any value")


def keys(title: str, schema: dict[str, Any], level: str = "###") -> list[str]:
    """One mapping with fixed keys as a table."""
    required = set(schema.get("required", ()))
    lines = [f"{level} {title}", "", schema.get("description", "").split("\n\n")[0], ""]
    lines += table("key", "expected", "default")
    for name, held in schema.get("properties", {}).items():
        default = "required" if name in required else "none"
        if name not in required and held.get("default") not in (None, (), [], {}):
            default = f"`{str(held['default']).lower()}`"
            if isinstance(held["default"], dict):
                default = "see there"
        lines.append(row(f"`{name}`", shape_of(held), default))
    if schema.get("additionalProperties") is True:
        lines += ["", "Further keys are parameters of the rule."]
    return [*lines, ""]


def reference() -> str:
    """The page reference.md."""
    lines = ["# Reference", ""]
    lines += [
        "Every key, function, rule, finding and lint code. How to write a contract is described in",
        "[first-contract.md](first-contract.md) and [contract.md](contract.md).",
        "",
    ]
    for heading, schema in (
        ("Contract", contract_schema()),
        ("State schema file", state_schema_schema()),
        ("Sandbox file", sandbox_schema()),
    ):
        lines += keys(heading, schema, "##")
        for name, inner in sorted(schema["$defs"].items()):
            if "properties" in inner:
                lines += keys(name, inner)
    lines += ["## Functions", "", *table("function", "meaning")]
    lines += [row(f"`{f.name}{_SHAPES[f.shape]}`", f.help) for f in FUNCTIONS.values()]
    lines += ["", "## Rules of canonicalization", "", *table("rule", "parameters", "meaning")]
    for rule in RULES.values():
        parameters = ", ".join(f"`{p.name}`" for p in rule.parameters) or "none"
        lines.append(row(f"`{rule.id}`", parameters, rule.docs))
    lines += ["", "## Findings", "", *table("code", "meaning")]
    lines += [row(f"`{code}`", meaning(code)) for code in FindingCode if any(code.stages.values())]
    lines += ["", "## Lint codes", "", "Described in full in [check.md](check.md).", ""]
    lines += table("code", "severity")
    lines += [row(f"[`{c.code}`](check.md)", c.severity) for c in CATALOGUE.values()]
    return "\n".join(lines).rstrip() + "\n"


def meaning(code: FindingCode) -> str:
    """What a code means, with what only the author of a contract needs."""
    return f"{code.meaning}; {code.note}" if code.note else code.meaning


def findings() -> str:
    """The page findings.md."""
    lines = ["# Findings: every code, and what it means", ""]
    lines += wrap(
        "A clause yields findings. Each names the clause, a stable code, the stage of judgement, a "
        "truth (HOLDS, FAILS, UNKNOWN), a sentence, the deltas and readings it rests on, a "
        "witness, and, where the truth is UNKNOWN, what is missing. `component` says which "
        "pipeline stage owns the cause: an agent is not to blame for what `capture` could not "
        "read. Of an open question it is the stage of the code, unless a cause is of a later one: "
        "`canonicalize` had a digest instead of a content, or `diff` more rows without keys than "
        "it compares. What is wrong with a bundle is an error of the stage `evidence`.", 100,
    )  # fmt: skip
    lines += ["", "## Nothing wrong", "", *table("code", "meaning")]
    lines += [row(f"`{c}`", meaning(c)) for c in FindingCode if Truth.HOLDS in c.stages]
    lines += ["", "## Violations (FAILS, the verdict is DIVERGE)", ""]
    lines += wrap(
        "An omission says nothing but that something required was not done. Where a system ended "
        "while the agent ran, a run has no verdict if all its violations are omissions or of the "
        "stages require and answer.", 100,
    )  # fmt: skip
    lines += ["", *table("code", "stage", "omission", "meaning")]
    for code in FindingCode:
        if stages := code.stages.get(Truth.FAILS):
            named = ", ".join(stage.value for stage in stages)
            lines.append(row(f"`{code}`", named, "yes" * code.is_omission, meaning(code)))
    lines += [
        "", "## Open questions (UNKNOWN, the verdict is INCONCLUSIVE unless something else FAILS)",
        "",
        "Where the run caused it, the cause is the agent.",
        "",
        *table("code", "component", "cause", "meaning"),
    ]  # fmt: skip
    lines += [
        row(f"`{c}`", c.component, str(c.origin or ""), meaning(c))
        for c in FindingCode
        if c.stages.get(Truth.UNKNOWN)
    ]
    lines += ["", "## Rulings of `statediff lab reads`", ""]
    lines += wrap(
        "`statediff lab reads judge` judges runs without a contract. Its rulings have codes of the "
        "access stage, and these, which no clause yields.", 100,
    )  # fmt: skip
    lines += ["", *table("code", "truth", "meaning")]
    lines += [
        row(f"`{code}`", truth.value, meaning(code))
        for code in FindingCode
        for truth, stages in code.stages.items()
        if not stages
    ]
    return "\n".join(lines) + "\n"


def lint() -> str:
    """The page check.md."""
    lines = ["# Lint: every code, and what to write instead", ""]
    lines += [
        "`statediff check` reports errors (the contract cannot be used, or its verdicts would be",
        "wrong; exit code 2), warnings (something is let through that its author probably did not",
        "mean) and advice. Each remark has a place, a code and what to write instead.",
    ]
    for family in dict.fromkeys(entry.family for entry in CATALOGUE.values()):
        lines += ["", f"## {family[:1].upper()}{family[1:]}", ""]
        lines += table("code", "severity", "meaning", "instead")
        lines += [
            row(f"`{c.code}`", c.severity, c.meaning, c.instead)
            for c in CATALOGUE.values()
            if c.family == family
        ]
    return "\n".join(lines) + "\n"


def packs() -> str:
    """The page packs.md."""
    lines = ["# The packs: sandboxes and tasks that come with statediff", ""]
    lines += [
        "Each sandbox runs on a laptop with nothing but Python. `statediff run TASK --agent-cmd …`",
        "tries an agent; `statediff check --explain TASK` says in English what it permits. Each",
        "has reference agents that reach the goal by different valid paths, and agents that do it",
        "wrong; the tests run them all and compare verdict, clause and stage.",
    ]
    for name in sandbox_names():
        pack = sandbox_pack(name)
        lines += ["", f"## {name}", "", " ".join(pack.about.split()), ""]
        lines += [f"Sources: {', '.join(f'`{s.name}` ({s.kind})' for s in pack.sources)}.", ""]
        lines += ["Real:", "", *(f"- {' '.join(told.split())}" for told in pack.real), ""]
        lines += ["Simulated:", "", *(f"- {' '.join(told.split())}" for told in pack.simulated)]
        for variant in pack.variants[1:]:
            lines += ["", *served(sandbox_pack(name, variant))]
        lines += ["", *table("task", "what it asks", "classes of action", "right", "wrong")]
        for folder in contract_folders():
            content = load_contract(folder.contract).content
            if content.sandbox == name:
                cases = read_cases(folder.folder)
                lines.append(
                    row(
                        f"`{folder.name}`", " ".join(content.intent.split()),
                        ", ".join(cases.classes), str(len(cases.references)), str(cases.wrong),
                    )
                )  # fmt: skip
    return "\n".join([*lines, "", *tools()]) + "\n"


def tools() -> list[str]:
    """The tools that each system has for agents; making them connects to nothing."""
    lines = ["## Tools for agents", "", "Each name begins with that of its source: `db_query`.", ""]
    lines += table("system", "tools")
    for system in sorted(OURS):
        offer = plugins()[system].tools
        if offer is not None:
            made = offer.make("", f"{min(offer.schemes)}://name:key@127.0.0.1:9/place")
            lines.append(row(system, ", ".join(f"`{tool.name[1:]}`" for tool in made)))
    return lines


def served(pack: SandboxPack) -> list[str]:
    """What a variant with real servers says of itself."""
    sources = ", ".join(f"`{s.name}` ({s.kind})" for s in pack.sources)
    return [
        f"With `--sandbox {pack.variant}`, see [docker.md](docker.md): {sources}. Real:", "",
        *(f"- {' '.join(told.split())}" for told in pack.real), "", "Simulated:", "",
        *(f"- {' '.join(told.split())}" for told in pack.simulated),
    ]  # fmt: skip


def blocks(lines: list[str], indent: str) -> list[list[str]]:
    """The lines cut where an entry begins; comments before an entry are its own."""
    found: list[list[str]] = []
    comments: list[str] = []
    for line in lines:
        if line.startswith(f"{indent}#") or not line.strip():
            comments.append(line)
        elif line.startswith(indent) and not line.startswith(indent + " "):
            found.append([*comments, line])
            comments = []
        else:
            found[-1] += [*comments, line]
            comments = []
    return found


def excerpt(text: str, show: list[str]) -> str:
    """The lines of a contract file that hold these keys, or these clauses of them."""
    keys = {
        next(line for line in block if line[:1].isalpha()).partition(":")[0]: block
        for block in blocks(text.splitlines(), "")
    }
    wanted: dict[str, list[str]] = {}
    for name in show:
        key, _, clause = name.partition("/")
        wanted.setdefault(key, [])
        wanted[key] += [clause] if clause else []
    lines: list[str] = []
    for key, clauses in wanted.items():
        at = next(i for i, line in enumerate(keys[key]) if line.startswith(key))
        head, *rest = keys[key][at:]
        listed = blocks(rest, "  ")
        named = {m[1]: b for b in listed if (m := re.search(r"\bid: ([\w-]+)", "\n".join(b)))}
        chosen = [named[clause] for clause in clauses] if clauses else listed
        lines += [*([""] if lines else []), head]
        lines += [line for block in chosen for line in block if line.strip()]
    return "\n".join(lines)


def examples() -> str:
    """The page examples.md."""
    told = YAML(typ="safe").load(DOCS / "examples" / "explained.yaml")
    lines = ["# Twelve tasks, and the contracts that judge them", ""]
    lines += [
        "For each task the part of its contract that carries it, as the file has it. Patterns and",
        "expressions are described in [contract.md](contract.md); every change that",
        "nothing in the file explains is a violation.",
    ]
    for task in told:
        folder = DOCS.parent / task["contract"]
        contract = (folder / "contract.yaml").read_text(encoding="utf-8")
        name = task["contract"].removeprefix("contracts/").removeprefix("docs/")
        link = f"../{task['contract']}".removeprefix("../docs/")
        lines += ["", f"## {task['kind']}", "", f"Judged by [`{name}`]({link})."]
        lines += [*wrap(task["hard"], 100), ""]
        lines += ["```yaml", excerpt(contract, task["show"]), "```", "", *wrap(task["does"], 100)]
    return "\n".join(lines) + "\n"


def not_observed() -> str:
    """The page of what each source does not look at."""
    lines = ["# What is not looked at", ""]
    lines += [
        "A change of what is listed here is in no delta. Everything else that a source names is",
        "state; what it could not read is *unobserved*, and never taken to be unchanged.",
    ]
    for name, plugin in sorted(plugins().items()):
        if name not in OURS:
            continue
        lines += ["", f"## {name}", "", *table("source", "not looked at")]
        lines += [
            row(f"`{source.__name__}`", phrase)
            for source in plugin.sources()
            for phrase in source.not_observed  # type: ignore[attr-defined]
        ]
    return "\n".join(lines) + "\n"


def commands() -> str:
    """The page cli.md: the one in `docs/`, with the help of each command below it."""
    root = typer.main.get_command(parser())
    lines = [(DOCS / "cli.md").read_text(encoding="utf-8")]
    for name, each in sorted(root.commands.items()):  # type: ignore[attr-defined]
        inner = getattr(each, "commands", {})
        lines += [f"## statediff {name}", "", str(each.help), ""]
        lines += options(each) if not inner else []
        for part, command in sorted(inner.items()):
            lines += [f"### statediff {name} {part}", "", str(command.help), "", *options(command)]
    return "\n".join(lines).rstrip() + "\n"


def labels() -> str:
    """The table of audit.md: what each label of a disagreement says."""
    rows = [row(f"`{cause}`", cause.words) for cause in Cause]
    return "\n".join([*table("label", "what it says"), *rows])


def options(command: click.Command) -> list[str]:
    """The table of what a command takes."""
    lines = table("argument or option", "meaning")
    for each in command.params:
        if each.opts != ["--help"] and (each.help or not each.hidden):  # type: ignore[attr-defined]
            named = each.opts if each.param_type_name == "option" else [each.opts[0].upper()]
            lines.append(row(", ".join(f"`{name}`" for name in named), str(each.help or "")))  # type: ignore[attr-defined]
    return [*lines, ""]


PAGES: Final = {
    "reference.md": reference, "findings.md": findings, "check.md": lint, "packs.md": packs,
    "examples.md": examples, "not-observed.md": not_observed, "cli.md": commands,
}  # fmt: skip
