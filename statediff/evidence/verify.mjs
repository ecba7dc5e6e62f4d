// A second verifier of sealed bundles, independent of the first: it shares no code with it, only the
// format, which stands at the top of verify.py. It runs in Node 20 and in current browsers, where
// WebCrypto has Ed25519.
//
// A copy is a folder of its files, or the one zip that `zipped` makes of them.
//
//   node verify.mjs SEALED TRUST     prints one JSON object; 0 VALID, 3 NOT_REPLAYABLE_AT_TIER,
//                                    4 INVALID, 2 nothing was verified

const FORMAT = "statediff/sealed/1.1";
const TRUST = "statediff/trust/1";
const TRUST_OF_SEVERAL = "statediff/trust/1.1"; // with a threshold
const FILES = ["envelope.json", "leaves.json", "manifest.json"];
const PROOF = "log.tlog-proof";
const STAMP = "stamp.tsr";
const MORE = [PROOF, STAMP]; // may be there; made after the signature
const STATEMENT = "https://in-toto.io/Statement/v1";
const PREDICATE = "https://in-toto.io/attestation/test-result/v0.1";
const CONTRACT = "contract.yaml#";
const PAYLOAD = "application/vnd.in-toto+json";
const BOUND = "statediff/bundle/1.1"; // bundles of this format have state roots
const UNBOUND = "statediff/bundle/1"; // these have none
const ROOTS = "statediff/roots/1";
const SIDES = ["before", "after"];
const EMPTY = "0".repeat(64);
const RAW = "auditor/raw"; // kept beside the evidence; no decision rests on it
const ROLE = "evaluator";
const SUMMARY = "summary#";
const FACTS = ["contract", "contract_version", "kernel", "statediff", "trial", "verdict"];
// File of a bundle: the arrays whose elements are leaves of their own; `*` is each element.
const PIECES = {
  "answer.json": [],
  "captures.json": ["/before", "/after", "/enumerations/*"],
  "contract.yaml": [],
  "fragments.json": ["/*/rows", "/*/scans/*/members"],
  "index.json": [],
  "judgement.json": ["/clauses", "/findings", "/deltas", "/hidden", "/doubts"],
  "manifest.json": [],
  "observation.json": ["/opened"],
  "resolution.json": ["/mappings/*", "/doubts"],
  "roots.json": [],
  "schema.json": [],
  "timeline.json": [],
  "trace.json": ["/actions"],
  "trial.json": [],
};
const STATE_ROOTS = "roots.json"; // only of a bundle with state roots
const OBSERVATION = "observation.json"; // only where an observer signed what there was
const PARTS = Object.keys(PIECES).filter((name) => ![STATE_ROOTS, OBSERVATION].includes(name));
const OBSERVED = "urn:statediff:observation:1";
// Part of an observation: the file that shows it. The last is there where a bundle withholds values.
const OBSERVABLE = {
  agent: null, answer: "answer.json", ending: "trial.json", schema: "schema.json",
  states: "captures.json", times: "timeline.json", trace: "trace.json", trial: "trial.json",
  undisclosed: null,
};
const LISTED = { "captures.json": ["before", "after"], "trace.json": ["actions"] };
const LONE = [
  SUMMARY, "counterexample#", "review#", "undisclosed.json#", ...Object.keys(PIECES).map((name) => `${name}#`),
]; // the places of leaves that are no element of an array
const VERDICTS = ["MATCH", "INCONCLUSIVE", "DIVERGE"]; // from the mildest
const TRUTHS = ["HOLDS", "UNKNOWN", "FAILS"]; // in the same order
const RESULTS = ["PASSED", "WARNED", "FAILED"]; // in the same order, of a test-result
const TESTS = ["passedTests", "warnedTests", "failedTests"]; // in the same order
const CLAUSE = "judgement.json#/clauses/";
const MAX_BYTES = 512 * 1024 * 1024;
const MAX_HEAD_BYTES = 1024 * 1024; // of what is read before a signature was checked
const MAX_MORE_BYTES = 64 * 1024; // of a proof, and of a time stamp
const MAX_STEPS = 63; // of a proof
const MAX_SAID = 4000; // characters of a text in an entry of a log
const EARLY = 300_000_000n; // microseconds that clocks may differ by
const PRIME = 2n ** 255n - 19n;
const EIGHTH = 0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n;
const LATEST = 253_402_300_799n; // the last second that a date can say
const MAX_DEPTH = 256;
const MAX_LEAVES = 2_000_000;
const TAG = /^(public|reviewer|auditor)\/[a-z]+$/;
const HEX = /^[0-9a-f]{64}$/;
const SALT = /^[0-9a-f]{32}$/;
const NAME = /^[^\x00-\x1f\x7f-\x9f\u2028\u2029\p{Surrogate}]{1,200}$/u;
const INSTANT = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{6}))?\+00:00$/;

const text = new TextEncoder();

export class Rejected extends Error {}

function reject(why) {
  throw new Rejected(why);
}

/** The RFC 8785 text of a document whose numbers are small integers. */
export function canonical(value, depth = 0) {
  if (value === null || value === true || value === false) return String(value);
  if (typeof value === "string") {
    if (/\p{Surrogate}/u.test(value)) reject("a lone surrogate");
    return JSON.stringify(value);
  }
  if (typeof value === "number") {
    if (!Number.isSafeInteger(value) || Object.is(value, -0)) reject(`the number ${value}`);
    return String(value);
  }
  if (depth >= MAX_DEPTH) reject(`nested deeper than ${MAX_DEPTH} levels`);
  if (Array.isArray(value)) {
    return `[${value.map((each) => canonical(each, depth + 1)).join(",")}]`;
  }
  const members = Object.keys(value).sort(); // by UTF-16 units, as RFC 8785 asks
  const written = members.map((k) => `${canonical(k)}:${canonical(value[k], depth + 1)}`);
  return `{${written.join(",")}}`;
}

function parse(bytes, name, most = MAX_BYTES) {
  if (bytes.length > most) reject(`${name}: more than ${most} bytes`);
  let source, document;
  try {
    source = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    document = JSON.parse(source);
  } catch (error) {
    reject(`${name}: not JSON: ${error.message}`);
  }
  if (canonical(document) !== source) reject(`${name}: the bytes are not in canonical form`);
  return document;
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether two documents are the same: two texts in canonical form are. */
const isSame = (one, other) => canonical(one) === canonical(other);

const KINDS = {
  string: (value) => typeof value === "string",
  integer: (value) => Number.isSafeInteger(value),
  list: Array.isArray,
  object: isObject,
  any: () => true,
};

function shape(document, keys, where) {
  if (!isObject(document)) reject(`${where}: expected an object`);
  const expected = Object.keys(keys).sort();
  if (!isSame(Object.keys(document).sort(), expected)) {
    reject(`${where}: expected exactly ${expected.join(", ")}`);
  }
  for (const [key, kind] of Object.entries(keys)) {
    if (!KINDS[kind](document[key])) reject(`${where}: ${key} is not of its kind`);
  }
}

/** Microseconds since 1970, exactly. */
function instant(value, where) {
  const found = typeof value === "string" ? INSTANT.exec(value) : null;
  if (!found) reject(`${where}: not an instant in UTC`);
  const [year, month, day, hour, minute, second] = found.slice(1, 7).map(Number);
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  date.setUTCHours(hour, minute, second);
  const same =
    year > 0 &&
    date.getUTCFullYear() === year &&
    date.getUTCMonth() === month - 1 &&
    date.getUTCDate() === day &&
    date.getUTCHours() === hour &&
    date.getUTCMinutes() === minute &&
    date.getUTCSeconds() === second;
  if (!same) reject(`${where}: there is no such instant`);
  return BigInt(date.getTime()) * 1000n + BigInt(found[7] ?? 0);
}

async function sha256(...parts) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", joined(parts)));
}

function joined(parts) {
  const found = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    found.set(part, at);
    at += part.length;
  }
  return found;
}

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const unhex = (digits) => Uint8Array.from(digits.match(/../g) ?? [], (two) => parseInt(two, 16));

function unbase64(value, name, where = "envelope.json") {
  let binary;
  try {
    binary = atob(value);
  } catch {
    reject(`${where}: ${name} is not base64`);
  }
  if (btoa(binary) !== value) reject(`${where}: ${name} is not the one base64 of its bytes`);
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}

