// What a proof costs that a shared whole number is in range: bytes, milliseconds, and that a lie is
// refused. Needs the npm package @divviup/prio3 0.8 in node_modules.
import { Prio3Sum, Prio3SumVec } from "@divviup/prio3";
import { randomBytes } from "node:crypto";

const CLIENTS = Number(process.argv[2] ?? 200);

async function verify(vdaf, key, nonce, publicShare, inputShares) {
  const states = [], shares = [];
  for (const [id, input] of inputShares.entries()) {
    const made = await vdaf.prepareInit(key, id, null, nonce, publicShare, input);
    states.push(made.preparationState);
    shares.push(made.preparationShare);
  }
  const message = await vdaf.unshardPreparationShares(null, shares);
  return states.map((state) => vdaf.prepareNext(state, message).outputShare);
}

const rows = [];
for (const [name, vdaf, draw] of [
  ["one number of 20 bits", new Prio3Sum({ shares: 2, bits: 20 }), () => Math.floor(Math.random() * 2 ** 20)],
  ["ten numbers of 16 bits", new Prio3SumVec({ shares: 2, length: 10, bits: 16, chunkLength: 13 }),
    () => Array.from({ length: 10 }, () => Math.floor(Math.random() * 2 ** 16))],
]) {
  const key = randomBytes(vdaf.verifyKeySize);
  let sharding = 0, preparing = 0, bytes = 0, truth = 0n;
  const outputs = [[], []];
  for (let i = 0; i < CLIENTS; i++) {
    const value = draw();
    truth += BigInt(Array.isArray(value) ? value[0] : value);
    const nonce = randomBytes(16);
    let start = process.hrtime.bigint();
    const { publicShare, inputShares } = await vdaf.shard(value, nonce, randomBytes(vdaf.randSize));
    sharding += Number(process.hrtime.bigint() - start);
    bytes = vdaf.encodePublicShare(publicShare).length
      + inputShares.reduce((sum, item) => sum + vdaf.encodeInputShare(item).length, 0);
    start = process.hrtime.bigint();
    const out = await verify(vdaf, key, nonce, publicShare, inputShares);
    preparing += Number(process.hrtime.bigint() - start) / 2;
    out.forEach((item, id) => outputs[id].push(item));
  }
  const sums = outputs.map((item) => vdaf.aggregate(null, item));
  const total = vdaf.unshard(null, sums, CLIENTS);
  if (BigInt(Array.isArray(total) ? total[0] : total) !== truth) throw new Error("wrong sum");
  let refused = 0;
  for (let i = 0; i < CLIENTS; i++) {
    const nonce = randomBytes(16);
    const { publicShare, inputShares } = await vdaf.shard(draw(), nonce, randomBytes(vdaf.randSize));
    inputShares[0].measurementShare[0] += 2n; // a bit that is 2 or 3
    try {
      await verify(vdaf, key, nonce, publicShare, inputShares);
    } catch {
      refused++;
    }
  }
  rows.push({ name, bytes, client: sharding / CLIENTS / 1e6, server: preparing / CLIENTS / 1e6, refused, lies: CLIENTS });
}
console.log(JSON.stringify(rows));
