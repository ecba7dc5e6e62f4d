// What verify.mjs says of sealed bundles that come through standard input, a line of JSON each:
// {"seed": n, "files": {name: base64}, "trust": base64}  remembers a bundle
// {"of": n, "change": {name: base64}}                    that bundle with other files: its status
import { createInterface } from "node:readline";
import { Rejected, readTrust, verify } from "../../statediff/evidence/verify.mjs";

const bytes = (text) => new Uint8Array(Buffer.from(text, "base64"));
const decoded = (files) => Object.fromEntries(Object.entries(files).map(([k, t]) => [k, bytes(t)]));
const seeds = [];
for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  if ("seed" in asked) {
    seeds[asked.seed] = { files: decoded(asked.files), trust: await readTrust(bytes(asked.trust)) };
    continue;
  }
  const { files, trust } = seeds[asked.of];
  let status;
  try {
    status = (await verify({ ...files, ...decoded(asked.change) }, trust)).status;
  } catch (error) {
    status = error instanceof Rejected ? "INVALID" : `uncaught ${error.stack}`;
  }
  process.stdout.write(JSON.stringify(status) + "\n");
}
