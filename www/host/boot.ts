// From nothing to an open engine. What goes wrong is thrown as `ErrorData`, as the engine itself does.
import { Engine, initSync } from "../../target/wasm/runkeep.js";
import type { BootOptions, ErrorData, HostInfo } from "./protocol.js";

let loading: Promise<unknown> | undefined;

/** Loads the WebAssembly into this thread; once, however often it is asked for. */
export function loadWasm(wasmUrl?: string): Promise<unknown> {
  const url = wasmUrl === undefined ? new URL("./runkeep.wasm", import.meta.url) : new URL(wasmUrl);
  loading ??= compile(url)
    .then((module) => initSync({ module }))
    .catch((error) => {
      loading = undefined;
      throw error;
    });
  return loading;
}

/** `directory` is where the files are, in OPFS. */
export async function openEngine(options: BootOptions): Promise<{ engine: Engine; info: HostInfo & { directory?: string } }> {
  const { name, storage, nowMs } = options;
  const engine = await Engine.open({ name, storage, ...(nowMs !== undefined && { nowMs }) });
  return { engine, info: engine.info() as HostInfo & { directory?: string } };
}

async function compile(url: URL): Promise<WebAssembly.Module> {
  try {
    if (url.protocol === "file:") {
      // In a variable, so that bundlers for browsers leave it alone.
      const fs = "node:fs/promises";
      const { readFile } = await import(/* webpackIgnore: true */ /* @vite-ignore */ fs);
      return await WebAssembly.compile(await readFile(url));
    }
    const response = await fetch(url);
    const type = response.headers.get("content-type") ?? "";
    if (!response.ok) throw new Error(`it answers with status ${response.status}`);
    if (type.startsWith("text/html")) throw new Error("it answers with an HTML page");
    // The streaming compiler insists on the MIME type, and not every server knows it.
    if (type.startsWith("application/wasm")) return await WebAssembly.compileStreaming(response);
    return await WebAssembly.compile(await response.arrayBuffer());
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const advice = /content.security.policy|\bCSP\b|unsafe-eval/i.test(reason)
      ? "The Content-Security-Policy of the worker script must allow 'wasm-unsafe-eval' in script-src."
      : "Serve dist/runkeep.wasm of the package beside worker.js, or name its address with the option wasmUrl; " +
        "a Content-Security-Policy must allow it in connect-src.";
    throw unavailable(`The store's WebAssembly ${url.href} cannot be loaded: ${reason.replace(/\.$/, "")}. ${advice}`);
  }
}

export function unavailable(message: string): ErrorData {
  return { code: "storage_unavailable", message, retryable: true };
}

export function isErrorData(error: unknown): error is ErrorData {
  return typeof error === "object" && error !== null && "code" in error && "message" in error && "retryable" in error;
}

export function toErrorData(error: unknown): ErrorData {
  return isErrorData(error) ? error : { code: "internal", message: `The store could not start: ${error}`, retryable: false };
}
