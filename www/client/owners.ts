// Turns belong to the page that makes them, unless it says otherwise; and which pages are alive, the browser knows.
import { clientLock } from "../host/protocol.js";

type Arguments = Record<string, unknown>;

/** The arguments of an operation, with this client as the owner of the turn that it makes. */
export function withOwner(operation: string, args: Arguments, clientId: string): Arguments {
  if (operation === "turns.create") return { ...args, ownerId: args.ownerId ?? clientId };
  const { turn = {} } = args;
  if (operation === "inbox.promoteNext" && turn !== null && Object.getPrototypeOf(turn) === Object.prototype) {
    return { ...args, turn: { ...turn, ownerId: (turn as Arguments).ownerId ?? clientId } };
  }
  return args;
}

/** The clients of all stores of this origin that are alive. */
export async function liveClients(clientId: string): Promise<string[]> {
  const prefix = clientLock("");
  const { held = [] } = (await globalThis.navigator?.locks?.query?.()) ?? {};
  return [clientId, ...held.flatMap(({ name }) => (name?.startsWith(prefix) ? [name.slice(prefix.length)] : []))];
}
