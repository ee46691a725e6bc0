//! Writes the TypeScript side of the list of operations.

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};

use ts_rs::{Config, TS, TypeVisitor};

use crate::events::types::{EVENT_TYPES, is_reserved, parse_field};
use crate::json::Json;
use crate::operation::{OPERATIONS, Operation, Shape};

impl TS for Json {
    type WithoutGenerics = Self;
    type OptionInnerType = Self;

    fn name(_: &Config) -> String {
        "JsonValue".to_owned()
    }

    fn inline(config: &Config) -> String {
        Self::name(config)
    }
}

/// The declarations of all types that operations take and answer.
pub struct Types {
    config: Config,
    declarations: BTreeMap<String, String>,
    seen: BTreeSet<(TypeId, bool)>,
    arguments: bool,
}

impl Types {
    /// The name of an argument type; declares it and what it is made of.
    pub fn argument<T: TS + 'static>(&mut self) -> String {
        self.arguments = true;
        self.add::<T>().replace("JsonValue", "JsonInput")
    }

    /// The name of a result type; declares it and what it is made of.
    pub fn record<T: TS + 'static>(&mut self) -> String {
        self.arguments = false;
        self.add::<T>()
    }

    fn add<T: TS + 'static>(&mut self) -> String {
        self.visit::<T>();
        T::name(&self.config)
    }
}

impl TypeVisitor for Types {
    fn visit<T: TS + 'static + ?Sized>(&mut self) {
        if !self.seen.insert((TypeId::of::<T>(), self.arguments)) {
            return;
        }
        T::visit_generics(self);
        T::visit_dependencies(self);
        // Only derived types have a path; names are strings.
        if T::output_path().is_none() || T::name(&self.config) == "string" {
            return;
        }
        let name = T::ident(&self.config);
        let docs = T::docs().unwrap_or_default();
        let declaration = T::decl(&self.config);
        let declaration = if self.arguments { declaration.replace("JsonValue", "JsonInput") } else { declaration };
        self.declarations.insert(name, format!("{}export {declaration}\n", docs_of(docs.lines(), "")));
    }
}

fn docs_of<'a>(lines: impl Iterator<Item = &'a str>, indent: &str) -> String {
    let text: Vec<&str> = lines
        .map(|line| line.trim().trim_start_matches("/**").trim_end_matches("*/").trim_start_matches('*').trim())
        .filter(|line| !line.is_empty())
        .collect();
    if text.is_empty() { String::new() } else { format!("{indent}/** {} */\n", text.join(" ")) }
}

const HEAD: &str = r#"// Written by `npm run bindings` from the Rust types and src/operation.rs. Do not edit.
import type { CallOptions, List } from "./calls.js";

/** A JSON document as it comes back. */
export type JsonValue = string | number | boolean | null | JsonValue[] | { [key: string]: JsonValue };

/** A JSON document as it may be given: a Date becomes its ISO string, members that are undefined vanish. What JSON cannot hold is refused. */
export type JsonInput = unknown;

/** An item under a lease. */
export type ClaimedItem = WorkItem & { status: "claimed"; workerId: string; claimedAt: number; leaseExpiresAt: number };

/** Bytes as they may be given: a Blob of the platform's (a File, too), not the record of that name. */
export type Bytes = globalThis.Blob | ArrayBuffer | Uint8Array;

/** What names the lease of an item; a claimed item may be passed whole. */
export type Lease = { readonly id: string; readonly fence: number };

"#;

/// The files that follow from the list of operations.
pub struct Bindings {
    /// `www/client/generated.ts`
    pub typescript: String,
    /// `docs/operations.md`
    pub reference: String,
}