function readManifest(bytes) {
  const manifest = parse(bytes, "manifest.json", MAX_HEAD_BYTES);
  const words = "format kernel statediff trial contract contract_version verdict sealed_at";
  const keys = Object.fromEntries(words.split(" ").map((word) => [word, "string"]));
  shape(manifest, { ...keys, tree: "object" }, "manifest.json");
  const tree = manifest.tree;
  shape(tree, { leaves: "integer", root: "string", tags: "object" }, "manifest.json: tree");
  if (manifest.format !== FORMAT) reject(`manifest.json: not of format ${FORMAT}`);
  if (!VERDICTS.includes(manifest.verdict)) {
    reject("manifest.json: no verdict");
  }
  if (!(tree.leaves > 0 && tree.leaves <= MAX_LEAVES) || !HEX.test(tree.root)) {
    reject("manifest.json: tree: not a number of leaves and a root");
  }
  let sum = 0;
  for (const [tag, count] of Object.entries(tree.tags)) {
    if (!TAG.test(tag) || !(Number.isSafeInteger(count) && count > 0)) {
      reject("manifest.json: tree: tags are tier/kind, each with its number");
    }
    sum += count;
  }
  if (sum !== tree.leaves) reject("manifest.json: tree: the tags do not add up");
  const kinds = kindsOf(tree.tags);
  for (const name of PARTS) {
    if (!kinds.has(kindOf(name))) reject(`manifest.json: tree: no leaf of ${name} was sealed`);
  }
  if (kinds.get("summary") !== 1 || tree.tags["public/summary"] !== 1) {
    reject("manifest.json: tree: expected one summary, for the public");
  }
  const known = ["raw", ...LONE.map(kindOf)];
  const many = ["raw", ...Object.keys(PIECES).filter((name) => PIECES[name].length > 0).map(kindOf)];
  for (const tag of Object.keys(tree.tags)) {
    const kind = tag.split("/")[1];
    if (!known.includes(kind) || (!many.includes(kind) && kinds.get(kind) > 1)) {
      reject(`manifest.json: tree: leaves of ${tag} belong to no bundle`);
    }
    if (["raw", "undisclosed"].includes(kind) && tag !== `auditor/${kind}`) {
      reject(`manifest.json: tree: ${tag} is for auditors`);
    }
    if (kind === "review" && tag !== "reviewer/review") {
      reject(`manifest.json: tree: ${tag} is for reviewers`);
    }
  }
  return manifest;
}

/** The kind of the leaves at a place: `fragments` at `fragments.json#/0/rows/3`. */
const kindOf = (path) => (path.startsWith("raw/") ? "raw" : path.split("#")[0].split(".")[0]);

/** Kind: how many leaves of it there are, at all tiers. */
function kindsOf(tags) {
  const found = new Map();
  for (const [tag, count] of Object.entries(tags)) {
    const kind = tag.split("/")[1];
    found.set(kind, (found.get(kind) ?? 0) + count);
  }
  return found;
}

const STRUCTURE = /"(?:[^"\\]|\\.)*"|[{}[\],:]/gs;

/** What JSON.parse would read otherwise: two members of one name, and numbers written with a point
 * or an exponent. */
function checkWritten(source) {
  const numbers = source.replace(/"(?:[^"\\]|\\.)*"/gs, '""').match(/-?\d[^\s,\]}]*/g) ?? [];
  if (!numbers.every((number) => /^-?\d{1,16}$/.test(number))) {
    reject("trust file: a number that is no integer");
  }
  const open = [];
  let last = "";
  for (const [token] of source.matchAll(STRUCTURE)) {
    if (token === "{" || token === "[") open.push(new Set());
    else if (token === "}" || token === "]") open.pop();
    else if (token === ":") {
      const name = JSON.parse(last);
      if (open.at(-1).has(name)) reject("trust file: an object has two members of one name");
      open.at(-1).add(name);
    }
    last = token;
  }
}

export async function readTrust(bytes) {
  if (bytes.length > MAX_HEAD_BYTES) reject(`trust file: more than ${MAX_HEAD_BYTES} bytes`);
  let source, document;
  try {
    source = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    document = JSON.parse(source);
  } catch (error) {
    reject(`trust file: ${error.message}`);
  }
  checkWritten(source);
  const isOfSeveral = isObject(document) && document.format === TRUST_OF_SEVERAL;
  const more = isOfSeveral ? { threshold: "integer" } : {};
  shape(document, { format: "string", keys: "list", ...more }, "trust file");
  if (![TRUST, TRUST_OF_SEVERAL].includes(document.format)) reject("trust file: of another format");
  const needed = document.threshold ?? 1;
  const known = new Map();
  for (const entry of document.keys) {
    const keys = { name: "string", key: "string", roles: "list", from: "any", until: "any" };
    shape(entry, keys, "trust file: key");
    if (!HEX.test(entry.key)) reject("trust file: a key has 64 hexadecimal digits");
    if (!isStrong(unhex(entry.key))) reject("trust file: a key of small order, or encoded otherwise");
    if (![entry.name, ...entry.roles].every((word) => typeof word === "string" && NAME.test(word))) {
      reject("trust file: a name or role has 1 to 200 characters, and no control character");
    }
    const limit = (side) => (entry[side] === null ? null : instant(entry[side], "trust file"));
    const key = unhex(entry.key);
    const signer = { ...entry, key, from: limit("from"), until: limit("until"), needed };
    const id = hex(await sha256(key));
    if (known.has(id)) reject("trust file: one key stands twice");
    known.set(id, signer);
  }
  const sealing = [...known.values()].filter(({ roles }) => roles.includes(ROLE)).length;
  if (isOfSeveral && !(needed >= 1 && needed <= sealing)) {
    reject("trust file: the threshold is no number of its keys that seal");
  }
  return known;
}

// Whether libraries agree about this key: its one encoding, and of more than 8 points.
function isStrong(key) {
  const height = BigInt(`0x${hex(Uint8Array.from(key).reverse())}`) % 2n ** 255n;
  return height < PRIME && ![0n, 1n, PRIME - 1n, EIGHTH, PRIME - EIGHTH].includes(height);
}

/** Who signed what there was of the trial, when, and what of that the copy shows to be so. */
async function observedIn(at, manifest, known, sealers) {
  const rest = at.get(`${OBSERVATION}#`);
  if (rest === undefined) return null;
  shape(rest[0], { envelope: "object", opened: "list" }, OBSERVATION);
  const [signer, said, bound] = await observationOf(rest[0].envelope, known);
  if (sealers.includes(signer)) reject(`${OBSERVATION}: ${signer.name} sealed the copy too`);
  if (said.trial !== manifest.trial) reject(`${OBSERVATION}: of another trial`);
  const when = instant(said.at, `${OBSERVATION}: at`);
  checkTime(signer, when, OBSERVATION);
  if (when > instant(manifest.sealed_at, "manifest.json: sealed_at") + EARLY) {
    reject(`${OBSERVATION}: of after the sealing`);
  }
  if (new Map(cutsOf(rest, OBSERVATION)).get("/opened") !== bound.size) {
    reject(`${OBSERVATION}: not an opening for each part`);
  }
  const inner = at.get("manifest.json#")?.[0];
  if (isObject(inner) && Object.hasOwn(inner, "undisclosed") !== bound.has("undisclosed")) {
    reject(`${OBSERVATION}: what is not shown is not said where it has to be`);
  }
  const found = {
    signer: signer.name, at: isoOf(said.at), shown: [], withheld: [], agent: null, of_several: [],
  };
  for (const [number, [name, digests]] of [...bound].entries()) {
    const opening = at.get(`${OBSERVATION}#/opened/${number}`);
    const value = opening === undefined ? undefined : openedPart(name, opening, at);
    const which = value === undefined ? -1 : digests.indexOf(
      hex(await sha256(unhex(opening[1]), text.encode(canonical(value)))));
    const isSo = which >= 0;
    if (isSo && digests.length > 1) found.of_several.push([name, 1 + which, digests.length]);
    const isLeftOut = name === "ending" && value === null; // the contract may not ask for it
    if (value !== undefined && !isSo && !isLeftOut) {
      reject(`${OBSERVATION}: ${name}: not what was observed`);
    }
    (isSo ? found.shown : found.withheld).push(name);
    if (name === "agent" && isSo) found.agent = value;
  }
  return found;
}

/** An instant as Python writes it: without a fraction that is none. */
const isoOf = (value) => value.replace(".000000", "");

