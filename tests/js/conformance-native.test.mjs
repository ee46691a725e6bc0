// The conformance suite on the native store.
import { nativePlace } from "../conformance/native.mjs";
import { registerSuite } from "../conformance/node.mjs";
import { runCase } from "../conformance/run.mjs";
import { suite } from "../conformance/suite.mjs";

// No time may depend on where the machine is.
process.env.TZ = "America/New_York";
const place = nativePlace();
registerSuite("native", (group, name) => runCase(suite[group][name], place));
