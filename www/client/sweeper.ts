// What time brings is done by sweeps, and the page drives them. Where several pages do, the host sweeps once for all.
import type { SweepReport } from "./generated.js";

const mostInARow = 20;
const failuresToWarn = 3;
/** What the page opened the store for goes first. */
const firstMs = 100;

export class Sweeper {
  readonly #sweep: () => Promise<Pick<SweepReport, "more">>;
  readonly #intervalMs: number;
  readonly #stopped = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #running = false;
  #failures = 0;

  /** Sweeps soon, then `intervalMs` after each end of a sweep, and whenever the page comes back to life. */
  constructor(sweep: () => Promise<Pick<SweepReport, "more">>, intervalMs: number) {
    this.#sweep = sweep;
    this.#intervalMs = intervalMs;
    const wake = () => void this.#run();
    const { signal } = this.#stopped;
    for (const event of ["online", "pageshow"]) globalThis.addEventListener?.(event, wake, { signal });
    if (typeof document !== "undefined") {
      document.addEventListener("resume", wake, { signal });
      document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && wake(), { signal });
    }
    this.#wait(Math.min(firstMs, intervalMs));
  }

  stop(): void {
    this.#stopped.abort();
    clearTimeout(this.#timer);
  }

  async #run(): Promise<void> {
    if (this.#running) return;
    this.#running = true;
    clearTimeout(this.#timer);
    try {
      for (let count = 0; count < mostInARow && !this.#stopped.signal.aborted; count++) {
        const { more } = await this.#sweep();
        this.#failures = 0;
        if (!more) break;
      }
    } catch (error) {
      if (++this.#failures === failuresToWarn && !this.#stopped.signal.aborted) {
        console.warn(`runkeep: ${failuresToWarn} sweeps in a row have failed; they are tried again.`, error);
      }
    }
    this.#running = false;
    if (!this.#stopped.signal.aborted) this.#wait(this.#intervalMs);
  }

  #wait(ms: number): void {
    this.#timer = setTimeout(() => void this.#run(), ms);
    // In Node a timer would keep the process alive.
    (this.#timer as { unref?: () => void }).unref?.();
  }
}