/** [signer, predicate, part: digests of which one has to fit] of the envelope. */
async function observationOf(envelope, known) {
  shape(envelope, { payload: "string", payloadType: "string", signatures: "list" }, OBSERVATION);
  if (envelope.payloadType !== PAYLOAD) reject(`${OBSERVATION}: another payloadType`);
  if (text.encode(canonical(envelope)).length > MAX_HEAD_BYTES) reject(`${OBSERVATION}: too large`);
  const payload = unbase64(envelope.payload, "payload", OBSERVATION);
  if (envelope.signatures.length !== 1) reject(`${OBSERVATION}: expected one signature`);
  const [entry] = envelope.signatures;
  shape(entry, { keyid: "string", sig: "string" }, `${OBSERVATION}: signature`);
  const signer = known.get(entry.keyid);
  if (!signer) reject(`${OBSERVATION}: the key is not trusted`);
  if (!signer.roles.includes("observer")) reject(`${OBSERVATION}: ${signer.name} is no observer`);
  const lead = text.encode(`DSSEv1 ${PAYLOAD.length} ${PAYLOAD} ${payload.length} `);
  const signature = unbase64(entry.sig, "sig", OBSERVATION);
  await requireFit(signer, signature, joined([lead, payload]), OBSERVATION);
  const said = parse(payload, `${OBSERVATION}: payload`, MAX_HEAD_BYTES);
  const keys = { _type: "string", predicate: "object", predicateType: "string", subject: "list" };
  shape(said, keys, `${OBSERVATION}: payload`);
  if (said._type !== STATEMENT || said.predicateType !== OBSERVED) {
    reject(`${OBSERVATION}: another statement`);
  }
  shape(said.predicate, { at: "string", trial: "string" }, `${OBSERVATION}: predicate`);
  const bound = new Map();
  for (const each of said.subject) {
    shape(each, { digest: "object", name: "string" }, `${OBSERVATION}: part`);
    shape(each.digest, { sha256: "string" }, `${OBSERVATION}: part`);
    if (!HEX.test(each.digest.sha256)) reject(`${OBSERVATION}: no SHA-256`);
    const part = each.name.split("/")[0];
    const digests = bound.get(part) ?? [];
    if (each.name !== (digests.length === 0 ? part : `${part}/${digests.length}`)) {
      reject(`${OBSERVATION}: not the next name of a part`);
    }
    bound.set(part, [...digests, each.digest.sha256]);
  }
  const names = Object.keys(OBSERVABLE);
  if (![names, names.slice(0, -1)].some((each) => isSame(each, [...bound.keys()]))) {
    reject(`${OBSERVATION}: other parts`);
  }
  return [signer, said.predicate, bound];
}

/** What the copy shows of a part; undefined where it withholds some of it. */
function openedPart(name, opening, at) {
  if (name === "undisclosed") return undefined;
  const isAgent = name === "agent";
  const isOpening =
    Array.isArray(opening) && opening.length === (isAgent ? 3 : 2) && opening[0] === name &&
    isText(opening[1]) && SALT.test(opening[1]);
  if (!isOpening) reject(`${OBSERVATION}: an opening is [part, salt]`);
  if (isAgent) {
    shape(opening[2], { configuration: "any", model: "any", name: "any", version: "any" }, "agent");
    if (!Object.values(opening[2]).every((each) => each === null || isText(each))) {
      reject(`${OBSERVATION}: what is known of an agent is a text or null`);
    }
    return opening[2];
  }
  const file = OBSERVABLE[name];
  const rest = at.get(`${file}#`);
  if (rest === undefined) return undefined;
  let document = rest[0];
  const cuts = new Map(cutsOf(rest, file));
  for (const key of LISTED[file] ?? []) {
    const values = [];
    for (let number = 0; number < (cuts.get(`/${key}`) ?? 0); number += 1) {
      if (!at.has(`${file}#/${key}/${number}`)) return undefined;
      values.push(at.get(`${file}#/${key}/${number}`));
    }
    document = { ...document, [key]: values };
  }
  if (!["ending", "states", "trial"].includes(name)) return document;
  if (!isObject(document)) reject(`${file}: is no object`);
  const own = (of, key) => (Object.hasOwn(of, key) ? of[key] : null);
  if (name === "ending") return own(document, "ending");
  if (name === "trial") {
    return Object.fromEntries(Object.entries(document).filter(([key]) => key !== "ending"));
  }
  const { history } = document;
  if (!isObject(history)) reject("captures.json: has no history");
  const seen = { readings: own(history, "readings"), transactions: own(history, "transactions") };
  const ends = ["after", "before", "roots"].map((key) => [key, own(document, key)]);
  return { history: seen, ...Object.fromEntries(ends) };
}

async function signedBy(envelope, manifest, known) {
  if (manifest.length > MAX_HEAD_BYTES) {
    reject(`manifest.json: more than ${MAX_HEAD_BYTES} bytes`);
  }
  const document = parse(envelope, "envelope.json", MAX_HEAD_BYTES);
  const keys = { payload: "string", payloadType: "string", signatures: "list" };
  shape(document, keys, "envelope.json");
  if (document.payloadType !== PAYLOAD) reject("envelope.json: another payloadType");
  const payload = unbase64(document.payload, "payload");
  const subject = [{ digest: { sha256: hex(await sha256(manifest)) }, name: "manifest.json" }];
  const said = parse(payload, "envelope.json: payload", MAX_HEAD_BYTES);
  const predicate = isObject(said) ? (said.predicate ?? null) : null;
  if (!isSame(said, { _type: STATEMENT, predicate, predicateType: PREDICATE, subject })) {
    reject("envelope.json: another manifest was signed");
  }
  const needed = Math.max(1, ...[...known.values()].map((signer) => signer.needed));
  if (document.signatures.length !== needed) reject(`envelope.json: expected ${needed} signatures`);
  const lead = `DSSEv1 ${PAYLOAD.length} ${PAYLOAD} ${payload.length} `;
  const signed = new Uint8Array([...text.encode(lead), ...payload]);
  for (const entry of document.signatures) {
    shape(entry, { keyid: "string", sig: "string" }, "envelope.json: signature");
  }
  const names = document.signatures.map(({ keyid }) => keyid);
  if (!isSorted(names)) reject("envelope.json: the signatures are not in the order of their keys");
  const signers = [];
  for (const { keyid, sig } of document.signatures) {
    const signer = known.get(keyid);
    if (!signer) reject("envelope.json: the key is not trusted");
    if (!signer.roles.includes(ROLE)) reject(`envelope.json: ${signer.name} is no ${ROLE}`);
    await requireFit(signer, unbase64(sig, "sig"), signed, "envelope.json");
    signers.push(signer);
  }
  return [signers, predicate];
}

async function requireFit(signer, signature, message, where) {
  let good = false;
  try {
    const key = await crypto.subtle.importKey("raw", signer.key, "Ed25519", false, ["verify"]);
    good = await crypto.subtle.verify("Ed25519", key, signature, message);
  } catch {
    good = false; // not a point, or not 64 bytes
  }
  if (!good) reject(`${where}: the signature of ${signer.name} does not fit`);
}

function checkTime(signer, at, where) {
  if (signer.from !== null && at < signer.from) reject(`${where}: key not yet valid`);
  if (signer.until !== null && at >= signer.until) reject(`${where}: key expired`);
}

const NUMBER = /^(0|[1-9][0-9]{0,14})$/;
const ORIGIN = /^[!-*,-~]{1,200}$/;
const SIGNED_BY = "\u2014 ";

function hashIn(value) {
  const found = unbase64(value, "hash", PROOF);
  if (found.length !== 32) reject(`${PROOF}: no SHA-256`);
  return found;
}

/** Where a log, whose checkpoint a trusted key signed, has the entry over this envelope. */
async function logged(proof, envelope, manifest, known) {
  if (proof.length > MAX_MORE_BYTES) reject(`${PROOF}: more than ${MAX_MORE_BYTES} bytes`);
  let source;
  try {
    source = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(proof);
  } catch (error) {
    reject(`${PROOF}: not UTF-8: ${error.message}`);
  }
  if (/[\x00-\x09\x0b-\x1f]/.test(source)) reject(`${PROOF}: a control character stands in it`);
  const [, front, note] = /^(.*?)\n\n(.*)$/s.exec(source) ?? [null, source, ""];
  const [mark, extra, index, ...steps] = front.split("\n");
  if (mark !== "c2sp.org/tlog-proof@v1" || !extra?.startsWith("extra ")) {
    reject(`${PROOF}: expected the lines of the entry and of its index`);
  }
  if (!index?.startsWith("index ")) reject(`${PROOF}: expected the line of its index`);
  if (!NUMBER.test(index.slice(6)) || steps.length > MAX_STEPS) reject(`${PROOF}: no index`);
  const line = unbase64(extra.slice(6), "entry", PROOF);
  await checkEntry(parse(line, `${PROOF}: entry`, MAX_MORE_BYTES), envelope, manifest);
  const end = note.lastIndexOf("\n\n");
  const head = note.slice(0, Math.max(end, 0)).split("\n");
  if (end < 0 || !note.endsWith("\n") || note.length < end + 3) reject(`${PROOF}: no checkpoint`);
  if (head.length < 3 || !head.every((each) => each)) reject(`${PROOF}: no checkpoint`);
  const [origin, size, root] = head;
  if (!ORIGIN.test(origin) || !NUMBER.test(size)) reject(`${PROOF}: no origin and size`);
  const found = await climbed(line, Number(index.slice(6)), Number(size), steps.map(hashIn));
  if (found === null || hex(found) !== hex(hashIn(root))) {
    reject(`${PROOF}: the entry is not in the log of its checkpoint`);
  }
  const by = await noteSigner(`${head.join("\n")}\n`, origin, note.slice(end + 2), known);
  return { origin, entry: Number(index.slice(6)), entries: Number(size), ...by };
}

