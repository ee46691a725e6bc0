// What has a store open, and the clients that it serves: its own page, other tabs, workers.
import { ChangeFeed } from "./changes.js";
import type { Host } from "./host.js";
import {
  clientLock,
  isOlder,
  sharedNow,
  type Answer,
  type Change,
  type Durability,
  type ErrorData,
  type FromOwner,
  type Hello,
  type HostInfo,
  type ToOwner,
} from "./protocol.js";

/** A way to a client. */
export interface Link {
  post(message: FromOwner): void;
  close?(): void;
}

interface Client {
  hello: Hello;
  link: Link;
  isOwn: boolean;
  /** What to add to the client's times. */
  offset: number;
  /** Those of its claims that wait, by the number of their message. */
  withdrawals: Map<number, () => void>;
  changes: ChangeFeed | undefined;
  /** Ends the watch over its life. */
  unwatch: AbortController;
}

/** How long a page is hidden before it gives the store to one that is visible. */
const handOverMs = 1_000;

export class Owner {
  readonly #host: Host;
  readonly #info: HostInfo;
  readonly #onHandOver: (to: string) => void;
  readonly #clients = new Map<string, Client>();
  #durability: Durability = "relaxed";
  #over: ErrorData | undefined;
  #handOverTimer: ReturnType<typeof setTimeout> | undefined;

  /** `onHandOver` shall give the store to a client that is ready for it. */
  constructor(host: Host, info: HostInfo, onHandOver: (to: string) => void) {
    this.#host = host;
    this.#info = info;
    this.#onHandOver = onHandOver;
  }

  /** Answers what to do with the messages that come over a link. */
  connect(way: Link, isOwn = false): (message: ToOwner) => void {
    const link: Link = {
      ...way,
      post(message) {
        try {
          way.post(message);
        } catch {
          // A channel that is closed throws. What one client does not hear of must keep nothing from the others of its group.
        }
      },
    };
    let client: Client | undefined;
    return (message) => {
      if (message.type === "hello") client = this.#welcome(message, link, isOwn);
      else if (client) this.#receive(client, message);
    };
  }

