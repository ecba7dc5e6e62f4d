
// From here on the page itself: what stands above is the second verifier, as it is shipped.

const RFC8032 = {
  key: "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
  signature:
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da" +
    "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
};
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
    const { status, signers, manifest, withheld, leaves } = await verify(embedded(), known);
    const why = contradiction(manifest, leaves);
    if (why) reject(why);
    const by = `sealed by ${signers.join(" and ")} at ${manifest.sealed_at}`;
    if (status === "VALID") tell("match", "✓", "VALID", `${by}; nothing is withheld.`);
    else {
      const count = Object.values(withheld).reduce((sum, each) => sum + each, 0);
      tell("inconclusive", "?", status, `Genuine, ${by}; ${count} of ${manifest.tree.leaves} leaves are withheld, so the verdict stands on the signature alone.`);
    }
  } catch (error) {
    if (!(error instanceof Rejected)) throw error;
    tell("diverge", "✗", "INVALID", error.message);
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
