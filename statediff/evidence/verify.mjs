// A second verifier of sealed bundles, independent of the first: it shares no code with it, only the
// format, which stands at the top of verify.py. It runs in Node 20 and in current browsers, where
// WebCrypto has Ed25519.
//
//   node verify.mjs SEALED TRUST     prints one JSON object; 0 VALID, 3 NOT_REPLAYABLE_AT_TIER,
//                                    4 INVALID, 2 usage

const FORMAT = "statediff/sealed/1";
const TRUST = "statediff/trust/1";
const FILES = ["envelope.json", "leaves.json", "manifest.json"];
const STATEMENT = "https://in-toto.io/Statement/v1";
const PREDICATE = "urn:statediff:sealed:1";
const PAYLOAD = "application/vnd.in-toto+json";
const RAW = "auditor/raw"; // kept beside the evidence; no decision rests on it
const ROLE = "evaluator";
const MAX_DEPTH = 256;
const MAX_LEAVES = 2_000_000;
const TAG = /^(public|reviewer|auditor)\/[a-z]+$/;
const HEX = /^[0-9a-f]{64}$/;
const SALT = /^[0-9a-f]{32}$/;
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

function parse(bytes, name) {
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
  if (Object.keys(document).sort().join("\n") !== expected.join("\n")) {
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
  const data = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    data.set(part, at);
    at += part.length;
  }
  return new Uint8Array(await crypto.subtle.digest("SHA-256", data));
}

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const unhex = (digits) => Uint8Array.from(digits.match(/../g) ?? [], (two) => parseInt(two, 16));

function unbase64(value, name) {
  let binary;
  try {
    binary = atob(value);
  } catch {
    reject(`envelope.json: ${name} is not base64`);
  }
  if (btoa(binary) !== value) reject(`envelope.json: ${name} is not the one base64 of its bytes`);
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}

