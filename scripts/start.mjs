// `npm start`: sets up, builds, serves the console and prints its address.
import { build } from "./build.mjs";
import { Failure, main } from "./run.mjs";
import { consoleRoots, serve } from "./serve.mjs";
import { setup } from "./setup.mjs";

await main(async () => {
  const wanted = Number(process.env.PORT || 4180);
  if (!Number.isInteger(wanted) || wanted < 0 || wanted > 65535) throw new Failure(`PORT is ${process.env.PORT}, which is no port: give 0 to 65535`);
  await setup();
  await build();
  const server = await serveFrom(wanted);
  console.log(`\nrunkeep console: ${server.url}`);
});

async function serveFrom(first) {
  for (let port = first; port <= Math.min(first + 99, 65535); port++) {
    try {
      return await serve({ roots: consoleRoots, port });
    } catch (error) {
      if (error.code === "EACCES") throw new Failure(`Port ${port} may not be opened by this user: set PORT to another, say 4180.`);
      if (error.code !== "EADDRINUSE") throw error;
    }
  }
  throw new Failure(`No free port from ${first} on: set PORT to another.`);
}