async function checkEntry(entry, envelope, manifest) {
  const where = `${PROOF}: entry`;
  const words = ["about", "at", "digest", "form", "kind"].map((name) => [name, "string"]);
  shape(entry, { ...Object.fromEntries(words), said: "object" }, where);
  shape(entry.said, { by: "string", contract: "string", verdict: "string" }, where);
  const isOver =
    entry.about === manifest.tree.root && entry.digest === hex(await sha256(envelope)) &&
    entry.form === "statediff/entry/1" && entry.kind === "seal";
  if ([entry.at, ...Object.values(entry.said)].some((each) => [...each].length > MAX_SAID)) {
    reject(`${where}: a text of more than ${MAX_SAID} characters`);
  }
  if (!isOver) reject(`${where}: not over this envelope`);
  const contract = `${manifest.contract}@${manifest.contract_version}`;
  if (entry.said.contract !== contract || entry.said.verdict !== manifest.verdict) {
    reject(`${where}: it says another thing than the manifest`);
  }
}

/** The root that a proof of inclusion [RFC 6962] leads to; null where it leads to none. */
async function climbed(line, index, size, steps) {
  if (index >= size) return null;
  let at = BigInt(index);
  let last = BigInt(size) - 1n;
  let found = await sha256(Uint8Array.of(0), line);
  for (const step of steps) {
    if (last === 0n) return null;
    if (at % 2n === 1n || at === last) {
      found = await sha256(Uint8Array.of(1), step, found);
      while (at % 2n === 0n && at > 0n) [at, last] = [at / 2n, last / 2n];
    } else found = await sha256(Uint8Array.of(1), found, step);
    [at, last] = [at / 2n, last / 2n];
  }
  return last === 0n ? found : null;
}

/** The trusted key that signed a checkpoint plainly and with the time, and that time. */
async function noteSigner(note, origin, lines, known) {
  const found = [];
  for (const line of lines.slice(0, -1).split("\n")) {
    const gap = line.indexOf(" ", SIGNED_BY.length);
    const name = line.slice(SIGNED_BY.length, Math.max(gap, 0));
    if (!line.startsWith(SIGNED_BY) || gap < 0 || !ORIGIN.test(name)) {
      reject(`${PROOF}: no line of a signature`);
    }
    const data = unbase64(line.slice(gap + 1), "a signature", PROOF);
    if (data.length <= 4) reject(`${PROOF}: a line has no signature`);
    if (name === origin) found.push([hex(data.slice(0, 4)), data.slice(4)]);
  }
  for (const signer of known.values()) {
    if (!signer.roles.includes(ROLE)) continue;
    const [plain, timed] = await Promise.all(
      [1, 4].map(async (kind) => {
        const id = await sha256(text.encode(`${origin}\n`), Uint8Array.of(kind), signer.key);
        const own = found.filter(([start]) => start === hex(id.slice(0, 4)));
        return own.map(([, data]) => data);
      }),
    );
    if (plain.length === 0) continue;
    if (timed.length === 0) reject(`${PROOF}: it does not say when it was signed`);
    for (const signature of plain) await requireFit(signer, signature, text.encode(note), PROOF);
    let seconds = 0n;
    for (const data of timed) {
      seconds = BigInt(`0x${hex(data.slice(0, 8)) || "0"}`);
      if (seconds > LATEST) reject(`${PROOF}: signed at no time`);
      const message = text.encode(`cosignature/v1\ntime ${seconds}\n${note}`);
      await requireFit(signer, data.slice(8), message, PROOF);
    }
    checkTime(signer, seconds * 1_000_000n, PROOF);
    return { signer: signer.name, at: seconds * 1_000_000n };
  }
  reject(`${PROOF}: no signature of its log by a key that is trusted as ${ROLE}`);
}

/** [tag, content] of the elements that stand after each other in DER. */
function der(data) {
  const found = [];
  for (let at = 0; at < data.length; ) {
    if (at + 2 > data.length) reject(`${STAMP}: not DER`);
    const tag = data[at];
    let length = data[at + 1];
    at += 2;
    if (length >= 0x80) {
      const digits = data.slice(at, at + length - 0x80);
      at += length - 0x80;
      if (digits.length < 1 || digits.length > 4 || digits[0] === 0) reject(`${STAMP}: not DER`);
      length = parseInt(hex(digits), 16);
      if (length < 0x80) reject(`${STAMP}: not DER`);
    }
    if (at + length > data.length) reject(`${STAMP}: not DER`);
    found.push([tag, data.slice(at, at + length)]);
    at += length;
  }
  return found;
}

/** The contents of the elements with these tags; with `MORE_PARTS` last, others may follow. */
function parts(data, ...tags) {
  const found = der(data);
  const isOpen = tags.at(-1) === MORE_PARTS;
  if (isOpen) tags.pop();
  const isMeant = tags.every((tag, at) => found[at]?.[0] === tag);
  if (!isMeant || (!isOpen && found.length > tags.length)) reject(`${STAMP}: no answer with a token`);
  return found.slice(0, tags.length).map(([, content]) => content);
}

const MORE_PARTS = -1;
const [INTEGER, OCTETS, NAME_OF, TIME, SEQUENCE, SET, OWN] = [
  0x02, 0x04, 0x06, 0x18, 0x30, 0x31, 0xa0,
];
const KINDS_OF_STAMPS = [
  "2a864886f70d010702", "2a864886f70d0109100104", "608648016503040201",
].join();

/** When the time stamp says that the envelope was there; its signature is not checked. */
async function stampedAt(token, envelope) {
  if (token.length > MAX_MORE_BYTES) reject(`${STAMP}: more than ${MAX_MORE_BYTES} bytes`);
  const [answer] = parts(token, SEQUENCE);
  const [state, content] = parts(answer, SEQUENCE, SEQUENCE);
  const [status] = parts(state, INTEGER, MORE_PARTS);
  const [kind, wrapped] = parts(content, NAME_OF, OWN);
  const [signed] = parts(wrapped, SEQUENCE);
  const [, , told] = parts(signed, INTEGER, SET, SEQUENCE, MORE_PARTS);
  const [sort, quoted] = parts(told, NAME_OF, OWN);
  const [source] = parts(quoted, OCTETS);
  const [info] = parts(source, SEQUENCE);
  const [, , imprint, , at] = parts(info, INTEGER, NAME_OF, SEQUENCE, INTEGER, TIME, MORE_PARTS);
  const [algorithm, digest] = parts(imprint, SEQUENCE, OCTETS);
  const names = [kind, sort, ...parts(algorithm, NAME_OF, MORE_PARTS)];
  if (!["00", "01"].includes(hex(status)) || names.map(hex).join() !== KINDS_OF_STAMPS) {
    reject(`${STAMP}: not a time stamp over a SHA-256`);
  }
  if (hex(digest) !== hex(await sha256(envelope))) reject(`${STAMP}: over another envelope`);
  const time = String.fromCharCode(...at.slice(0, 30));
  const found = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\.\d{1,9})?Z$/.exec(time);
  if (!found) reject(`${STAMP}: it says no time`);
  const [, year, month, day, hour, minute, second] = found;
  return instant(`${year}-${month}-${day}T${hour}:${minute}:${second}+00:00`, STAMP);
}

function checkNames(names) {
  const isKnown = names.every((name) => FILES.includes(name) || MORE.includes(name));
  if (!isKnown || !FILES.every((name) => names.includes(name))) {
    reject(`a sealed bundle has exactly the files ${FILES.join(", ")}, and may have ${MORE.join(" and ")}`);
  }
}

