import { equal, match, ok } from "./assert.mjs";
import { all, contents, range, refuses } from "./kit.mjs";

const create = (store, more) => store.tokens.create({ name: "laptop", role: "viewer", ...more });

export const tokens = {
  "a token is shown once, and what is kept is not it": async ({ store, clock }) => {
    const { token, info } = await create(store, { role: "operator" });
    match({ token }, { token: /^rk_[0-9a-f]{64}$/ });
    equal(info, { id: info.id, tenantId: "default", name: "laptop", role: "operator", createdAt: clock.now() });
    equal(await all(store.tokens.list()), [info]);
    ok(!JSON.stringify(await contents(store)).includes(token.slice(3)), "the secret can be read");
    const others = await Promise.all(range(20).map(() => create(store)));
    equal(new Set([token, ...others.map((other) => other.token)]).size, 21);
  },

  "a token stands for its name, role and tenant, until it expires or is revoked": async ({ store, clock }) => {
    const expiresAt = clock.now() + 1_000;
    const { token, info } = await create(store, { expiresAt });
    const { token: other, info: otherInfo } = await create(store, { name: "other" });
    match(await store.tokens.validate(token), { id: info.id, name: "laptop", role: "viewer", tenantId: "default", expiresAt });
    clock.set(expiresAt - 1);
    match(await store.tokens.validate(token), { id: info.id });
    clock.set(expiresAt);
    equal(await store.tokens.validate(token), null);
    match(await store.tokens.revoke(otherInfo.id), { id: otherInfo.id, revokedAt: clock.now() });
    equal(await store.tokens.validate(other), null);
    clock.advance(5);
    match(await store.tokens.revoke(otherInfo.id), { revokedAt: clock.now() - 5 });
    await refuses(store, () => store.tokens.revoke("ghost"), "not_found", /ghost/);
  },

  "what is no token is answered null, whatever it is": async ({ store }) => {
    const { token } = await create(store);
    for (const other of ["", "rk_", token.slice(0, -1), `${token}0`, ` ${token}`, token.toUpperCase(), token.slice(3), "x".repeat(100_000), "🎉\u0000"]) equal(await store.tokens.validate(other), null);
  },

  "the last use is written at most once a minute": async ({ store, clock }) => {
    const { token } = await create(store);
    const from = clock.now();
    const seen = [];
    for (const ms of [0, 1, 59_999, 60_000, 119_999, 120_000]) {
      clock.set(from + ms);
      await store.tokens.validate(token);
      seen.push((await store.tokens.list()).items[0].lastUsedAt - from);
    }
    equal(seen, [0, 0, 0, 60_000, 60_000, 120_000]);
  },
};
