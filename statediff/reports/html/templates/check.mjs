
// From here on the page itself: what stands above is the second verifier, as it is shipped.

const RFC8032 = {
  key: "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
  signature:
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da" +
    "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
};
const RESULT_NAMES = { outcome: "State", task: "Answer", tool: "Tool calls" };
const WORDS = { HOLDS: "holds", FAILS: "fails", UNKNOWN: "unknown" };

const at = (id) => document.getElementById(id);

function embedded() {
  const files = {};
  for (const part of document.querySelectorAll("script[data-sealed]")) {
    files[part.dataset.sealed] = unbase64(part.textContent.trim(), "the copy in this page");
  }
  return files;
}

/** Why this browser cannot verify; empty if it can. Tried on a signature that is known to be good. */
async function obstacle() {
  if (!globalThis.crypto?.subtle) return "it offers no cryptography to this page";
  try {
    const raw = unhex(RFC8032.key);
    const key = await crypto.subtle.importKey("raw", raw, "Ed25519", false, ["verify"]);
    const good = await crypto.subtle.verify("Ed25519", key, unhex(RFC8032.signature), Uint8Array.of(0x72));
    return good ? "" : "its Ed25519 does not do what RFC 8032 says";
  } catch {
    return "it does not know Ed25519";
  }
}

/** Why the page shows something else than what was signed; empty if it does not. */
function contradiction(manifest, leaves) {
  const word = document.querySelector("h1 [data-verdict]")?.textContent.trim();
  if (word !== manifest.verdict) return `the page shows ${word}, signed was ${manifest.verdict}`;
  const title = `${manifest.contract} ${manifest.contract_version}`;
  if (at("contract-name")?.textContent.trim() !== title) return `what was signed is of ${title}`;
  const summary = leaves.find(([, , [path]]) => path === "summary#")?.[2][1];
  if (!summary) return "the copy holds no summary";
  const listed = (pairs) => pairs.map(([id, truth]) => `${id}: ${truth}`).sort().join("\n");
  const shown = [...document.querySelectorAll("[data-clause]")].map((each) => [
    each.querySelector("summary code, :scope > code")?.textContent.trim(),
    each.querySelector(".chip")?.lastChild.textContent.trim(),
  ]);
  const signed = summary.clauses.map((each) => [each.clause, WORDS[each.truth]]);
  return listed(shown) === listed(signed) ? "" : "the clauses shown are not those that were signed";
}

const SIGNS = {
  MATCH: ["match", "✓"], DIVERGE: ["diverge", "✗"], INCONCLUSIVE: ["inconclusive", "?"],
  HOLDS: ["match", "✓"], FAILS: ["diverge", "✗"], UNKNOWN: ["inconclusive", "?"],
};
const MAX_SHOWN = 200; // of the rows of one list

/** An element; strings become text and nothing else. */
function made(name, style, ...children) {
  const found = document.createElement(name);
  if (style) found.className = style;
  found.append(...children);
  return found;
}

/** The text with what hides or reorders text spelled out. */
const visible = (each) =>
  String(each).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

function chip(word) {
  const [style, mark] = SIGNS[word] ?? ["none", "–"];
  return made("span", `chip ${style}`, `${mark} ${WORDS[word] ?? word}`);
}

const STAGES = {
  forbid: "forbidden", frame: "nothing else may change", require: "required",
  steps: "along the way", actions: "tool calls", answer: "the answer", access: "access",
};
const BARE = ["int", "decimal", "date", "timestamp", "local_timestamp", "bool", "float"];
const MAX_NESTED = 20; // a value that is nested deeper is shown as it was signed

/** A value as it was signed, in words where its kind is known, else its canonical JSON. */
function plain(value, depth = 0) {
  if (typeof value === "string") return value;
  if (depth > MAX_NESTED || !Array.isArray(value) || typeof value[0] !== "string") {
    return spoken(value) ?? canonical(value);
  }
  const [kind, part] = value;
  const inner = (each) => plain(each, depth + 1);
  if (value.length === 1 && ["absent", "null"].includes(kind)) return kind;
  if (value.length !== 2) return canonical(value);
  if (kind === "text" && typeof part === "string") return JSON.stringify(part);
  if (BARE.includes(kind) && typeof part !== "object") return String(part);
  if (kind === "list" && Array.isArray(part)) return `[${part.map(inner).join(", ")}]`;
  if (kind === "map" && isFields(part)) return `{${part.map(([name, each]) => `${JSON.stringify(name)}: ${inner(each)}`).join(", ")}}`;
  return canonical(value);
}