/** The predicate is what the manifest and the summary make, as far as they are disclosed. */
function checkPredicate(predicate, manifest, places, hashes) {
  const kinds = Object.fromEntries(TESTS.map((name) => [name, "list"]));
  const where = "envelope.json: predicate";
  shape(predicate, { configuration: "list", result: "string", ...kinds }, where);
  const lists = TESTS.map((name) => predicate[name]);
  if (!lists.flat().every(isText)) reject(`${where}: a test has no name`);
  const worst = lists.findLastIndex((list) => list.length > 0);
  if (VERDICTS[worst < 0 ? 1 : worst] !== manifest.verdict) reject(`${where}: another verdict`);
  if (predicate.result !== RESULTS[VERDICTS.indexOf(manifest.verdict)]) {
    reject(`${where}: another result`);
  }
  if (places.has(SUMMARY)) {
    const { clauses } = places.get(SUMMARY);
    for (const [at, list] of lists.entries()) {
      const own = clauses.filter(({ truth }) => truth === TRUTHS[at]).map(({ clause }) => clause);
      if (!isSame(own, list)) reject(`${where}: not what the summary says`);
    }
  }
  const leaf = predicate.configuration[0]?.digest?.statediffLeaf;
  const name = `${manifest.contract}@${manifest.contract_version}`;
  if (!isText(leaf) || !isSame(predicate.configuration, [{ digest: { statediffLeaf: leaf }, name }])) {
    reject(`${where}: its configuration is not the contract`);
  }
  if (!hashes.includes(leaf)) reject(`${where}: no leaf is the contract that it names`);
}

/** (pointer, length) of every array that was cut out of a file; a rest is [document, these]. */
function cutsOf(rest, name) {
  const isCut = (cut) =>
    Array.isArray(cut) && cut.length === 2 && typeof cut[0] === "string" &&
    Number.isSafeInteger(cut[1]) && cut[1] >= 0 && cut[1] <= MAX_LEAVES;
  const isRest = Array.isArray(rest) && rest.length === 2 && Array.isArray(rest[1]);
  if (!isRest || !rest[1].every(isCut) || new Map(rest[1]).size !== rest[1].length) {
    reject(`leaves.json: ${name}# is not [document, [[pointer, length], ...]]`);
  }
  return rest[1];
}

const INDEX = /^(0|[1-9][0-9]{0,6})$/;

/** Whether PIECES has an array at that pointer. */
function isCut(name, pointer) {
  const steps = pointer.split("/");
  return (own(PIECES, name) ?? []).some((place) => {
    const wanted = place.split("/");
    const isStep = (step, at) => (wanted[at] === "*" ? INDEX.test(step) : step === wanted[at]);
    return wanted.length === steps.length && steps.every(isStep);
  });
}

const own = (object, name) => (Object.hasOwn(object, name) ? object[name] : undefined);

/** The value at the end of these steps; undefined where there is none. */
function valueAt(value, steps) {
  for (const step of steps) {
    if (Array.isArray(value)) value = INDEX.test(step) ? value[Number(step)] : undefined;
    else value = isObject(value) ? own(value, step) : undefined;
  }
  return value;
}

/** Each array of a file that a place of PIECES names. */
function arraysAt(value, steps, name) {
  if (steps.length === 0) {
    if (!Array.isArray(value)) reject(`${name}: no array where its pieces are`);
    return [value];
  }
  const [first, ...others] = steps;
  if (first === "*" && Array.isArray(value)) {
    return value.flatMap((each) => arraysAt(each, others, name));
  }
  if (first === "*" || !isObject(value) || !Object.hasOwn(value, first)) {
    reject(`${name}: no ${first} where its pieces are`);
  }
  return arraysAt(value[first], others, name);
}

const isEmptyArray = (value) => Array.isArray(value) && value.length === 0;

/** What was cut out of a file is all that has to be, each array from where it is empty now. */
function checkCuts(name, document, cuts, places) {
  for (const place of PIECES[name]) {
    if (!arraysAt(document, place.split("/").slice(1), name).every(isEmptyArray)) {
      reject(`leaves.json: ${name}# holds elements that are leaves of their own`);
    }
  }
  for (const pointer of cuts.keys()) {
    let [value, steps] = [document, pointer.split("/").slice(1)];
    for (let at = 1; at < steps.length; at += 1) {
      const holder = `/${steps.slice(0, at).join("/")}`;
      if (!cuts.has(holder)) continue;
      const piece = `${name}#${holder}/${steps[at]}`;
      [value, steps] = places.has(piece) ? [places.get(piece), steps.slice(at + 1)] : [[], []];
    }
    if (!isCut(name, pointer) || !isEmptyArray(valueAt(value, steps))) {
      reject(`leaves.json: ${name}# has no empty array at ${pointer.slice(0, 80)}`);
    }
  }
}

/** Each leaf is at a place that its file has; gives the cuts of the files whose rest is there. */
function checkClosed(places, tags) {
  const kinds = kindsOf(tags);
  const cuts = new Map();
  for (const name of Object.keys(PIECES)) {
    if (!places.has(`${name}#`)) continue;
    const rest = places.get(`${name}#`);
    cuts.set(name, new Map(cutsOf(rest, name)));
    const count = [...cuts.get(name).values()].reduce((sum, length) => sum + length, 1);
    if (kinds.get(kindOf(name)) !== count) {
      reject(`leaves.json: ${name} has another number of leaves than it says`);
    }
    checkCuts(name, rest[0], cuts.get(name), places);
  }
  for (const path of places.keys()) {
    if (path.endsWith("#") && (path.startsWith("raw/") || LONE.includes(path))) continue;
    const [array, number] = [path.slice(0, path.lastIndexOf("/")), path.slice(path.lastIndexOf("/") + 1)];
    const [name, pointer] = [array.slice(0, array.indexOf("#")), array.slice(array.indexOf("#") + 1)];
    const isPlace = array.includes("#") && path.includes("/") && isCut(name, pointer);
    const length = cuts.has(name) ? (cuts.get(name).get(pointer) ?? 0) : MAX_LEAVES;
    if (!isPlace || !INDEX.test(number) || Number(number) >= length) {
      reject(`leaves.json: no file has a place for a leaf at ${path.slice(0, 80)}`);
    }
  }
  return cuts;
}

/** Every file is there, so all its pieces (as many as it says), and its matchings are as many. */
function checkWhole(places, cuts) {
  for (const name of PARTS) {
    if (!cuts.has(name)) reject(`leaves.json: ${name} is withheld as a raw capture`);
  }
  const document = (name) => places.get(`${name}#`)[0];
  const matchings = [
    document("captures.json").enumerations, document("fragments.json"), document("index.json"),
    document("resolution.json").mappings,
  ];
  const isSameLength = (each) => Array.isArray(each) && each.length === matchings[0].length;
  if (!matchings.every(isSameLength)) reject("leaves.json: different numbers of matchings");
}

/** The inner manifest, where it is disclosed, lists the files that there are leaves of. */
function checkFiles(places, tags) {
  if (!places.has("manifest.json#")) return;
  const { format, files } = places.get("manifest.json#")[0];
  if (![BOUND, UNBOUND].includes(format) || !isObject(files)) {
    reject(`manifest.json: not of format ${BOUND}, with its files`);
  }
  const kinds = kindsOf(tags);
  const isThere = (name) => kinds.has(kindOf(name));
  const more = [STATE_ROOTS, ...(isThere(OBSERVATION) ? [OBSERVATION] : [])];
  const expected = [...PARTS, ...(format === BOUND ? more : [])];
  const found = [...Object.keys(files), "manifest.json"];
  if (
    Object.hasOwn(files, "manifest.json") || !isSame(found.sort(), expected.sort()) ||
    [STATE_ROOTS, OBSERVATION].some((name) => Object.hasOwn(files, name) !== isThere(name))
  ) {
    reject("manifest.json: its files are not those that there are leaves of");
  }
}

function checkSummary(summary, verdict) {
  shape(summary, { clauses: "list", codes: "list", results: "object" }, SUMMARY);
  let worst = summary.clauses.length ? 0 : VERDICTS.indexOf("INCONCLUSIVE");
  for (const clause of summary.clauses) {
    shape(clause, { clause: "string", stage: "string", truth: "string" }, `${SUMMARY}: clause`);
    const at = TRUTHS.indexOf(clause.truth);
    if (at < 0) reject(`${SUMMARY}: no truth`);
    worst = Math.max(worst, at);
  }
  if (VERDICTS[worst] !== verdict) reject(`${SUMMARY}: its clauses make another verdict`);
  shape(summary.results, { outcome: "any", task: "any", tool: "any" }, `${SUMMARY}: results`);
  const given = Object.values(summary.results).filter((each) => each !== null);
  const found = given.map((each) => VERDICTS.indexOf(each));
  if (found.includes(-1)) reject(`${SUMMARY}: a result is no verdict`);
  if (given.length && VERDICTS[Math.max(...found)] !== verdict) {
    reject(`${SUMMARY}: its results make another verdict`);
  }
}

