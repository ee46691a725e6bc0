import { PGlite } from "@electric-sql/pglite";
import { worker } from "@electric-sql/pglite/worker";

worker({
  init: ({ dataDir, relaxedDurability }) => PGlite.create({ dataDir, relaxedDurability }),
});