/// Writes everything that follows from the list of operations.
pub fn bindings() -> Bindings {
    let mut types = Types {
        config: Config::new().with_large_int("number"),
        declarations: BTreeMap::new(),
        seen: BTreeSet::new(),
        arguments: false,
    };
    types.record::<crate::ErrorCode>();
    types.record::<crate::Topic>();
    let mut table = Table::default();
    let mut interfaces: Vec<(String, String)> = Vec::new();
    let mut top_level = String::new();
    let mut methods = Vec::new();
    for operation in OPERATIONS {
        let (argument, result) = (operation.types)(&mut types);
        table.add(operation, &result);
        let (namespace, method) = operation.name.split_once('.').unwrap_or(("", operation.name));
        let needs_input = types.declarations.get(&argument).is_some_and(|declaration| has_required(declaration));
        let signature = format!("{method}{}", signature(operation, &argument, needs_input, &result));
        let member = format!("{}  {signature};\n", docs_of(operation.doc.iter().copied(), "  "));
        methods.push((operation, signature, argument, result));
        if namespace.is_empty() {
            top_level.push_str(&member);
            continue;
        }
        match interfaces.last_mut().filter(|(known, _)| known == namespace) {
            Some((_, members)) => members.push_str(&member),
            None => interfaces.push((namespace.to_owned(), member)),
        }
    }
    let mut text = HEAD.to_owned();
    text.push_str(&table.typescript());
    // What the log may hold is told by the table of event types, not by the Rust structs.
    for replaced in ["AppendEvent", "Event", "EventInput"] {
        types.declarations.remove(replaced);
    }
    types.declarations.insert("EventInput".to_owned(), event_types());
    for declaration in types.declarations.values() {
        text.push_str(declaration);
        text.push('\n');
    }
    let mut all = String::new();
    for (namespace, members) in interfaces {
        let interface = namespace[..1].to_uppercase() + &namespace[1..];
        text.push_str(&format!("export interface {interface} {{\n{members}}}\n\n"));
        all.push_str(&format!("  readonly {namespace}: {interface};\n"));
    }
    text.push_str(&format!("/** Every operation of a store. */\nexport interface StoreOperations {{\n{all}{top_level}}}\n"));
    Bindings { typescript: text, reference: reference(&methods, &types.declarations) }
}

const SHAPE: &str = "/** How a method's arguments become those of its operation. */
export interface OperationShape {
  /** What the first argument names. */
  readonly subject: readonly string[];
  /** The first argument may also be an object of all arguments. */
  readonly orObject: boolean;
  /** Which argument is given as an array by itself; empty where there is none. */
  readonly array: string;
  readonly list: boolean;
  readonly bytes: boolean;
  readonly writes: boolean;
  /** What it changes, or reads. */
  readonly topics: readonly Topic[];
}

";

const REFERENCE_HEAD: &str = "# Operations

<!-- Written by `npm run bindings` from src/operation.rs and the Rust types. Do not edit. -->

What a store does, as JavaScript calls it. Times are integers, Unix milliseconds, UTC; durations are milliseconds. Each operation is one
transaction: all or nothing, unless it says otherwise. Ids and names are 1 to 256 bytes of UTF-8 without control characters. JSON documents may
be 16 MiB of text and 128 levels deep; what JSON cannot hold (functions, cycles, BigInt, NaN, Map, Set, typed arrays, Blobs) is refused.

The last argument, `options`, is `{ signal?, timeoutMs? }`; an abort rejects with the signal's reason, and undoes nothing. A `List` can be awaited
for one page (`{ items, nextCursor, damaged? }`) or iterated with `for await` for all rows. A page of a filtered list may be short, or empty,
before the end: only `nextCursor: null` is the end. Lone surrogates in strings become U+FFFD.

`store.batch((tx) => [tx.queue.enqueue(…), tx.events.append(…)])` runs operations that change something in one transaction and answers their
results in order. `store.forTenant(id)` has the same operations, bound to one tenant. `store.imports.jamjet(blob)` imports a JamJet state database.
`store.imports.claudeCode(files, {onProgress?, signal?})`, `codex` and `zagensJson` import session logs: files, `{path, blob}`, and handles of files and
directories, streamed through `imports.chunk`, with a report for each file.
`store.info()` tells versions, storage and room; `store.persist()` asks the browser to keep the data; `store.close()` ends a handle.

The state of an execution is what its log makes of it: `node_completed` and `approval_received` merge their `statePatch`, `workflow_completed`
sets `finalState`, and `setState`, `patchState` and `appendToState` write events of their own. The types of events are at the end, as `KnownEvents`.

