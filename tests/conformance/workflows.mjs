import { equal, match } from "./assert.mjs";
import { all, contents, refuses } from "./kit.mjs";

const put = (store, version, definition, more) => store.workflows.put({ id: "wf", version, definition, ...more });

export const workflows = {
  "a definition comes back as it was put, by version or the latest": async ({ store, clock }) => {
    const definition = { nodes: [{ id: "a", next: null }], __json: "x" };
    match(await put(store, "1", definition), { id: "wf", version: "1", definition, createdAt: clock.now(), created: true });
    await put(store, "10", [1]);
    await put(store, "9", "third");
    equal((await store.workflows.get("wf", { version: "1" })).definition, definition);
    match(await store.workflows.get("wf"), { version: "9", definition: "third" });
    equal([await store.workflows.get("ghost"), await store.workflows.get("wf", { version: "2" })], [null, null]);
  },

  "putting the same content again changes nothing; other content is a conflict, unless it is to replace": async ({ store, clock }) => {
    await put(store, "1", { a: 1, b: 2 });
    clock.advance(5);
    const before = await contents(store);
    match(await put(store, "1", { b: 2, a: 1 }), { created: false });
    match(await put(store, "1", { a: 1, b: 2 }, { replace: true }), { created: false });
    equal(await contents(store), before);
    await refuses(store, () => put(store, "1", { a: 2 }), "conflict", /wf/);
    await refuses(store, () => put(store, "1", { a: 2 }, { replace: false }), "conflict", /replace/);
    match(await put(store, "1", { a: 2 }, { replace: true }), { definition: { a: 2 }, created: false, createdAt: clock.now() - 5, updatedAt: clock.now() });
    match(await store.workflows.get("wf"), { definition: { a: 2 } });
  },

  "definitions are listed in the order in which they were put, of one workflow or all": async ({ store }) => {
    await put(store, "1", 1);
    await store.workflows.put({ id: "other", version: "1", definition: 1 });
    await put(store, "0", 1);
    const list = async (filter) => (await all(store.workflows.list({ limit: 1, ...filter }))).map(({ id, version }) => `${id}@${version}`);
    equal(await list(), ["wf@1", "other@1", "wf@0"]);
    equal(await list({ id: "wf" }), ["wf@1", "wf@0"]);
    equal(await list({ id: "wf", order: "desc" }), ["wf@0", "wf@1"]);
  },
};