/** What a comparison came to: a value or a number; undefined where it is something else. */
function spoken(value) {
  if (value?.is === "value" && Array.isArray(value.value)) return plain(value.value);
  if (value?.is === "fraction" && typeof value.number === "string") return value.number.replace(/\/1$/, "");
  return undefined;
}

const isFields = (value) =>
  Array.isArray(value) && value.length > 0 &&
  value.every((each) => Array.isArray(each) && each.length === 2 && typeof each[0] === "string" && Array.isArray(each[1]));

const shownValue = (value) =>
  visible(isFields(value) ? value.map(([name, each]) => `${name} ${plain(each)}`).join(", ") : plain(value));

function table(caption, pairs) {
  const rows = pairs.slice(0, MAX_SHOWN).map(([name, text]) => {
    const head = made("th", "", visible(name));
    head.scope = "row";
    return made("tr", "", head, made("td", "", made("span", "v", text)));
  });
  const note = pairs.length > MAX_SHOWN ? ` (${pairs.length - MAX_SHOWN} more)` : "";
  const title = made("caption", "", `${visible(caption)}${note}`);
  return made("div", "scroll", made("table", "witness", title, made("tbody", "", ...rows)));
}

/** The parts of a counterexample, as they were signed. */
function exampleParts(example) {
  const parts = [made("h3", "", "The counterexample")];
  const title = `${visible(example.clause)}: ${visible(example.code)}`;
  parts.push(made("p", "", chip(example.truth), ` ${title}`));
  if (example.sentence) parts.push(made("p", "", made("b", "", visible(example.sentence))));
  const pairs = (fields) => fields.map(([name, value]) => [name, shownValue(value)]);
  for (const row of example.witness?.rows ?? []) {
    const key = row.key.map(shownValue).join(", ");
    parts.push(table(`${row.side}: ${row.type}[${key}]`, pairs(row.fields)));
  }
  for (const delta of example.deltas ?? []) {
    const sides = ["before", "after"].map((side) => {
      const value = delta[side]?.value ?? delta[side]?.entity ?? delta[side];
      return [side, shownValue(value)];
    });
    parts.push(table(`${delta.op} ${delta.id}`, sides));
  }
  for (const each of example.witness?.comparisons ?? []) {
    const sides = ["left", "operator", "right"].map((name) => [name, shownValue(each[name])]);
    parts.push(table(each.text, sides));
  }
  return parts;
}

/** What was signed, made of the verified leaves and of nothing that was in the page. */
function panel(status, why, manifest, leaves) {
  const values = new Map(leaves.map(([, , [path, value]]) => [path, value]));
  const { clauses, codes, results } = values.get("summary#");
  const [style, mark] = SIGNS[manifest.verdict];
  const state = SIGNS[status === "VALID" ? "MATCH" : "UNKNOWN"];
  const title = `${visible(manifest.contract)} ${visible(manifest.contract_version)}`;
  const head = made("header", `banner ${style}`, made("div", "inner",
    made("p", "eyebrow", `what was signed · ${title}`),
    made("h1", "", made("span", "seal", mark), made("span", "", manifest.verdict)),
    made("p", `check ${state[0]}`, made("span", `chip ${state[0]}`, `${state[1]} ${status}`), ` ${why}`),
  ));
  const body = made("div", "page single");
  const list = made("ul", "permits");
  for (const each of clauses) {
    list.append(made("li", "", chip(each.truth), " ", made("code", "", visible(each.clause)),
      " ", made("span", "note", Object.hasOwn(STAGES, each.stage) ? STAGES[each.stage] : visible(each.stage))));
  }
  const named = Object.entries(results).filter(([name, each]) => Object.hasOwn(RESULT_NAMES, name) && each !== null);
  body.append(made("section", "",
    made("h2", "", "The clauses"), list,
    made("p", "", ...named.flatMap(([name, each]) => [`${RESULT_NAMES[name]} `, chip(each), " "])),
    made("p", "note", `Codes: ${codes.map(visible).join(", ")}`),
    ...(values.has("counterexample#") ? exampleParts(values.get("counterexample#")) : []),
    table("The trial", ["trial", "kernel", "statediff", "sealed_at"].map((name) => [name, visible(manifest[name])])),
  ));
  const found = made("div", "verified", head, body);
  found.id = "verified";
  return found;
}