Any operation may fail with `invalid_argument` (an unknown field, a wrong type, a value that is not allowed; `details.path` names it),
`too_large` (a document), `closed`, `timeout` (outcome unknown), `busy`, `quota_exceeded` (no room left; nothing is changed),
`storage_unavailable`, `storage_lost` (the data was removed while the store was open), `corrupt` (a row that cannot be read; `details` has its
table and id), `unsupported` (not here, or not by this version) and `internal`; one that names what does not exist with `not_found`; creating what
exists with other arguments, `conflict`; a call under a fence that is not the item's current one, `lease_lost`; a change that a status does not
allow, `invalid_transition`.

`limit_exceeded`: the tenant has reached one of its `limits`, which `details.limit` names: `maxConcurrentExecutions` refuses another execution,
`maxWorkflows` another workflow, and `maxTokensPerMonth` and `maxCostPerMonthUsd` (months are UTC) both of these, `turns.create`,
`inbox.promoteNext` and `queue.claim`. What has been used is recorded all the same. `tenant_suspended`: the tenant is suspended or archived; it reads, and settles
what it holds, and neither creates nor claims. `schema_too_new`: a newer version of the package has written the store. It is left as it was: load that
version, in a page by reloading it. `nondeterminism` is kept for workflows that take another path than the one recorded; nothing answers it yet.
";

/// What `setStatus` allows.
fn transitions() -> String {
    use crate::executions::ExecutionStatus::{Cancelled, Completed, Failed, LimitExceeded, Paused, Pending, Running};
    let all = [Pending, Running, Paused, Completed, Failed, Cancelled, LimitExceeded];
    let mut text = "\n## Status transitions\n\nWhat `executions.setStatus` allows; anything else is `invalid_transition`. Setting the status that it has changes nothing. The last four are\nterminal: events appended later are recorded, and change neither status nor state.\n\n| from | to |\n|---|---|\n".to_owned();
    for from in all {
        let to: Vec<&str> = all.iter().filter(|to| from.may_become(**to)).map(|to| to.as_str()).collect();
        text.push_str(&format!(
            "| {} | {} |\n",
            from.as_str(),
            if to.is_empty() { "(terminal)".to_owned() } else { to.join(", ") }
        ));
    }
    text
}

/// The reference for readers: each operation with its signature, and the types it speaks of.
fn reference(methods: &[(&Operation, String, String, String)], declarations: &BTreeMap<String, String>) -> String {
    let mut text = REFERENCE_HEAD.to_owned();
    let mut last = "";
    for (operation, signature, ..) in methods {
        let namespace = operation.name.split_once('.').map_or("", |(namespace, _)| namespace);
        if namespace != last || last.is_empty() {
            text.push_str(&format!("\n## {}\n", if namespace.is_empty() { "The whole store" } else { namespace }));
            last = namespace;
        }
        let doc: Vec<&str> = operation.doc.iter().map(|line| line.trim()).collect();
        text.push_str(&format!("\n### {}\n\n{}\n\n```ts\n{signature}\n```\n", operation.name, doc.join(" ")));
    }
    text.push_str(&transitions());
    text.push_str("\n## Types\n\n```ts\n");
    text.push_str(HEAD.split_once("\n\n").map_or(HEAD, |(_, types)| types));
    for declaration in declarations.values() {
        text.push_str(declaration.trim_end());
        text.push_str("\n\n");
    }
    text.truncate(text.trim_end().len());
    text.push_str("\n```\n");
    text
}

const EVENTS: &str = "/** Event types of your own, by declaration merging: `interface CustomEvents { \"x-note\": { text: string } }`. Once there are any, no others are accepted. */
export interface CustomEvents {}

/** What went wrong. */
export type EventError = string | { message: string; code?: string; stack?: string };

/** Where a result comes from. */
export type Provenance = { modelId?: string; modelVersion?: string; confidence?: number; verified?: boolean; source?: string; trustDomain?: string; evidenceRefs?: string[] };