function readManifest(bytes) {
  const manifest = parse(bytes, "manifest.json");
  const words = "format kernel statediff trial contract contract_version verdict sealed_at";
  const keys = Object.fromEntries(words.split(" ").map((word) => [word, "string"]));
  shape(manifest, { ...keys, tree: "object" }, "manifest.json");
  const tree = manifest.tree;
  shape(tree, { leaves: "integer", root: "string", tags: "object" }, "manifest.json: tree");
  if (manifest.format !== FORMAT) reject(`manifest.json: not of format ${FORMAT}`);
  if (!["MATCH", "DIVERGE", "INCONCLUSIVE"].includes(manifest.verdict)) {
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
  return manifest;
}

export async function readTrust(bytes) {
  let document;
  try {
    document = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (error) {
    reject(`trust file: ${error.message}`);
  }
  shape(document, { format: "string", keys: "list" }, "trust file");
  if (document.format !== TRUST) reject("trust file: of another format");
  const known = new Map();
  for (const entry of document.keys) {
    const keys = { name: "string", key: "string", roles: "list", from: "any", until: "any" };
    shape(entry, keys, "trust file: key");
    if (!HEX.test(entry.key)) reject("trust file: a key has 64 hexadecimal digits");
    const limit = (side) => (entry[side] === null ? null : instant(entry[side], "trust file"));
    const key = unhex(entry.key);
    const signer = { ...entry, key, from: limit("from"), until: limit("until") };
    const id = hex(await sha256(key));
    if (known.has(id)) reject("trust file: one key stands twice");
    known.set(id, signer);
  }
  return known;
}

async function signedBy(envelope, manifest, known, sealedAt) {
  const document = parse(envelope, "envelope.json");
  const keys = { payload: "string", payloadType: "string", signatures: "list" };
  shape(document, keys, "envelope.json");
  if (document.payloadType !== PAYLOAD) reject("envelope.json: another payloadType");
  const payload = unbase64(document.payload, "payload");
  const subject = [{ digest: { sha256: hex(await sha256(manifest)) }, name: "manifest.json" }];
  const expected = text.encode(
    canonical({ _type: STATEMENT, predicate: {}, predicateType: PREDICATE, subject }),
  );
  if (hex(payload) !== hex(expected)) reject("envelope.json: another manifest was signed");
  if (document.signatures.length !== 1) reject("envelope.json: expected one signature");
  const lead = `DSSEv1 ${PAYLOAD.length} ${PAYLOAD} ${payload.length} `;
  const signed = new Uint8Array([...text.encode(lead), ...payload]);
  const [entry] = document.signatures;
  shape(entry, { keyid: "string", sig: "string" }, "envelope.json: signature");
  const signer = known.get(entry.keyid);
  if (!signer) reject("envelope.json: the key is not trusted");
  if (!signer.roles.includes(ROLE)) reject(`envelope.json: ${signer.name} is no ${ROLE}`);
  if (signer.from !== null && sealedAt < signer.from) reject("envelope.json: key not yet valid");
  if (signer.until !== null && sealedAt >= signer.until) reject("envelope.json: key expired");
  const signature = unbase64(entry.sig, "sig");
  let good = false;
  try {
    const key = await crypto.subtle.importKey("raw", signer.key, "Ed25519", false, ["verify"]);
    good = await crypto.subtle.verify("Ed25519", key, signature, signed);
  } catch {
    good = false; // not a point, or not 64 bytes
  }
  if (!good) reject(`envelope.json: the signature of ${signer.name} does not fit`);
  return [signer.name];
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

/** What a sealed bundle says; `files` maps the three names to bytes. Throws `Rejected`. */
export async function verify(files, known) {
  if (Object.keys(files).sort().join("\n") !== FILES.join("\n")) {
    reject(`a sealed bundle has exactly the files ${FILES.join(", ")}`);
  }
  const manifest = readManifest(files["manifest.json"]);
  const sealedAt = instant(manifest.sealed_at, "manifest.json: sealed_at");
  const manifestBytes = files["manifest.json"];
  const signers = await signedBy(files["envelope.json"], manifestBytes, known, sealedAt);
  const document = parse(files["leaves.json"], "leaves.json");
  shape(document, { disclosed: "list", withheld: "list" }, "leaves.json");
  const disclosed = [];
  const missing = { ...manifest.tree.tags };
  const places = new Set();
  for (const leaf of document.disclosed) {
    const isLeaf = Array.isArray(leaf) && leaf.length === 3 && Array.isArray(leaf[2]);
    if (!isLeaf || leaf[2].length !== 2) reject("leaves.json: a leaf is [tag, salt, [path, value]]");
    const [tag, salt, [path]] = leaf;
    if (typeof tag !== "string" || !TAG.test(tag)) reject("leaves.json: no tag");
    if (typeof salt !== "string" || !SALT.test(salt)) reject("leaves.json: no salt");
    if (typeof path !== "string" || !path.includes("#")) reject("leaves.json: no path");
    if (!Object.hasOwn(missing, tag) || missing[tag] === 0) reject(`leaves.json: too many ${tag}`);
    missing[tag] -= 1;
    places.add(path);
    disclosed.push(hex(await sha256(Uint8Array.of(0), text.encode(canonical(leaf)))));
  }
  if (places.size !== disclosed.length) reject("leaves.json: two leaves stand at one place");
  const isHash = (entry) => typeof entry === "string" && HEX.test(entry);
  if (!document.withheld.every(isHash)) reject("leaves.json: not a list of hashes");
  if (!isSorted(disclosed) || !isSorted(document.withheld)) reject("leaves.json: out of order");
  const hashes = [...disclosed, ...document.withheld].sort();
  if (!isSorted(hashes)) reject("leaves.json: a leaf stands twice");
  if (hashes.length !== manifest.tree.leaves || (await rootOf(hashes)) !== manifest.tree.root) {
    reject("leaves.json: the leaves do not give the signed root");
  }
  const withheld = Object.fromEntries(Object.entries(missing).filter(([, count]) => count > 0));
  const isPartial = Object.keys(withheld).some((tag) => tag !== RAW);
  const status = isPartial ? "NOT_REPLAYABLE_AT_TIER" : "VALID";
  return { status, signers, manifest, withheld, leaves: document.disclosed };
}

async function main(folder, trust) {
  const { readFile, readdir, lstat } = await import("node:fs/promises");
  const files = {};
  try {
    const known = await readTrust(await readFile(trust));
    for (const name of (await readdir(folder)).sort()) {
      if (!(await lstat(`${folder}/${name}`)).isFile()) reject(`${name}: not a regular file`);
      files[name] = await readFile(`${folder}/${name}`);
    }
    const { status, signers, manifest, withheld } = await verify(files, known);
    console.log(JSON.stringify({ status, signers, verdict: manifest.verdict, withheld }));
    return status === "VALID" ? 0 : 3;
  } catch (error) {
    if (!(error instanceof Rejected)) {
      console.error(String(error.message));
      return 2;
    }
    console.log(JSON.stringify({ status: "INVALID", why: error.message }));
    return 4;
  }
}

if (typeof process !== "undefined" && process.argv[1]?.endsWith("verify.mjs")) {
  if (process.argv.length !== 4) {
    console.error("usage: node verify.mjs SEALED TRUST");
    process.exitCode = 2;
  } else {
    process.exitCode = await main(process.argv[2], process.argv[3]);
  }
}
