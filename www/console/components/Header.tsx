import type { Model } from "../model.js";

export function Header({ model }: { model: Model }) {
  const { info, trouble, kills } = model;
  return (
    <header>
      <h1>
        runkeep <span>console</span>
      </h1>
      <p class="store" aria-label="The store">
        {info && (
          <>
            <span class="chip" title={storageHint(info.storage)}>
              {info.storage === "opfs" ? "stored in OPFS" : "in memory only"}
            </span>
            <span class="chip quiet">runkeep {info.version}</span>
            <span class="chip quiet">SQLite {info.sqliteVersion}</span>
            <span class="chip quiet">schema {info.schemaVersion}</span>
          </>
        )}
      </p>
      <div class="kill">
        <button
          type="button"
          class="danger"
          onClick={() => model.killStoreWorker()}
          title="Terminates the Web Worker that holds the database, whatever it is doing. The store starts another one, and nothing acknowledged is lost."
        >
          Kill the store's worker
        </button>
        {kills > 0 && <span class="kills">killed {kills === 1 ? "once" : `${kills} times`}</span>}
      </div>
      {trouble !== null && (
        <p class="banner" role="alert">
          The store does not answer: {trouble} The page keeps asking.
        </p>
      )}
    </header>
  );
}

function storageHint(storage: string): string {
  return storage === "opfs"
    ? "The database is a file in this browser's origin private file system."
    : "This browser offers no persistent storage here: what you see is gone when the page is closed.";
}
