/// <reference lib="esnext.disposable" preserve="true" />
// Stores as their users hold them. Within one page all handles of one name share one connection.
import type { BootOptions, HostInfo, Transport } from "../host/protocol.js";
import {
  batchOperations,
  buildOperations,
  checkFunction,
  checkMembers,
  describe,
  isDuration,
  ofMs,
  misused,
  wrong,
  type BatchCall,
  type BatchOperations,
  type BatchResults,
  type CallOptions,
  type Send,
} from "./calls.js";
import { Connection, estimateRoom, type Connect } from "./connection.js";
import { encode } from "./encode.js";
import { invalid, RunkeepError } from "./errors.js";
import type { StoreOperations } from "./generated.js";
import { fileImports, type FileImports } from "./imports.js";
import { Live, type LiveOperations, type LiveQuery } from "./live.js";
import { Member, type MemberOptions } from "./member.js";
import { subscribe, Subscriptions, type ChangeFilter, type Follow, type StoreChange, type Unsubscribe, unsubscriber } from "./subscriptions.js";
import { liveClients, withOwner } from "./owners.js";
import { Sweeper } from "./sweeper.js";
import { buildTails, type WithTails } from "./tail.js";
import { newId } from "./worker.js";

export interface OpenOptions {
  /** The store's name within the origin. Default `"default"`. */
  name?: string | undefined;
  /** `"auto"` (default) is OPFS where the browser has it, else memory; `store.info()` tells. */
  storage?: "auto" | "opfs" | "memory" | undefined;
  /**
   * `"relaxed"` (default): what was acknowledged survives a crash of tab, browser or worker, not necessarily a power loss. `"strict"`: the disk
   * is flushed at each commit, of every tab, as long as one that asked for it has the store open.
   */
  durability?: "relaxed" | "strict" | undefined;
  /** How often time's work is done: expired leases, due items, lapsed workers. Default each second; `false` leaves it to you. */
  sweep?: { intervalMs?: number | undefined } | false | undefined;
  /** How long a call may take unless it says otherwise. Default 30,000. */
  timeoutMs?: number | undefined;
  /** How long opening may take, waiting for another tab included. Default 30,000. */
  bootTimeoutMs?: number | undefined;
  /** Where the package's worker.js is, if a bundler has not found it by itself. */
  workerUrl?: string | URL | undefined;
  /** Where the package's runkeep.wasm is, if it does not lie beside worker.js. */
  wasmUrl?: string | URL | undefined;
}

export interface StoreInfo {
  name: string;
  version: string;
  schemaVersion: number;
  sqliteVersion: string;
  storage: "opfs" | "memory";
  /** Why storage is memory where `"auto"` was asked for. */
  storageReason?: string;
  /** Whether the store's worker of this page is the one that has it open. The other pages' calls go to it. */
  owner?: boolean;
  /** This page, as the store knows it among its clients; another one after a reload. */
  clientId?: string;
  /** Whether the browser keeps this origin's storage under pressure; see `persist()`. Only with OPFS. */
  persisted?: boolean;
  /** Bytes that this origin uses, of everything it stores. Only with OPFS. */
  usage?: number;
  /** Bytes that this origin may use. Only with OPFS. */
  quota?: number;
}

type WholeStore = "batch" | "sweep" | "tenants" | "exportDatabase";

/** The operations of one tenant, without what concerns the whole store. */
export interface TenantStore extends WithTails<Omit<StoreOperations, WholeStore | "imports">> {
  readonly imports: Omit<StoreOperations["imports"], "jamjet"> & FileImports;
  /**
   * Runs operations that change something in one transaction: all or none. One failure undoes all, and `details.index` names it.
   * `store.batch((tx) => [tx.queue.enqueue(…), tx.events.append(…)])` answers their results in order.
   */
  batch<const Calls extends readonly BatchCall<unknown>[]>(build: (tx: BatchOperations) => Calls, options?: CallOptions): Promise<BatchResults<Calls>>;
  /**
   * Tells the callback after each commit what has changed, whichever tab has changed it: once at the start, at most once in 10 ms, and once after
   * the way to the store was lost. Answers at once, with the function that ends it.
   */
  subscribe(callback: (change: StoreChange) => void): Unsubscribe;
  subscribe(filter: ChangeFilter | undefined, callback: (change: StoreChange) => void): Unsubscribe;
  /**
   * A query that is run again when what it read has changed, as long as somebody subscribes to it:
   * `store.live((s) => s.executions.list({ status: "running" }))`.
   */
  live<Result>(query: (store: LiveOperations<Omit<StoreOperations, WholeStore>>) => PromiseLike<Result> | Result): LiveQuery<Result>;
}

