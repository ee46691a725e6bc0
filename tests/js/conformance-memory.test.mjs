// The conformance suite on the store in WebAssembly, in memory.
import { memoryPlace } from "../conformance/memory.mjs";
import { registerSuite } from "../conformance/node.mjs";
import { runCase } from "../conformance/run.mjs";
import { suite } from "../conformance/suite.mjs";

// No time may depend on where the machine is.
process.env.TZ = "Asia/Kolkata";
const place = memoryPlace();
registerSuite("wasm in memory", (group, name) => runCase(suite[group][name], place));