  tell(changes: Change[]): void {
    for (const { changes: pending } of this.#clients.values()) pending?.add(changes);
  }

  post(client: string, message: FromOwner): void {
    this.#clients.get(client)?.link.post(message);
  }

  /** Tells all that another owner comes, and lets them go. */
  leave(reason: string): void {
    clearTimeout(this.#handOverTimer);
    for (const client of [...this.#clients.values()]) {
      client.link.post({ type: "leaving", reason });
      this.#forget(client);
    }
  }

  /** The files are gone: nothing can be done any more. */
  lose(error: ErrorData): void {
    this.#over = error;
    for (const { link } of this.#clients.values()) link.post({ type: "lost", error });
  }

  get clients(): string[] {
    return [...this.#clients.keys()];
  }

  #welcome(hello: Hello, link: Link, isOwn: boolean): Client | undefined {
    // Soon there will be another owner.
    if (this.#over) return undefined;
    const known = this.#clients.get(hello.client);
    // A hello that took its time: the client has found another way since.
    if (known && known.hello.attempt > hello.attempt) return undefined;
    if (known) this.#forget(known);
    const client: Client = { hello, link, isOwn, offset: sharedNow() - hello.now, withdrawals: new Map(), changes: undefined, unwatch: new AbortController() };
    const { version } = this.#info;
    if (hello.version !== version) {
      // Its own page is served by no other worker.
      if (!isOwn && isOlder(version, hello.version)) {
        if (hello.ready) this.#giveWay(client);
        return client;
      }
      const message = `This page runs runkeep ${hello.version}, and the store is held by ${version}: reload the page.`;
      link.post({ type: "refused", error: { code: "unsupported", message, details: { client: hello.version, owner: version }, retryable: false } });
      return undefined;
    }
    this.#clients.set(hello.client, client);
    this.#watch(client);
    this.#setDurability();
    link.post({ type: "welcome", info: { ...this.#info, owner: isOwn, clientId: hello.client } });
    this.#considerHandingOver();
    return client;
  }

  /** A newer version is there, and stands by. If others of this version are before it in line, they give way in turn. */
  #giveWay({ hello, link }: Client): void {
    const message = `This page runs runkeep ${this.#info.version}, and another page runs ${hello.version}, which is newer: reload this page.`;
    for (const { link } of this.#clients.values()) link.post({ type: "versionchange", message });
    link.post({ type: "leaving", reason: message });
    this.#onHandOver("");
  }

  #receive(client: Client, message: Exclude<ToOwner, Hello>): void {
    const { link } = client;
    const answerTo = (id: number) => (answers: Answer[]) => {
      client.withdrawals.delete(id);
      link.post({ type: "answers", id, answers });
    };
    switch (message.type) {
      case "calls": {
        const { id, type: _, ...calls } = message;
        if (this.#over) return answerTo(id)(new Array<string>(calls.calls.length / 2).fill(JSON.stringify({ error: this.#over })));
        const deadlines = calls.deadlines?.map((deadline) => deadline + client.offset);
        const withdraw = this.#host.submit({ ...calls, deadlines, client: client.hello.client }, answerTo(id));
        if (calls.waitMs !== undefined) client.withdrawals.set(id, withdraw);
        break;
      }
      case "tick":
        if (this.#over) return answerTo(message.id)([JSON.stringify({ error: this.#over })]);
        this.#host.tick(message.intervalMs, message.nowMs).then((report) => answerTo(message.id)([report]));
        break;
      case "withdraw":
        client.withdrawals.get(message.id)?.();
        break;
      case "listen":
        client.changes?.stop();
        client.changes = message.on ? new ChangeFeed((changes) => link.post({ type: "changed", changes })) : undefined;
        break;
      case "seen":
        client.changes?.seen();
        break;
      case "state":
        client.hello = { ...client.hello, visible: message.visible, ready: message.ready };
        if (client.hello.version === this.#info.version) this.#considerHandingOver(message.leaving);
        else if (message.ready) this.#giveWay(client);
        break;
      case "goodbye":
        this.#forget(client);
        this.#setDurability();
    }
  }

  /** Timers of hidden pages hardly run, and frozen ones answer nothing: a visible page is the better owner. */
  #considerHandingOver(now = false): void {
    const better = this.#better();
    if (better === undefined) return;
    if (now) return this.#onHandOver(better);
    // A person who goes from tab to tab should not have the store follow each step.
    clearTimeout(this.#handOverTimer);
    this.#handOverTimer = setTimeout(() => {
      const better = this.#better();
      if (better !== undefined) this.#onHandOver(better);
    }, handOverMs);
  }

  /** A visible client that could take the store of a page that is not. */
  #better(): string | undefined {
    const clients = [...this.#clients.values()];
    const own = clients.find(({ isOwn }) => isOwn);
    if (!own || own.hello.visible) return undefined;
    return clients.find(({ isOwn, hello }) => !isOwn && hello.visible && hello.ready)?.hello.client;
  }

  #setDurability(): void {
    const isStrict = [...this.#clients.values()].some(({ hello }) => hello.durability === "strict");
    const durability = isStrict ? "strict" : "relaxed";
    if (durability === this.#durability) return;
    this.#durability = durability;
    this.#host.setDurability(durability);
  }

  #watch(client: Client): void {
    if (!globalThis.navigator?.locks) return;
    const { signal } = client.unwatch;
    const gone = () => {
      this.#forget(client);
      this.#setDurability();
    };
    navigator.locks.request(clientLock(client.hello.client), { signal }, gone).catch(() => {});
  }

  #forget(client: Client): void {
    if (this.#clients.get(client.hello.client) !== client) return;
    this.#clients.delete(client.hello.client);
    client.unwatch.abort();
    client.changes?.stop();
    for (const withdraw of client.withdrawals.values()) withdraw();
    client.link.close?.();
  }
}