type OwnEvents<J> = [keyof CustomEvents] extends [never] ? { [type: `x-${string}`]: J } : CustomEvents;
type InputOf<Events> = { [T in keyof Events & string]: { type: T; data: Events[T]; id?: string } }[keyof Events & string];
type RecordOf<Events> = { [T in keyof Events & string]: { id: string; executionId: string; sequence: number; type: T; data: Events[T]; createdAt: number } }[keyof Events & string];

/** An event to append. */
export type EventInput = InputOf<Omit<KnownEvents<JsonInput>, StoreEvents>> | InputOf<OwnEvents<JsonInput>>;

/** One fact in the log of an execution. `sequence` is 1, 2, 3 … per execution, without gaps; `createdAt` Unix milliseconds. */
export type Event = RecordOf<KnownEvents<JsonValue>> | RecordOf<OwnEvents<JsonValue>>;

";

/// The TypeScript types of events, from the table of their fields.
fn event_types() -> String {
    let mut text = EVENTS.to_owned();
    let reserved: Vec<String> =
        EVENT_TYPES.iter().filter(|known| is_reserved(known.name)).map(|known| format!("\"{}\"", known.name)).collect();
    text.push_str(&format!("/** Types that only the store writes. */\nexport type StoreEvents = {};\n\n", reserved.join(" | ")));
    text.push_str("/** The known event types and their data; `J` is what stands for any JSON. */\nexport interface KnownEvents<J = JsonValue> {\n");
    for known in EVENT_TYPES {
        let fields: Vec<String> = known
            .fields
            .split(' ')
            .map(|spec| {
                let (name, kind, optional) = parse_field(spec);
                let kind = match kind {
                    "s" => "string",
                    "i" | "n" => "number",
                    "b" => "boolean",
                    "d" => "\"approved\" | \"rejected\"",
                    "e" => "EventError",
                    "m" => "{ [key: string]: J } | null",
                    "p" => "Provenance",
                    _ => "J",
                };
                format!("{name}{}: {kind}", if optional { "?" } else { "" })
            })
            .collect();
        text.push_str(&format!("  {}: {{ {} }};\n", known.name, fields.join("; ")));
    }
    text.push_str("}\n");
    text
}

/// The operations as text: a line for each namespace, with its name and its methods. A method has its name, what kind it is, a letter for each topic
/// and, where its first arguments are not all one object, their names. `www/client/operations.ts` reads it.
#[derive(Default)]
struct Table {
    topics: Vec<&'static str>,
    lines: Vec<String>,
    reads: Vec<&'static str>,
}

impl Table {
    fn add(&mut self, operation: &Operation, result: &str) {
        let subject = match operation.shape {
            Shape::Subject(field)
            | Shape::SubjectAndObject(field)
            | Shape::SubjectAndOptional(field)
            | Shape::SubjectAndArray(field, _)
            | Shape::SubjectOrObject(field) => field,
            Shape::Item | Shape::ItemAndOptional => "id+fence",
            Shape::Object | Shape::Filter | Shape::Array(_) | Shape::Nothing | Shape::Bytes => "",
        };
        let kind = match operation.shape {
            _ if result.starts_with("Page<") => '*',
            Shape::SubjectOrObject(_) => '|',
            Shape::Bytes => '#',
            _ if operation.writes => '!',
            _ => '?',
        };
        assert_eq!(operation.writes, !matches!(kind, '*' | '?'), "{} has no kind in the table", operation.name);
        let array = match operation.shape {
            Shape::Array(field) | Shape::SubjectAndArray(_, field) => format!("={field}"),
            _ => String::new(),
        };
        let letters: String = operation.topics.iter().map(|topic| self.letter(topic.as_str())).collect();
        let (namespace, method) = operation.name.split_once('.').unwrap_or(("", operation.name));
        let method = format!(" {method}{kind}{letters}{subject}{array}");
        match self.lines.last_mut().filter(|line| line.split(' ').next() == Some(namespace)) {
            Some(line) => line.push_str(&method),
            None => self.lines.push(format!("{namespace}{method}")),
        }
        if !operation.writes {
            self.reads.push(operation.name);
        }
    }