/** What the disclosed leaves say of the verdict is what the manifest says. */
function checkAgreement(manifest, places) {
  const summary = places.get(SUMMARY);
  if (places.has(SUMMARY)) checkSummary(summary, manifest.verdict);
  if (places.has("judgement.json#")) {
    const rest = places.get("judgement.json#");
    const cuts = cutsOf(rest, "judgement.json");
    if (!isObject(rest[0]) || rest[0].verdict !== manifest.verdict) {
      reject("judgement.json: another verdict than the manifest's");
    }
    if (summary && !(isObject(rest[0].results) && isSame(rest[0].results, summary.results))) {
      reject("judgement.json: its results are not those of the summary");
    }
    const counted = cuts.findLast(([pointer]) => pointer === "/clauses");
    if (summary && counted?.[1] !== summary.clauses.length) {
      reject("judgement.json: its clauses are not those of the summary");
    }
  }
  const summed = new Map(summary?.clauses.map((each, number) => [`${CLAUSE}${number}`, each]));
  for (const [place, clause] of summary ? places : []) {
    if (!place.startsWith(CLAUSE)) continue;
    const told = Object.entries(summed.get(place) ?? {});
    const isTold = told.length > 0 && isObject(clause);
    if (!isTold || !told.every(([name, value]) => clause[name] === value)) {
      reject("judgement.json: a clause is not what the summary says of it");
    }
  }
  if (places.has("manifest.json#")) {
    const rest = places.get("manifest.json#");
    cutsOf(rest, "manifest.json");
    if (!FACTS.every((name) => isObject(rest[0]) && rest[0][name] === manifest[name])) {
      reject("manifest.json: another fact than the sealed bundle says");
    }
  }
}

async function rootOf(hashes) {
  let width = 1;
  while (width < hashes.length) width *= 2;
  let level = hashes.map(unhex);
  while (level.length < width) level.push(new Uint8Array(32));
  while (level.length > 1) {
    const above = [];
    for (let at = 0; at < level.length; at += 2) {
      above.push(await sha256(Uint8Array.of(1), level[at], level[at + 1]));
    }
    level = above;
  }
  return hex(level[0]);
}

const isSorted = (list) => list.every((each, at) => at === 0 || list[at - 1] < each);

/** The bits of a byte string in hex, one character each. */
const bitsOf = (digits) =>
  Array.from(digits, (digit) => parseInt(digit, 16).toString(2).padStart(4, "0")).join("");
const isText = (value) => typeof value === "string";
const isHash = (value) => isText(value) && HEX.test(value);
const place = (...names) => canonical(names);

function restOf(at, path) {
  const found = at.get(path);
  cutsOf(found, path.slice(0, -1));
  if (!isObject(found[0])) reject(`${path}: is no object`);
  return found[0];
}

/** The type of an entry, and its sides: [coverage, root of the rows, columns], or null. */
function headOf(entry) {
  if (Array.isArray(entry) && entry.length === 4 && entry.slice(0, 2).every(isText)) {
    const [source, type, before, after] = entry;
    const sides = [before, after === true ? before : after];
    const isHead = (side) =>
      side === null ||
      (Array.isArray(side) && side.length === 3 && isText(side[0]) && side.slice(1).every(isHash));
    if (sides.every(isHead) && sides.some((side) => side !== null)) {
      return { source, type, sides };
    }
  }
  reject("roots.json: a type is [source, type, before, after]");
}

/** The root, in hex, of the tree with these leaves (256 bits) and nodes (fewer), sorted by bits. */
async function treeOf(entries, depth = 0) {
  if (entries.length === 0) return EMPTY;
  const [bits, digest] = entries[0];
  if (entries.length === 1 && (bits.length === depth || bits.length === 256)) return digest;
  if (bits.length === depth) reject("roots.json: two pieces of a tree are at one place");
  const [left, right] = await Promise.all(
    ["0", "1"].map((bit) => treeOf(entries.filter(([each]) => each[depth] === bit), depth + 1)),
  );
  return hex(await sha256(Uint8Array.of(1), unhex(left), unhex(right)));
}

const leafOf = async (path, digest) =>
  hex(await sha256(Uint8Array.of(0), unhex(path), unhex(digest)));

/** What stays of a tree beside the rows that are opened: [bits, hash] of nodes and lone leaves. */
async function restOfTree(entry) {
  const { nodes } = entry;
  if (!/^([0-9a-f]{2})*$/.test(nodes)) reject("roots.json: nodes are no bytes");
  const rest = [];
  for (let at = 0; at < nodes.length; ) {
    const depth = parseInt(nodes.slice(at, at + 2), 16);
    const end = at + 2 + 2 * Math.ceil(depth / 8);
    const bits = bitsOf(nodes.slice(at + 2, end));
    if (end + 64 > nodes.length || bits.slice(depth).includes("1")) {
      reject("roots.json: nodes are cut short, or written in two ways");
    }
    rest.push([bits.slice(0, depth), nodes.slice(end, end + 64)]);
    at = end + 64;
  }
  for (const other of entry.others) {
    const isLeaf = Array.isArray(other) && other.length === 2 && other.every(isHash);
    if (!isLeaf) reject("roots.json: another leaf is [path, digest]");
    rest.push([bitsOf(other[0]), await leafOf(...other)]);
  }
  return rest;
}

/** The rows of a type that are opened, once both trees are made of them and of the rest. */
async function openingOf(entry, paths, types) {
  const keys = { nodes: "string", others: "list", rows: "list", source: "string", type: "string" };
  shape(entry, keys, "roots.json: opened");
  const name = place(entry.source, entry.type);
  if (!types.has(name)) reject("roots.json: what is opened is no type of it");
  const rest = await restOfTree(entry);
  const covered = new Set(rest.map(([bits]) => bits));
  const depths = new Set(rest.map(([bits]) => bits.length));
  const shown = new Map();
  const leaves = [[], []];
  for (const row of entry.rows) {
    const isRow = Array.isArray(row) && row.length === 4 && Array.isArray(row[0]);
    const isSide = (side) => side === null || isHash(side);
    if (!isRow || !isText(row[1]) || !SALT.test(row[1]) || !row.slice(2).every(isSide)) {
      reject("roots.json: a row is [key, salt, before, after]");
    }
    const [key, salt, ...digests] = row;
    const own = canonical(key);
    if (shown.has(own)) reject("roots.json: a row is opened twice");
    shown.set(own, { salt, digests });
    const path = hex(await sha256(paths, text.encode(place(entry.source, entry.type, key))));
    const bits = bitsOf(path);
    if ([...depths].some((depth) => covered.has(bits.slice(0, depth)))) {
      reject("roots.json: a row is where something else is");
    }
    for (const [side, digest] of digests.entries()) {
      if (digest !== null) leaves[side].push([bits, await leafOf(path, digest)]);
    }
  }
  for (const [side, head] of types.get(name).sides.entries()) {
    const entries = [...rest, ...leaves[side]].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    if ((await treeOf(entries)) !== (head === null ? EMPTY : head[1])) {
      reject(`roots.json: the rows of ${entry.type} do not give their root`);
    }
  }
  return [name, shown];
}

const ROW = /^fragments\.json#\/([0-9]+)\/rows\/[0-9]+$/;
const COVERED = /^captures\.json#\/enumerations\/([0-9]+)\/[0-9]+$/;
const MAPPED = /^resolution\.json#\/mappings\/([0-9]+)\/[0-9]+$/;

/** The types that a matching says nothing of, on one side, and those that it has rekeyed. */
function exempt(at) {
  const [unseen, rekeyed, known] = [new Set(), new Set(), new Set()];
  const types = valueAt(at.get("schema.json#"), ["0", "types"]);
  const isKeyless = (each) => isEmptyArray(valueAt(each, ["key"]));
  const keyless = (Array.isArray(types) ? types : []).filter(isKeyless).map(({ name }) => name);
  for (const [path, value] of at) {
    const covered = COVERED.exec(path);
    const mapped = MAPPED.exec(path);
    if (covered && Array.isArray(value) && isText(value[0]) && isText(value[1])) {
      const [side, name, cover] = value;
      const own = place(covered[1], name, side);
      if (known.has(own)) reject(`captures.json: ${name} ${side} is enumerated twice`);
      known.add(own);
      const isDark = Array.isArray(cover) && cover.length === 2 && cover[0] === "unobserved";
      if (value.length === 3 && isDark && SIDES.includes(side)) unseen.add(own);
    } else if (mapped && isObject(value) && isText(value.type)) {
      if (!keyless.includes(value.type)) reject("resolution.json: a pair of a type with a key");
      rekeyed.add(place(mapped[1], value.type));
    }
  }
  return [unseen, rekeyed];
}

