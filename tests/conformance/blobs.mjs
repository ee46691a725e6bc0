import { equal, match } from "./assert.mjs";
import { all, range, refuses } from "./kit.mjs";

const text = (content) => new TextEncoder().encode(content);

/** Bytes that differ from place to place. */
const pattern = (length) => Uint8Array.from({ length }, (_, index) => (index * 31 + (index >> 8) * 7) & 0xff);

async function sha256(bytes) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

const CHUNK = 256 * 1024;

export const blobs = {
  "bytes are kept under their SHA-256 and come back as they were": async ({ store, clock, reopen }) => {
    const abc = await store.blobs.put(text("abc"), { mediaType: "text/plain" });
    equal(abc, { id: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", size: 3, mediaType: "text/plain", createdAt: clock.now(), created: true });
    const kept = [];
    for (const size of [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 5]) {
      const bytes = pattern(size);
      const { id } = await store.blobs.put(bytes);
      equal(id, await sha256(bytes));
      kept.push([id, bytes]);
    }
    const again = await reopen();
    for (const [id, bytes] of kept) {
      const blob = await again.blobs.get(id);
      equal(blob.bytes instanceof Uint8Array, true);
      equal(await sha256(blob.bytes), id);
      match(blob, { id, size: bytes.length });
      equal("mediaType" in blob, false);
    }
    match(await again.blobs.get(abc.id), { id: abc.id, size: 3, mediaType: "text/plain", createdAt: abc.createdAt });
  },

  "the same bytes are stored once, and the first media type stays": async ({ store, clock }) => {
    const first = await store.blobs.put(text("same"));
    clock.advance(10);
    match(await store.blobs.put(text("same")), { id: first.id, createdAt: first.createdAt, created: false });
    match(await store.blobs.put(text("same"), { mediaType: "text/plain" }), { mediaType: "text/plain", created: false });
    match(await store.blobs.put(text("same"), { mediaType: "image/png" }), { mediaType: "text/plain", created: false });
    const { mediaType, size } = await store.blobs.get(first.id);
    equal([mediaType, size], ["text/plain", 4]);
    equal((await all(store.blobs.list())).length, 1);
  },

  "a range is the bytes of that range, and ends where the blob does": async ({ store }) => {
    const bytes = pattern(2 * CHUNK + 100);
    const { id } = await store.blobs.put(bytes);
    const get = async (range) => (await store.blobs.get(id, range)).bytes;
    for (const [offset, length] of [
      [0, 1],
      [0, CHUNK],
      [CHUNK - 1, 2],
      [CHUNK, CHUNK],
      [CHUNK + 7, CHUNK + 50],
      [10, 0],
      [2 * CHUNK + 99, 1],
      [2 * CHUNK + 50, 1_000_000],
      [bytes.length, 5],
    ]) {
      const some = await get({ offset, length });
      const wanted = bytes.slice(offset, offset + length);
      equal([some.length, await sha256(some)], [wanted.length, await sha256(wanted)]);
    }
    equal((await get({ offset: bytes.length - 3 })).length, 3);
    equal((await get({ length: 3 })).length, 3);
    match(await store.blobs.get(id, { length: 0 }), { id, size: bytes.length });
  },

  "a range that is none is refused": async ({ store }) => {
    const { id } = await store.blobs.put(text("abc"));
    await refuses(store, () => store.blobs.get(id, { offset: -1 }), "invalid_argument", /offset/);
    await refuses(store, () => store.blobs.get(id, { length: -1 }), "invalid_argument", /length/);
    const error = await refuses(store, () => store.blobs.get(id, { offset: 4 }), "invalid_argument", /4.*3 bytes/);
    match(error.details, { path: "offset", size: 3 });
    await refuses(store, () => store.blobs.get(id, { offset: 0.5 }), "invalid_argument", /offset/);
  },

  "a blob may come as a Blob or a buffer; what is no bytes is refused": async ({ store }) => {
    const { id } = await store.blobs.put(text("abc"));
    const buffer = text("xabcx").buffer;
    for (const bytes of [new Blob(["abc"]), text("abc").buffer, new Uint8Array(buffer, 1, 3)]) match(await store.blobs.put(bytes), { id, created: false });
    await refuses(store, () => store.blobs.put("abc"), "invalid_argument", /Uint8Array/);
    await refuses(store, () => store.blobs.put(), "invalid_argument", /Uint8Array/);
    await refuses(store, () => store.blobs.put(text("a"), { mediaType: "" }), "invalid_argument", /mediaType/);
  },

  "a deleted blob is gone, whatever refers to it, and can be put again": async ({ store }) => {
    const { id } = await store.blobs.put(pattern(CHUNK + 1));
    const { id: other } = await store.blobs.put(text("other"));
    await store.blobs.delete(id);
    equal(await store.blobs.get(id), null);
    equal((await all(store.blobs.list())).map((blob) => blob.id), [other]);
    await refuses(store, () => store.blobs.delete(id), "not_found", new RegExp(id));
    match(await store.blobs.put(pattern(CHUNK + 1)), { id, created: true });
    equal((await store.blobs.get(id)).bytes.length, CHUNK + 1);
  },

  "an id that no blob has, or could have, finds nothing": async ({ store }) => {
    const { id } = await store.blobs.put(text("abc"));
    for (const unknown of ["0".repeat(64), "ghost", id.slice(1), `${id}0`, "é".repeat(32)]) {
      equal(await store.blobs.get(unknown), null);
      await refuses(store, () => store.blobs.delete(unknown), "not_found");
    }
  },

  "blobs are listed in the order in which they were put": async ({ store }) => {
    const put = [];
    for (const n of range(5)) put.push((await store.blobs.put(text(`blob ${n}`))).id);
    equal((await all(store.blobs.list({ limit: 2 }))).map(({ id }) => id), put);
    equal((await all(store.blobs.list({ limit: 2, order: "desc" }))).map(({ id }) => id), [...put].reverse());
  },

  "tenants share no blobs": async ({ store }) => {
    for (const id of ["a", "b"]) await store.tenants.create({ id });
    const [a, b] = ["a", "b"].map((id) => store.forTenant(id));
    const { id } = await a.blobs.put(text("secret"));
    equal(await b.blobs.get(id), null);
    match(await b.blobs.put(text("secret")), { id, created: true });
    await b.blobs.delete(id);
    equal((await a.blobs.get(id)).bytes.length, 6);
  },
};