    fn letter(&mut self, topic: &'static str) -> char {
        let index = self.topics.iter().position(|known| *known == topic).unwrap_or_else(|| {
            self.topics.push(topic);
            self.topics.len() - 1
        });
        char::from(b'A' + index as u8)
    }

    fn typescript(&self) -> String {
        let quoted =
            |names: &[&str], between: &str| names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(between);
        format!(
            "{SHAPE}/** In the order of their letters in the table. */\nexport const topics: readonly Topic[] = [{}];\n\n/** See operations.ts. */\nexport const table = `{}`;\n\n/** The operations that change nothing. */\nexport type ReadOperation =\n  | {};\n\n",
            quoted(&self.topics, ", "),
            self.lines.join("\n"),
            quoted(&self.reads, "\n  | ")
        )
    }
}

/// Whether an argument type has members that cannot be left out.
fn has_required(declaration: &str) -> bool {
    let members = declaration.split_once(" = ").map_or("", |(_, members)| members);
    let lines = members.lines().filter(|line| !line.starts_with("/*") && !line.starts_with(" *"));
    lines.flat_map(|line| line.split(", ")).any(|member| member.contains(": ") && !member.contains("?: "))
}

/// The parameters and the result of a method.
fn signature(operation: &Operation, argument: &str, needs_input: bool, result: &str) -> String {
    // Options that travel to the store are given with the client's own.
    let quoted: Vec<String> = operation.options.iter().map(|name| format!("\"{name}\"")).collect();
    let options = if quoted.is_empty() {
        "options?: CallOptions".to_owned()
    } else {
        // All of them are integers or statuses; spelt out, since the argument type may be a union.
        format!(
            "options?: CallOptions & Pick<{}, {}>",
            if argument == "AppendEvent" { "AppendEvents" } else { argument },
            quoted.join(" | ")
        )
    };
    let without = |fields: &[&str]| {
        let mut taken: Vec<String> = fields.iter().map(|name| format!("\"{name}\"")).collect();
        taken.extend(quoted.iter().cloned());
        if taken.is_empty() { argument.to_owned() } else { format!("Omit<{argument}, {}>", taken.join(" | ")) }
    };
    let parameters = match operation.shape {
        _ if operation.name == "events.append" => "executionId: string, event: EventInput".to_owned(),
        Shape::Object => format!("input: {}", without(&[])),
        Shape::Filter => format!("input?: {}", without(&[])),
        Shape::Subject(field) => format!("{field}: string"),
        Shape::SubjectAndObject(field) => format!("{field}: string, input: {}", without(&[field])),
        Shape::SubjectAndOptional(field) => format!("{field}: string, input?: {}", without(&[field])),
        Shape::SubjectAndArray(field, array) => format!("{field}: string, {array}: {argument}[\"{array}\"]"),
        Shape::SubjectOrObject(field) => format!("{field}: string | {argument}, input?: {}", without(&[field])),
        Shape::Nothing => String::new(),
        Shape::Bytes => format!("bytes: Bytes, input{}: {}", if needs_input { "" } else { "?" }, without(&[])),
        Shape::Array(array) => format!("{array}: {argument}[\"{array}\"]"),
        Shape::Item => format!("item: Lease, input: {}", without(&["id", "fence"])),
        Shape::ItemAndOptional => format!("item: Lease, input?: {}", without(&["id", "fence"])),
    };
    let with_bytes = |record: &str| format!("{record} & {{ bytes: Uint8Array }}");
    let result = &match result.strip_suffix(" | null").filter(|_| operation.answers_bytes) {
        Some(record) => format!("({}) | null", with_bytes(record)),
        None if operation.answers_bytes => with_bytes(result),
        None => result.to_owned(),
    };
    let answer = match result.strip_prefix("Page<").and_then(|rest| rest.strip_suffix('>')) {
        Some(row) => format!("List<{row}>"),
        None if operation.name == "queue.claim" => "Promise<ClaimedItem[]>".to_owned(),
        None => format!("Promise<{result}>"),
    };
    let parameters = if parameters.is_empty() { options } else { format!("{parameters}, {options}") };
    format!("({parameters}): {answer}")
}