/** Each row that is shown is as its leaf; gives where rows are shown. */
async function checkRows(at, owners, shown, rekeyed) {
  const seen = new Set();
  for (const [path, row] of at) {
    const found = ROW.exec(path);
    if (!found) continue;
    const isRow = isObject(row) && [row.side, row.type, row.presence].every(isText);
    if (!isRow || !Array.isArray(row.key) || !Object.hasOwn(row, "fields")) {
      reject("fragments.json: a row is of another shape");
    }
    const side = SIDES.indexOf(row.side);
    if (side < 0 || (side === 1 && rekeyed.has(place(found[1], row.type)))) continue;
    const key = canonical(row.key);
    seen.add(place(found[1], row.type, key, side));
    const own = owners.get(row.type) ?? [];
    if (row.presence === "UNOBSERVED" || own.length > 1) continue;
    if (own.length === 0 && row.presence === "ABSENT") continue;
    const leaf = own.length ? shown.get(own[0])?.get(key) : undefined;
    if (!leaf) reject(`${path}: no row of the state roots`);
    let expected = null;
    if (row.presence === "PRESENT") {
      expected = hex(await sha256(unhex(leaf.salt), text.encode(canonical(row.fields))));
    }
    if (leaf.digests[side] !== expected) reject(`${path}: not the row that the state roots have`);
  }
  return seen;
}

/** Each row that is shown is as its leaf, and each that differs is shown on both sides. */
async function checkFragments(at, captures, types, shown, owners) {
  const [unseen, rekeyed] = exempt(at);
  const dark = new Set([...unseen].map((each) => place(...JSON.parse(each).slice(0, 2))));
  const seen = await checkRows(at, owners, shown, rekeyed);
  for (const [name, own] of owners) {
    const [one, two] = types.get(own[0]).sides.map((head) => (head === null ? EMPTY : head[1]));
    if (own.length > 1 || one === two) continue;
    const rows = [...(shown.get(own[0]) ?? [])];
    const changed = rows.filter(([, { digests }]) => digests[0] !== digests[1]);
    for (const number of captures.enumerations.keys()) {
      const matching = String(number);
      if ([dark, rekeyed].some((set) => set.has(place(matching, name)))) continue;
      const isThere = ([key]) => [0, 1].every((side) => seen.has(place(matching, name, key, side)));
      if (!shown.has(own[0]) || !changed.every(isThere)) {
        reject(`fragments.json: what changed of ${name} is not all there`);
      }
    }
  }
  const keys = new Set([...seen].map((each) => place(...JSON.parse(each).slice(1, 3))));
  const paired = new Set([...rekeyed].map((each) => JSON.parse(each)[1]));
  for (const [own, rows] of shown) {
    const { type } = types.get(own);
    const isIdle = ([key, { digests }]) =>
      digests[0] === digests[1] && !keys.has(place(type, key)) && !paired.has(type);
    if (owners.get(type).length > 1 || [...rows].some(isIdle)) {
      reject(`roots.json: ${type} has rows opened that no matching shows`);
    }
  }
}

/** Each type that a clause ranged over has as many members as its root's columns have rows. */
async function checkScans(at, scanned, types, owners) {
  const members = new Map();
  for (const entry of scanned) {
    const [name, count] = await scannedOf(entry, types);
    if (members.has(name) || owners.get(entry.type).length > 1) {
      reject(`roots.json: ${entry.type} is scanned twice, or of several sources`);
    }
    members.set(name, count);
  }
  const [unseen] = exempt(at);
  const cuts = new Map(cutsOf(at.get("fragments.json#"), "fragments.json"));
  const used = new Set();
  for (const [matching, { scans }] of at.get("fragments.json#")[0].entries()) {
    for (const [number, scan] of scans.entries()) {
      if (!isObject(scan) || !isText(scan.side) || !isText(scan.type)) {
        reject("fragments.json: a scan is of another shape");
      }
      const name = place(scan.type, scan.side);
      used.add(name);
      const own = owners.get(scan.type) ?? [];
      const side = SIDES.indexOf(scan.side);
      if (side < 0 || own.length > 1 || unseen.has(place(String(matching), scan.type, scan.side))) {
        continue;
      }
      const isThere = own.length > 0 && types.get(own[0]).sides[side] !== null;
      const expected = isThere ? members.get(name) : 0;
      if ((cuts.get(`/${matching}/scans/${number}/members`) ?? 0) !== expected) {
        reject(`fragments.json: ${scan.type} has another number of members than rows`);
      }
    }
  }
  for (const name of members.keys()) {
    if (!used.has(name)) reject("roots.json: a type is scanned that no matching ranges over");
  }
}

/** The type and side that were ranged over, and the rows there, once their root is made. */
async function scannedOf(entry, types) {
  const words = ["source", "type", "side", "salt"].map((name) => [name, "string"]);
  const keys = { ...Object.fromEntries(words), counts: "list", columns: "list" };
  shape(entry, keys, "roots.json: scanned");
  const side = SIDES.indexOf(entry.side);
  const head = types.get(place(entry.source, entry.type))?.sides[side] ?? null;
  const isCount = (count) => Number.isSafeInteger(count) && count >= 0;
  if (head === null || !entry.counts.every(isCount)) {
    reject("roots.json: what is scanned is no type of it, or has no counts");
  }
  const isColumn = (column) =>
    Array.isArray(column) && column.length === 3 && column.slice(0, 2).every(isText) &&
    (column[2] === null || isText(column[2]));
  if (!entry.columns.every(isColumn)) reject("roots.json: a column is [name, digest, salt]");
  const columns = entry.columns.map((column) => column.slice(0, 2));
  const listed = text.encode(canonical([entry.salt, entry.counts, columns]));
  if (hex(await sha256(listed)) !== head[2]) {
    reject(`roots.json: the columns of ${entry.type} do not give their root`);
  }
  const count = entry.counts.reduce((sum, each) => sum + each, 0);
  return [place(entry.type, entry.side), count];
}

/** The state roots that all that the pieces show is under; null of a format without roots. */
async function boundStates(at) {
  const facts = at.get("manifest.json#");
  if (!Array.isArray(facts) || !isObject(facts[0]) || facts[0].format !== BOUND) return null;
  const captures = restOf(at, "captures.json#");
  const roots = restOf(at, "roots.json#");
  const keys = { form: "string", opened: "list", paths: "string", scanned: "list", types: "list" };
  shape(roots, keys, "roots.json");
  if (roots.form !== ROOTS || !HEX.test(roots.paths)) reject("roots.json: of another form");
  const paths = unhex(roots.paths);
  const heads = roots.types.map(headOf);
  const found = {};
  for (const [number, side] of SIDES.entries()) {
    const own = heads
      .filter(({ sides }) => sides[number] !== null)
      .map(({ source, type, sides }) => [source, type, ...sides[number]]);
    const lead = text.encode("statediff/state-root/1\0");
    found[side] = hex(await sha256(lead, paths, text.encode(canonical(own))));
  }
  if (captures.roots === undefined || canonical(captures.roots) !== canonical(found)) {
    reject("roots.json: the types do not give the roots in captures.json");
  }
  const types = new Map(heads.map((head) => [place(head.source, head.type), head]));
  if (types.size !== heads.length) reject("roots.json: a type stands twice");
  const shown = new Map();
  for (const entry of roots.opened) {
    const [name, rows] = await openingOf(entry, paths, types);
    if (shown.has(name)) reject("roots.json: a type is opened twice");
    shown.set(name, rows);
  }
  const owners = new Map();
  for (const [own, { type }] of types) owners.set(type, [...(owners.get(type) ?? []), own]);
  await checkFragments(at, captures, types, shown, owners);
  await checkScans(at, roots.scanned, types, owners);
  return found;
}

/** The instant of a whole second, as Python writes it. */
const said = (at) => `${new Date(Number(at / 1000n)).toISOString().slice(0, 19)}+00:00`;

function crc32(bytes) {
  let found = 0xffffffff;
  for (const byte of bytes) found = (found >>> 8) ^ CRC_TABLE[(found ^ byte) & 0xff];
  return (found ^ 0xffffffff) >>> 0;
}

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let found = byte;
  for (let bit = 0; bit < 8; bit += 1) found = (found >>> 1) ^ (found & 1 ? 0xedb88320 : 0);
  return found;
});

