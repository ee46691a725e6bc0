export type { BatchCall, BatchOperations, BatchResults, CallOptions, List } from "./calls.js";
export { isRunkeepError, RunkeepError } from "./errors.js";
export type * from "./generated.js";
export type { FileImports, FileReport, ImportFile, ImportFiles, ImportOptions, ImportProgress, NamedBlob } from "./imports.js";
export type { LiveOperations, LiveQuery, LiveSnapshot } from "./live.js";
export { openStore, type OpenOptions, type Store, type StoreEvents, type StoreInfo, type TenantStore } from "./open.js";
export type { ChangedTopics, ChangeFilter, StoreChange, Unsubscribe } from "./subscriptions.js";
