// A static server for the console and the browser tests. The content security policy goes on every answer, worker scripts included: theirs is
// the one that counts in the worker.
import { createHash } from "node:crypto";
import { readFile, realpath, stat } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, sep } from "node:path";
import { root } from "./run.mjs";

export const strictPolicy = [
  "default-src 'none'",
  "script-src 'self' 'wasm-unsafe-eval'",
  "worker-src 'self'",
  "connect-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** Where the built console expects itself and the package. */
export const consoleRoots = { "/": join(root, "dist", "console"), "/runkeep/": join(root, "dist") };

const types = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json; charset=utf-8",
  ".jsonl": "application/jsonl; charset=utf-8",
  ".map": "application/json; charset=utf-8",
  ".mjs": "text/javascript; charset=utf-8",
  ".png": "image/png",
  ".svg": "image/svg+xml; charset=utf-8",
  ".txt": "text/plain; charset=utf-8",
  ".wasm": "application/wasm",
  ".webmanifest": "application/manifest+json; charset=utf-8",
};

/**
 * Serves folders: `roots` maps URL prefixes, which end in "/", to folders; the longest that fits is used. Port 0 takes any free one.
 * Answers `{url, port, close()}`; rejects with EADDRINUSE when the port is taken.
 */
export async function serve({ roots, port = 0, host = "127.0.0.1", csp = strictPolicy }) {
  const prefixes = Object.keys(roots).sort((a, b) => b.length - a.length);
  const server = createServer((request, response) => {
    const headers = { "Content-Security-Policy": csp, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache" };
    const send = (status, body, extra) => {
      response.writeHead(status, { ...headers, "Content-Length": body.length, ...extra });
      response.end(request.method === "HEAD" ? undefined : body);
    };
    const sendText = (status, text, extra) => send(status, Buffer.from(`${text}\n`), { "Content-Type": types[".txt"], ...extra });
    answer(request, { send, sendText, headers, response }).catch((error) => {
      console.error(error);
      if (!response.headersSent) sendText(500, "internal error");
      else response.destroy();
    });
  });

  async function answer(request, { send, sendText, headers, response }) {
    if (request.method !== "GET" && request.method !== "HEAD") return sendText(405, "only GET and HEAD", { Allow: "GET, HEAD" });
    const path = decodePath(request.url);
    if (path === null) return sendText(400, "malformed path");
    const prefix = prefixes.find((candidate) => path.startsWith(candidate));
    const file = prefix === undefined ? null : await findFile(roots[prefix], path.slice(prefix.length));
    if (file === null) return sendText(404, "not found");
    // Relative addresses in a folder's page are relative to the folder only with the slash.
    if (file.isFolder) return sendText(301, "moved", { Location: `${encodeURI(path)}/` });
    const body = await readFile(file.path);
    const etag = `"${createHash("sha256").update(body).digest("base64url").slice(0, 22)}"`;
    if (matches(request.headers["if-none-match"], etag)) {
      response.writeHead(304, { ...headers, ETag: etag });
      return response.end();
    }
    send(200, body, { ETag: etag, "Content-Type": types[extname(file.path).toLowerCase()] ?? "application/octet-stream" });
  }

  await new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  const taken = server.address().port;
  return {
    port: taken,
    url: `http://${host.includes(":") ? `[${host}]` : host}:${taken}/`,
    close: () =>
      new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      }),
  };
}

// Not `new URL`: it would tidy up a path that we rather refuse.
function decodePath(url) {
  try {
    const path = decodeURIComponent(url.split(/[?#]/, 1)[0]);
    const odd = !path.startsWith("/") || path.includes("//") || /[\0\\]/.test(path);
    return odd ? null : path;
  } catch {
    return null;
  }
}

async function findFile(folder, path) {
  if (path.split("/").some((segment) => segment.startsWith("."))) return null;
  try {
    const base = await realpath(folder);
    const found = await realpath(join(base, path === "" || path.endsWith("/") ? `${path}index.html` : path));
    if (!found.startsWith(base + sep) && found !== base) return null; // a link that leads out
    const info = await stat(found);
    return info.isFile() || info.isDirectory() ? { path: found, isFolder: info.isDirectory() } : null;
  } catch (error) {
    if (["ENOENT", "ENOTDIR", "EACCES", "ELOOP", "ENAMETOOLONG"].includes(error.code)) return null;
    throw error;
  }
}

function matches(header, etag) {
  return header !== undefined && (header.trim() === "*" || header.split(",").some((one) => one.trim().replace(/^W\//, "") === etag));
}