/** What a store tells of itself. */
export interface StoreEvents {
  /** This page has the store open from now on, or no longer. */
  ownerchange: { readonly owner: boolean };
  /** A page with another version of the package has the store, or asks for it: the older of the two has to be reloaded. */
  versionchange: { readonly message: string };
  /** The browser has little room left for this origin. */
  storagelow: { readonly usage?: number; readonly quota?: number };
  /** The data was removed under the open store, as by clearing the site's data: every call is `storage_lost`. */
  storagelost: { readonly message: string };
}

export interface Store extends TenantStore, Pick<StoreOperations, Exclude<WholeStore, "batch">> {
  readonly imports: StoreOperations["imports"] & FileImports;
  /** The same store, bound to one tenant: nothing of another's can be read, changed, counted, claimed or found to exist. */
  forTenant(id: string): TenantStore;
  live<Result>(query: (store: LiveOperations) => PromiseLike<Result> | Result): LiveQuery<Result>;
  /** Tells the listener of what becomes of the store itself. Answers the function that ends it. */
  on<Name extends keyof StoreEvents>(event: Name, listener: (detail: StoreEvents[Name]) => void): Unsubscribe;
  info(): Promise<StoreInfo>;
  /** Asks the browser to keep this origin's storage under pressure. Answers whether it does. */
  persist(): Promise<boolean>;
  /** Ends this handle; calls in flight are answered first. The last handle of a name gives the storage back. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** @internal Options as they have been checked. */
export interface Settings {
  name: string;
  storage: "auto" | "opfs" | "memory";
  durability: "relaxed" | "strict";
  sweepMs: number | false;
  timeoutMs: number;
  bootTimeoutMs: number;
  workerUrl?: string | undefined;
  wasmUrl?: string | undefined;
  clock?: { now(): number } | undefined;
  transport?: Transport | undefined;
}

/** Opens a store. The same name again, in the same page, is another handle of the same store. */
export async function openStore(options: OpenOptions = {}): Promise<Store> {
  return openWith(readOptions(options));
}

function readOptions(options: OpenOptions): Settings {
  checkMembers("openStore", options, ["name", "storage", "durability", "sweep", "timeoutMs", "bootTimeoutMs", "workerUrl", "wasmUrl"]);
  const { name = "default", storage = "auto", durability = "relaxed", sweep = {}, timeoutMs, bootTimeoutMs, workerUrl, wasmUrl } = options;
  checkName(name);
  checkStorage(storage);
  if (durability !== "relaxed" && durability !== "strict") throw wrong('durability must be "relaxed" or "strict"', durability);
  if (sweep !== false) checkMembers("openStore: sweep", sweep, ["intervalMs"]);
  return {
    name,
    storage,
    durability,
    sweepMs: sweep !== false && duration("sweep.intervalMs", sweep.intervalMs, 1_000),
    timeoutMs: duration("timeoutMs", timeoutMs, 30_000),
    bootTimeoutMs: duration("bootTimeoutMs", bootTimeoutMs, 30_000),
    workerUrl: absoluteUrl("workerUrl", workerUrl),
    wasmUrl: absoluteUrl("wasmUrl", wasmUrl),
  };
}

/** @internal */
export function checkName(name: unknown): void {
  const bytes = typeof name === "string" ? new TextEncoder().encode(name).length : 0;
  if (bytes < 1 || bytes > 256 || /[\u0000-\u001f\u007f-\u009f]/.test(name as string)) {
    throw wrong("name must be a string of 1 to 256 bytes without control characters", name);
  }
}

/** @internal */
export function checkStorage(storage: unknown): void {
  if (!["auto", "opfs", "memory"].includes(storage as string)) throw wrong('storage must be "auto", "opfs" or "memory"', storage);
}

function duration(option: string, value: unknown, byDefault: number): number {
  if (value !== undefined && !isDuration(value)) throw wrong(`${option} must be a number of ${ofMs}`, value);
  return Math.ceil(value ?? 0) || byDefault;
}

function absoluteUrl(option: string, value: unknown): string | undefined {
  if (value === undefined) return undefined;
  try {
    if (typeof value === "string" || value instanceof URL) return new URL(value, globalThis.document?.baseURI ?? globalThis.location?.href).href;
  } catch {
    // Said below.
  }
  throw wrong(`${option} must be a URL`, value);
}

/** @internal */
export async function openWith(settings: Settings): Promise<Store> {
  const { name } = settings;
  const { connection, clientId, subscriptions, release } = await share(settings);
  let closing: Promise<void> | undefined;
  /** What ends with this handle. */
  const ends = new Set<() => void>();

  const sendAs =
    (tenant: string): Send =>
    async (operation, writes, args, { signal, timeoutMs }, bytes) => {
      if (closing) throw closed(name);
      const waitMs = operation === "queue.claim" && isDuration(args.waitMs) ? args.waitMs : 0;
      let owned = withOwner(operation, args, clientId);
      if (operation === "turns.recover" && args.liveOwnerIds === undefined) owned = { ...args, liveOwnerIds: await liveClients(clientId) };
      return await connection.call(operation + tenant, encode(owned), { writes, signal, waitMs, bytes, timeoutMs: timeoutMs || settings.timeoutMs });
    };
  const followAs =
    (tenant: string): Follow =>
    (follower) => {
      if (closing) throw closed(name);
      const stop = subscriptions.follow(tenant, follower);
      const end = () => {
        stop();
        follower.onEnd?.(closed(name));
      };
      ends.add(end);
      return () => {
        ends.delete(end);
        stop();
      };
    };
  const storeOf = (tenant: string, suffix: string, include?: (operation: string) => boolean) => {
    const send = sendAs(suffix);
    const follow = followAs(tenant);
    const operations = buildOperations(send, include);
    const api = operations as unknown as Record<string, object>;
    for (const [namespace, tail] of Object.entries(buildTails(send, follow))) api[namespace] = { ...api[namespace], ...tail };
    return {
      ...operations,
      imports: { ...operations.imports, ...fileImports(operations.imports.chunk) },
      async batch(build: (tx: BatchOperations) => readonly BatchCall<unknown>[], options: CallOptions = {}) {
        const calls = build(batchOperations);
        if (!Array.isArray(calls)) throw misused("batch", "the function answers an array of calls of tx", calls);
        const owned = calls.map((call) => ({ ...call, arguments: withOwner(call.operation, call.arguments, clientId) }));
        return await send("batch", true, { calls: owned }, options);
      },
      subscribe: (...given: Parameters<typeof subscribe>[1]) => subscribe(follow, given),
      live: <Result>(query: (store: LiveOperations) => PromiseLike<Result> | Result) => new Live(query, send, follow, include),
    };
  };
  const close = () => {
    if (closing) return closing;
    closing = release();
    for (const end of [...ends]) end();
    return closing;
  };
  const store = {
    ...storeOf("default", ""),
    forTenant(id: string) {
      checkName(id);
      return storeOf(id, `@${id}`, (operation) => !ofTheWholeStore.includes(operation) && !operation.startsWith("tenants."));
    },
    on<Name extends keyof StoreEvents>(event: Name, listener: (detail: StoreEvents[Name]) => void): Unsubscribe {
      if (closing) throw closed(name);
      if (!storeEvents.includes(event)) throw invalid(`on: there is no event ${describe(event)}; there are ${storeEvents.join(", ")}.`);
      checkFunction("on", "the second argument is a function", listener);
      const ignore = connection.on(event, listener);
      const stop = () => ignore();
      ends.add(stop);
      return unsubscriber(() => {
        ends.delete(stop);
        stop();
      });
    },
    async info(): Promise<StoreInfo> {
      if (closing) throw closed(name);
      // A transport of one's own may tell nothing about itself.
      const info = { name, ...connection.info, clientId } as StoreInfo;
      if (info.storage !== "opfs") return info;
      const [room, persisted] = await Promise.all([estimateRoom(), navigator.storage.persisted()]);
      return { ...info, persisted, ...room };
    },
    async persist() {
      if (closing) throw closed(name);
      return connection.info?.storage === "opfs" && (await navigator.storage.persist?.()) === true;
    },
    close,
  } as unknown as Store;
  if (Symbol.asyncDispose) store[Symbol.asyncDispose] = close;
  return store;
}

const ofTheWholeStore = ["sweep", "imports.jamjet", "exportDatabase"];
const storeEvents: (keyof StoreEvents)[] = ["ownerchange", "versionchange", "storagelow", "storagelost"];

interface Shared {
  readonly settings: Settings;
  readonly connection: Connection;
  readonly clientId: string;
  readonly subscriptions: Subscriptions;
  readonly ready: Promise<void>;
  readonly stop: () => void;
  handles: number;
  closing?: Promise<void>;
}

const open = new Map<string, Shared>();

/** The connection of that name, and the function that gives it up. The last to do so closes it. */
async function share(settings: Settings): Promise<Pick<Shared, "connection" | "clientId" | "subscriptions"> & { release: () => Promise<void> }> {
  const { name } = settings;
  let shared: Shared | undefined;
  while ((shared = open.get(name))?.closing) await shared.closing.catch(() => {});
  if (shared) checkSame(shared.settings, settings);
  else open.set(name, (shared = start(settings)));
  const { connection, clientId, subscriptions, ready, stop } = shared;
  shared.handles++;
  try {
    await ready;
  } catch (error) {
    if (open.get(name) === shared) open.delete(name);
    throw error;
  }
  const release = async (): Promise<void> => {
    if (--shared.handles > 0) return;
    stop();
    await (shared.closing = connection.close(closed(name)).finally(() => open.delete(name)));
  };
  return { connection, clientId, subscriptions, release };
}

function start(settings: Settings): Shared {
  const { name, sweepMs, timeoutMs, clock } = settings;
  const clientId = newId();
  const connection: Connection = new Connection(
    connector(settings, {
      clientId,
      onVersionChange: (message) => connection.emit("versionchange", { message }),
      onLost: (error) => connection.lose(error),
    }),
    clock && (() => clock.now()),
  );
  const page = new AbortController();
  let sweeper: Sweeper | undefined;
  const ready = connection.open().then(() => {
    if (sweepMs !== false) sweeper = new Sweeper(() => connection.tick(sweepMs, timeoutMs), sweepMs);
    // A page that the browser keeps for its back button would hold the storage and block every other.
    globalThis.addEventListener?.("pagehide", (event) => (event as PageTransitionEvent).persisted && connection.suspend(), { signal: page.signal });
    globalThis.addEventListener?.("pageshow", () => connection.resume(), { signal: page.signal });
    warnOfMemory(name, connection.info);
  });
  const stop = () => {
    sweeper?.stop();
    page.abort();
  };
  return { settings, connection, clientId, subscriptions: new Subscriptions(connection), ready, stop, handles: 0 };
}

function checkSame(first: Settings, second: Settings): void {
  for (const key of ["storage", "durability", "sweepMs", "workerUrl", "wasmUrl", "clock", "transport"] as const) {
    if (first[key] === second[key]) continue;
    const difference = `with another ${key} (${describe(first[key])}, not ${describe(second[key])})`;
    const name = JSON.stringify(first.name);
    throw new RunkeepError("conflict", `The store ${name} is open in this page ${difference}; close it first, or open it the same way.`);
  }
}

function connector(
  { name, storage, durability, bootTimeoutMs, workerUrl, wasmUrl, clock, transport }: Settings,
  member: Pick<MemberOptions, "clientId" | "onVersionChange" | "onLost">,
): Connect {
  if (transport) return async () => transport;
  // Once data lies in OPFS, a later worker must not fall back to memory.
  let resolved = storage;
  const boot = (): BootOptions => ({ name, storage: resolved, durability, wasmUrl, nowMs: clock?.now() });
  let current: Member | undefined;
  return async (signal) => {
    if (!hasBrowserWorkers()) return startInline(boot());
    if (current === undefined || current.isClosed) current = new Member({ ...member, boot: boot(), bootTimeoutMs, workerUrl });
    const route = await current.connect(signal);
    resolved = route.info?.storage ?? resolved;
    return route;
  };
}

/** Loaded when it is needed: in a page the engine's glue belongs to the worker. */
async function startInline(boot: BootOptions): Promise<Transport> {
  const host = await import("../host/inline.js");
  return host.startInline(boot);
}

/** Other runtimes have a `Worker` too, of other kinds. */
function hasBrowserWorkers(): boolean {
  return typeof Worker === "function" && (typeof document !== "undefined" || "WorkerGlobalScope" in globalThis);
}

let warned = false;

function warnOfMemory(name: string, info: HostInfo | undefined): void {
  if (info?.storageReason === undefined || warned || !hasBrowserWorkers()) return;
  warned = true;
  console.warn(`runkeep: the store ${JSON.stringify(name)} is in memory and ends with this page: ${info.storageReason}.`);
}

function closed(name: string): RunkeepError {
  return new RunkeepError("closed", `The store ${JSON.stringify(name)} is closed.`);
}
