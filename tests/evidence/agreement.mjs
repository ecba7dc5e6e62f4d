// What verify.mjs says of sealed bundles that come through standard input, a line of JSON each:
// {"seed": n, "files": {name: base64}, "trust": base64}  remembers a bundle
// {"of": n, "change": {name: base64}}                    that bundle with other files: its status
import { createInterface } from "node:readline";
import { Rejected, readTrust, unzipped, verify } from "../../statediff/evidence/verify.mjs";

const bytes = (text) => new Uint8Array(Buffer.from(text, "base64"));
const decoded = (files) => Object.fromEntries(Object.entries(files).map(([k, t]) => [k, bytes(t)]));
const seeds = [];
const judge = async ({ of, change }) => {
  const { files, trust } = seeds[of];
  const { "sealed.zip": zip, ...found } = { ...files, ...decoded(change) };
  try {
    if (trust instanceof Error) throw trust;
    return (await verify(zip ? unzipped(zip) : found, trust)).status;
  } catch (error) {
    return error instanceof Rejected ? "INVALID" : `uncaught ${error.stack}`;
  }
};
let written = Promise.resolve(); // many are judged at a time; what is said of them stays in order
for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  if ("seed" in asked) {
    const trust = await readTrust(bytes(asked.trust)).catch((error) => error);
    seeds[asked.seed] = { files: decoded(asked.files), trust };
    continue;
  }
  const status = judge(asked);
  written = written.then(async () => process.stdout.write(JSON.stringify(await status) + "\n"));
}