/** The page as it came is put away under a label; what was verified is all that shows above it. */
function show(verified) {
  document.querySelectorAll("#verified").forEach((each) => each.remove());
  let old = document.querySelector("body > details[data-unverified]");
  if (!old?.dataset.own) {
    const label = made("summary", "", "The page as it was handed over. Nothing below was verified.");
    const rest = [...document.body.children];
    old = made("details", "unverified", label);
    old.dataset.unverified = old.dataset.own = "yes";
    old.append(...rest);
  }
  for (const each of [document.documentElement, document.body]) {
    each.hidden = false;
    each.removeAttribute("inert");
    each.removeAttribute("class");
  }
  document.body.replaceChildren(verified, old);
  document.title = visible(verified.querySelector("h1").textContent);
}

function tell(style, mark, word, why) {
  for (const box of document.querySelectorAll("[data-check]")) {
    box.className = `check ${style}`;
    const chip = document.createElement("span");
    chip.className = `chip ${style}`;
    chip.textContent = `${mark} ${word}`;
    box.replaceChildren(chip, ` ${why}`);
  }
}

async function check(trust) {
  const missing = await obstacle();
  if (missing) {
    tell("none", "–", "CANNOT VERIFY HERE", `This browser cannot: ${missing}. Save the copy and use the command below.`);
    return;
  }
  let known;
  try {
    known = await readTrust(trust);
  } catch (error) {
    if (!(error instanceof Rejected)) throw error;
    tell("none", "–", "NOT CHECKED", `That is no trust file: ${error.message}`);
    return;
  }
  try {
    const found = await verify(embedded(), known);
    const { status, signers, manifest, withheld, leaves } = found;
    const why = contradiction(manifest, leaves);
    if (why) reject(why);
    const log = found.logged;
    const entry = log ? `, entry ${log.entry} of the log ${visible(log.origin)} since ${log.at}` : "";
    const by = `sealed by ${signers.join(" and ")} at ${manifest.sealed_at}${entry}`;
    const count = Object.values(withheld).reduce((sum, each) => sum + each, 0);
    const isWhole = status === "VALID";
    const how = isWhole
      ? `${by}; all that the decision rests on is disclosed.`
      : `Genuine, ${by}; ${count} of ${manifest.tree.leaves} leaves are withheld, so the verdict stands on the signature alone.`;
    tell(isWhole ? "match" : "inconclusive", isWhole ? "✓" : "?", status, how);
    show(panel(status, how, manifest, leaves));
  } catch (error) {
    document.querySelectorAll("#verified").forEach((each) => each.remove());
    tell("diverge", "✗", "INVALID", error instanceof Rejected ? error.message : "the page is broken");
    if (!(error instanceof Rejected)) throw error;
  }
}

if (at("verify-tools")) {
  at("verify-tools").hidden = false;
  tell("none", "–", "NOT CHECKED YET", "Give a trust file that you have from elsewhere.");
  const missing = await obstacle();
  if (missing) tell("none", "–", "CANNOT VERIFY HERE", `This browser cannot: ${missing}. Save the copy and use the command below.`);
  at("trust-text").addEventListener("input", () => {
    if (at("trust-text").value.trim()) check(text.encode(at("trust-text").value));
  });
  at("trust-file").addEventListener("change", async () => {
    const file = at("trust-file").files[0];
    if (file && file.size <= 1024 * 1024) {
      at("trust-text").value = "";
      check(new Uint8Array(await file.arrayBuffer()));
    } else if (file) tell("none", "–", "NOT CHECKED", "That file is too large for a trust file.");
  });
  for (const button of document.querySelectorAll("[data-save]")) {
    button.addEventListener("click", () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([embedded()[button.dataset.save]]));
      link.download = button.dataset.save;
      link.click();
      URL.revokeObjectURL(link.href);
    });
  }
}