/** Numbers of so many bytes each, little-endian: [bytes, number, …]. */
const packed = (...given) =>
  given.flatMap((value, at) =>
    at % 2 ? Array.from({ length: given[at - 1] }, (_, byte) => (value / 2 ** (8 * byte)) & 0xff) : [],
  );

/** The files as a zip: stored, in order, undated; the same bytes for the same files. */
export function zipped(files) {
  const [parts, directory] = [[], []];
  const names = Object.keys(files).sort();
  let at = 0;
  for (const name of names) {
    const [data, label] = [files[name], text.encode(name)];
    const dated = packed(2, 20, 2, 0, 2, 0, 2, 0, 2, 0x21, 4, crc32(data));
    const common = [...dated, ...packed(4, data.length, 4, data.length, 2, label.length, 2, 0)];
    const rest = packed(2, 0, 2, 0, 2, 0, 4, 0o600 * 2 ** 16, 4, at);
    directory.push(Uint8Array.from([0x50, 0x4b, 1, 2, ...packed(2, 0x314), ...common, ...rest]), label);
    parts.push(Uint8Array.from([0x50, 0x4b, 3, 4, ...common]), label, data);
    at += 4 + common.length + label.length + data.length;
  }
  const size = directory.reduce((sum, part) => sum + part.length, 0);
  const counts = packed(2, 0, 2, 0, 2, names.length, 2, names.length, 4, size, 4, at, 2, 0);
  return joined([...parts, ...directory, Uint8Array.from([0x50, 0x4b, 5, 6, ...counts])]);
}

/** The files of a zip, which is byte for byte what `zipped` makes of them. Throws `Rejected`. */
export function unzipped(data) {
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  const files = {};
  for (let at = 0, count = 0; count < FILES.length + MORE.length; count += 1) {
    if (at + 30 > data.length || view.getUint32(at, true) !== 0x04034b50) break;
    const [size, length] = [view.getUint32(at + 22, true), view.getUint16(at + 26, true)];
    const start = at + 30 + length;
    const name = String.fromCharCode(...data.subarray(at + 30, Math.min(start, at + 130)));
    Object.defineProperty(files, name, {
      value: data.subarray(start, start + size), enumerable: true, configurable: true,
    });
    at = start + size;
  }
  if (Object.keys(files).length === 0) reject("not a zip as statediff writes it, and no folder");
  checkNames(Object.keys(files));
  const again = zipped(files);
  if (again.length !== data.length || again.some((byte, at) => byte !== data[at])) {
    reject("not a zip as statediff writes it: the bytes differ");
  }
  return files;
}

/** What a sealed bundle says; `files` maps the three names to bytes. Throws `Rejected`. */
export async function verify(files, known) {
  checkNames(Object.keys(files));
  const [signers, told] = await signedBy(files["envelope.json"], files["manifest.json"], known);
  const manifest = readManifest(files["manifest.json"]);
  const sealedAt = instant(manifest.sealed_at, "manifest.json: sealed_at");
  for (const signer of signers) checkTime(signer, sealedAt, "envelope.json");
  const document = parse(files["leaves.json"], "leaves.json");
  shape(document, { disclosed: "list", withheld: "list" }, "leaves.json");
  const disclosed = [];
  const missing = { ...manifest.tree.tags };
  const places = new Map();
  let contract = null;
  for (const leaf of document.disclosed) {
    const isLeaf = Array.isArray(leaf) && leaf.length === 3 && Array.isArray(leaf[2]);
    if (!isLeaf || leaf[2].length !== 2) reject("leaves.json: a leaf is [tag, salt, [path, value]]");
    const [tag, salt, [path, value]] = leaf;
    if (typeof tag !== "string" || !TAG.test(tag)) reject("leaves.json: no tag");
    if (typeof salt !== "string" || !SALT.test(salt)) reject("leaves.json: no salt");
    if (typeof path !== "string" || !path.includes("#")) reject("leaves.json: no path");
    if (!Object.hasOwn(missing, tag) || missing[tag] === 0) reject(`leaves.json: too many ${tag}`);
    missing[tag] -= 1;
    if (tag.split("/")[1] !== kindOf(path)) reject("leaves.json: a leaf has the tag of another");
    places.set(path, value);
    disclosed.push(hex(await sha256(Uint8Array.of(0), text.encode(canonical(leaf)))));
    if (path === CONTRACT) contract = disclosed.at(-1);
  }
  if (places.size !== disclosed.length) reject("leaves.json: two leaves stand at one place");
  if (!document.withheld.every(isHash)) reject("leaves.json: not a list of hashes");
  if (!isSorted(disclosed) || !isSorted(document.withheld)) reject("leaves.json: out of order");
  const hashes = [...disclosed, ...document.withheld].sort();
  if (!isSorted(hashes)) reject("leaves.json: a leaf stands twice");
  if (hashes.length !== manifest.tree.leaves || (await rootOf(hashes)) !== manifest.tree.root) {
    reject("leaves.json: the leaves do not give the signed root");
  }
  const withheld = Object.fromEntries(Object.entries(missing).filter(([, count]) => count > 0));
  const isPartial = Object.keys(withheld).some((tag) => tag !== RAW);
  const cuts = checkClosed(places, manifest.tree.tags);
  if (!isPartial) checkWhole(places, cuts);
  checkAgreement(manifest, places);
  checkFiles(places, manifest.tree.tags);
  const named = contract === null ? document.withheld : [contract];
  checkPredicate(told, manifest, places, named);
  const status = isPartial ? "NOT_REPLAYABLE_AT_TIER" : "VALID";
  const states = isPartial ? null : await boundStates(places);
  const observed = await observedIn(places, manifest, known, signers);
  const found = { logged: null, stamp: null, observed };
  if (Object.hasOwn(files, PROOF)) {
    found.logged = await logged(files[PROOF], files["envelope.json"], manifest, known);
    if (found.logged.at < sealedAt - EARLY) reject(`${PROOF}: of before the sealing`);
    found.logged.at = said(found.logged.at);
  }
  if (Object.hasOwn(files, STAMP)) {
    const at = await stampedAt(files[STAMP], files["envelope.json"]);
    if (at < sealedAt - EARLY) reject(`${STAMP}: of before the sealing`);
    found.stamp = { at: said(at), authority: "not checked" };
  }
  const names = signers.map((signer) => signer.name);
  return { status, signers: names, manifest, withheld, states, ...found, leaves: document.disclosed };
}

async function main(sealed, trust) {
  const { readFile, readdir, lstat, realpath, stat } = await import("node:fs/promises");
  const read = async (path, name) => {
    const status = await lstat(path);
    if (!status.isFile() || status.size > MAX_BYTES) reject(`${name}: not a regular file`);
    return readFile(path);
  };
  const readCopy = async () => {
    if (!(await stat(sealed)).isDirectory()) return unzipped(await read(sealed, "sealed bundle"));
    const names = (await readdir(sealed)).sort();
    checkNames(names);
    const files = {};
    for (const name of names) files[name] = await read(`${sealed}/${name}`, name);
    return files;
  };
  try {
    const known = await readTrust(await read(await realpath(trust), "trust file"));
    const files = await readCopy();
    const { manifest, leaves: _, ...found } = await verify(files, known);
    console.log(JSON.stringify({ ...found, verdict: manifest.verdict }));
    return found.status === "VALID" ? 0 : 3;
  } catch (error) {
    if (!(error instanceof Rejected)) {
      console.error(String(error.message));
      return 2;
    }
    console.log(JSON.stringify({ status: "INVALID", why: error.message }));
    return 4;
  }
}

const IS_PIPED = /\[(stdin|eval\d*)\]$/.test(import.meta.url);

/** Whether Node runs this very text, whatever its file is called, and nobody imported it. */
async function isProgram() {
  if (typeof process === "undefined" || !process.versions?.node) return false;
  if (IS_PIPED || process.argv[1] === undefined) return IS_PIPED;
  const { realpathSync } = await import("node:fs");
  const { pathToFileURL } = await import("node:url");
  const started = realpathSync(process.argv[1]);
  return pathToFileURL(started).href === import.meta.url;
}

if (await isProgram()) {
  process.exitCode = 2;
  const given = process.argv.slice(/eval\d*\]$/.test(import.meta.url) ? 1 : 2);
  if (given.length === 2) process.exitCode = await main(...given);
  else console.error("usage: node verify.mjs SEALED TRUST");
}
