// For the tests of programs that use runkeep: a clock by hand, a store of one's own.
import type { Transport } from "../host/protocol.js";
import { checkMembers, wrong } from "./calls.js";
import { checkName, checkStorage, openWith, type Store } from "./open.js";

export type { Answer, Calls, Change, HostInfo, Transport, Wait } from "../host/protocol.js";
export type { Store } from "./open.js";

export interface ManualClock {
  /** The time in Unix milliseconds; it stands still until it is moved. */
  now(): number;
  advance(ms: number): void;
  set(ms: number): void;
}

/** A clock that only you move. It starts with the year 2026 unless told otherwise. */
export function manualClock(startMs: number = Date.UTC(2026, 0, 1)): ManualClock {
  let now = wholeMs("startMs", startMs);
  return {
    now: () => now,
    advance: (ms) => void (now += wholeMs("ms", ms)),
    set: (ms) => void (now = wholeMs("ms", ms)),
  };
}

function wholeMs(name: string, value: unknown): number {
  if (!Number.isSafeInteger(value)) throw wrong(`${name} must be a whole number of milliseconds`, value);
  return value as number;
}

export interface TestStoreOptions {
  /** The store's time, in place of the system's. */
  clock?: Pick<ManualClock, "now"> | undefined;
  /** Unique by default. */
  name?: string | undefined;
  /** Default `"memory"`. */
  storage?: "auto" | "opfs" | "memory" | undefined;
  /** A host of your own, in place of the package's. */
  transport?: Transport | undefined;
}

/** A store without a sweep driver: nothing happens in it but what the test calls. */
export async function openTestStore(options: TestStoreOptions = {}): Promise<Store> {
  checkMembers("openTestStore", options, ["clock", "name", "storage", "transport"]);
  const { clock, storage = "memory", transport } = options;
  const { name = `test-${Math.random().toString(36).slice(2)}` } = options;
  checkName(name);
  checkStorage(storage);
  if (clock !== undefined && typeof clock?.now !== "function") {
    throw wrong("clock must be a clock with now(), as of manualClock()", clock);
  }
  return openWith({ name, storage, durability: "relaxed", sweepMs: false, timeoutMs: 30_000, bootTimeoutMs: 30_000, transport, clock });
}
