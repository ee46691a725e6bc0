//! The one list of operations. Rust's methods, the calls from JavaScript, the TypeScript types and the documentation come from it.

use std::borrow::Cow;

use crate::approvals::{self, Approval};
use crate::changes::Change;
use crate::cron::{self, CronSchedule};
use crate::error::{Error, ErrorCode, Result};
use crate::executions::{self, Created, Execution, ExecutionCounts, StateChanged};
use crate::export::{self, ExportDatabase, Exported};
use crate::fold::Materialized;
use crate::imports;
use crate::json::{FromJson, Json, Problem, ToJson, replace_lone_surrogates, text};
use crate::page::{Page, Recent};
use crate::queue::{self, Attempt, ExpiredLease, QueueInfo, QueueStats, Redriven, Renewed, WorkItem};
use crate::requests::{self, Asked, Request};
use crate::retention::{self, RetentionTimes};
use crate::snapshots::{self, Snapshot};
use crate::store::{Store, Tx};
use crate::sweep::{self, SweepReport, SweepRequest};
use crate::tenants::{self, Tenant};
use crate::threads::blobs::{self, Blob, BlobContent};
use crate::threads::inbox::{self, PromotedNext, Prompt};
use crate::threads::items::{self, NewText, TextLength, ThreadItem};
use crate::threads::thread_events::{self, ThreadEvent};
use crate::threads::turns::{self, Recovered, Turn};
use crate::threads::usage::{self, PriceList, Repriced, UsageAggregate, UsageRecord};
use crate::threads::{self, Thread};
use crate::timers::{self, Timer};
use crate::tokens::{self, NewToken, TokenInfo};
use crate::workers::{self, Heartbeat, HistoryEntry, MarkedDead, Registered, Worker};
use crate::workflows::{self, Workflow};
use crate::{events, events::Event};

words! {
    /// What a change is about, for those who want to hear of it.
    #[derive(PartialOrd, Ord)]
    pub enum Topic {
        Executions = "executions",
        Events = "events",
        Items = "items",
        Queues = "queues",
        Workers = "workers",
        Workflows = "workflows",
        Timers = "timers",
        Crons = "crons",
        Threads = "threads",
        Turns = "turns",
        ThreadItems = "thread_items",
        ThreadEvents = "thread_events",
        Inbox = "inbox",
        Usage = "usage",
        Blobs = "blobs",
    }
}

/// How an operation runs.
pub enum Handler {
    /// In one transaction.
    Transaction(fn(&Tx<'_>, Given<'_>) -> Result<Answer>),
    /// In a series of bounded ones.
    Procedure(fn(&Store, Given<'_>) -> Result<Answer>),
}

/// How the JavaScript method of an operation takes its arguments. The store itself always gets one object.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// One object.
    Object,
    /// One object, which may be left out.
    Filter,
    /// A string, which becomes this field.
    Subject(&'static str),
    /// A string, which becomes this field, then one object.
    SubjectAndObject(&'static str),
    /// A string, which becomes this field, then one object, which may be left out.
    SubjectAndOptional(&'static str),
    /// A string and an array, which become these fields.
    SubjectAndArray(&'static str, &'static str),
    /// A string, which becomes this field, or an object; then one object, which may be left out.
    SubjectOrObject(&'static str),
    /// No argument.
    Nothing,
    /// An array, which becomes this field.
    Array(&'static str),
    /// A claimed item, of which `id` and `fence` are taken, then one object.
    Item,
    /// A claimed item, then one object, which may be left out.
    ItemAndOptional,
    /// Bytes, then one object, which may be left out.
    Bytes,
}

/// What a call brings: the JSON text of one object, and bytes beside it where the operation takes them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Given<'a> {
    pub arguments: &'a str,
    pub bytes: Option<&'a [u8]>,
}

/// What a call is answered with: JSON text, and bytes beside it where the operation gives them.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub text: String,
    pub bytes: Option<Vec<u8>>,
}

/// One operation.
pub struct Operation {
    /// `namespace.method`, in camelCase; without a namespace where it concerns the whole store.
    pub name: &'static str,
    /// What the documentation says of it.
    #[cfg(feature = "development")]
    pub doc: &'static [&'static str],
    pub shape: Shape,
    /// Whether it may change anything.
    pub writes: bool,
    /// Whether it concerns the whole store, and is refused on one that is bound to a tenant.
    pub whole_store: bool,
    /// What it changes, or reads.
    pub topics: &'static [Topic],
    /// Fields of the arguments that JavaScript gives with the call's options.
    pub options: &'static [&'static str],
    pub handler: Handler,
    /// Whether there are bytes beside its answer.
    pub answers_bytes: bool,
    /// The TypeScript names of the argument and result types.
    #[cfg(feature = "development")]
    pub types: fn(&mut crate::bindings::Types) -> (String, String),
}

macro_rules! operations {
    ($($(#[doc = $namespace_doc:literal])+ $namespace:ident: $struct:ident {$(
        $(#[doc = $doc:literal])+
        $mode:ident $name:literal $method:ident($arguments:ty) -> $result:ty = $handler:path, $shape:expr, [$($topic:ident)*] $(of $whole_store:ident)? $(bytes $bytes:ident)? $(halves $halves:ident)? $(, options [$($option:literal)*])?;
    )*})*) => {
        /// Every operation, in the order of the documentation.
        pub const OPERATIONS: &[Operation] = &[$($(
            Operation {
                name: $name,
                #[cfg(feature = "development")]
                doc: &[$($doc),+],
                shape: $shape,
                writes: operations!(@writes $mode),
                whole_store: operations!(@whole $($whole_store)?),
                topics: &[$(Topic::$topic),*],
                options: &[$($($option),*)?],
                handler: operations!(@handler $mode $name $handler $(, $bytes)? $(, $halves)?),
                answers_bytes: operations!(@answers_bytes $($bytes)?),
                #[cfg(feature = "development")]
                types: |types| (types.argument::<$arguments>(), types.record::<$result>()),
            },
        )*)*];

        impl Store {
            $($(#[doc = $namespace_doc])+ pub fn $namespace(&self) -> $struct<'_> { $struct(self) })*
        }

        $(
            $(#[doc = $namespace_doc])+
            #[derive(Clone, Copy)]
            pub struct $struct<'s>(&'s Store);

            impl $struct<'_> {
                #[allow(dead_code, reason = "not every namespace has methods of its own")]
                pub(crate) fn store(&self) -> &Store {
                    self.0
                }

            $(
                $(#[doc = $doc])+
                pub fn $method(&self, arguments: $arguments) -> Result<$result> {
                    operations!(@permit self, $name $(, $whole_store)?);
                    operations!(@method $mode self, arguments, $handler)
                }
            )*}
        )*
    };
    (@whole) => { false };
    (@whole whole_store) => { true };
    (@permit $self:ident, $name:literal) => {};
    (@permit $self:ident, $name:literal, whole_store) => {
        if $self.0.is_bound() {
            return Err(of_the_whole_store($name));
        }
    };
    (@answers_bytes answered) => { true };
    (@answers_bytes $($any:ident)?) => { false };
    (@writes read) => { false };
    (@writes $any:ident) => { true };
    (@handler procedure $name:literal $handler:path) => {
        Handler::Procedure(|store, given| Ok(answer(&$handler(store, parse($name, given)?)?)))
    };
    (@handler procedure $name:literal $handler:path, given) => {
        Handler::Procedure(|store, given| Ok(answer(&$handler(store, with_bytes($name, given)?)?)))
    };
    (@handler $any:ident $name:literal $handler:path) => {
        Handler::Transaction(|tx, given| Ok(answer(&$handler(tx, parse($name, given)?)?)))
    };
    (@handler $any:ident $name:literal $handler:path, given) => {
        Handler::Transaction(|tx, given| Ok(answer(&$handler(tx, with_bytes($name, given)?)?)))
    };
    (@handler $any:ident $name:literal $handler:path, kept) => {
        Handler::Transaction(|tx, given| Ok(answer(&$handler(tx, parse_as_it_is($name, given)?)?)))
    };
    (@handler $any:ident $name:literal $handler:path, answered) => {
        Handler::Transaction(|tx, given| {
            let mut result = $handler(tx, parse($name, given)?)?;
            let bytes = result.take_bytes();
            Ok(Answer { bytes, ..answer(&result) })
        })
    };
    (@method read $self:ident, $arguments:ident, $handler:path) => { $self.0.read(|tx| $handler(tx, $arguments)) };
    (@method write $self:ident, $arguments:ident, $handler:path) => { $self.0.write(|tx| $handler(tx, $arguments)) };
    (@method procedure $self:ident, $arguments:ident, $handler:path) => { $handler($self.0, $arguments) };
}

operations! {
    /// Executions: one run of a workflow or an agent each.
    executions: Executions {
        /// Creates an execution; it starts `pending`.
        write "executions.create" create(executions::CreateExecution) -> Created<Execution> = executions::create, Shape::Object, [Executions];
        /// The execution, or null.
        read "executions.get" get(executions::ExecutionId) -> Option<Execution> = executions::get, Shape::Subject("id"), [Executions];
        /// Lists executions in the order in which they were created.
        read "executions.list" list(executions::ListExecutions) -> Page<Execution> = executions::list, Shape::Filter, [Executions];
        /// Changes the status by command, where the table of transitions allows it; `invalid_transition` otherwise. Entering a terminal status cancels the execution's waiting items.
        write "executions.setStatus" set_status(executions::SetStatus) -> Execution = executions::set_status, Shape::SubjectAndObject("id"), [Executions Events Items], options ["expectedStatus"];
        /// The executions that changed last, newest first: what a sidebar shows.
        read "executions.recent" recent(executions::RecentExecutions) -> Recent<Execution> = executions::recent, Shape::Filter, [Executions];
        /// Counts executions, by status where that is asked for. Costs the same however many there are.
        read "executions.count" count(executions::CountExecutions) -> ExecutionCounts = executions::count, Shape::Filter, [Executions];
        /// Cancels an execution that has not ended, and its waiting items.
        write "executions.cancel" cancel(executions::CancelExecution) -> Execution = executions::cancel, Shape::SubjectAndOptional("id"), [Executions Events Items];
        /// Puts another state in the place of the one there is; `invalid_transition` once the execution has ended.
        write "executions.setState" set_state(executions::SetState) -> StateChanged = executions::set_state, Shape::SubjectAndObject("id"), [Executions Events], options ["expectedSequence"];
        /// Merges a patch into the state (RFC 7396); `invalid_transition` once the execution has ended.
        write "executions.patchState" patch_state(executions::PatchState) -> StateChanged = executions::patch_state, Shape::SubjectAndObject("id"), [Executions Events], options ["expectedSequence"];
        /// Appends a value to an array of the state, which is made where there is none; `conflict` where the key holds something else.
        write "executions.appendToState" append_to_state(executions::AppendToState) -> StateChanged = executions::append_to_state, Shape::SubjectAndObject("id"), [Executions Events], options ["expectedSequence"];
        /// Ends the execution `completed`, and begins its next segment with a state and a first work item, in one transaction. Asked twice, it answers the same segment.
        write "executions.continueAsNew" continue_as_new(executions::ContinueAsNew) -> Created<Execution> = executions::continue_as_new, Shape::SubjectAndOptional("id"), [Executions Events Items];
        /// Begins an execution whose past is this one's log up to a sequence.
        write "executions.fork" fork(executions::ForkExecution) -> Created<Execution> = executions::fork, Shape::SubjectAndOptional("id"), [Executions], options ["at"];
        /// Deletes an execution with its log, items, timers and snapshots. Its children stay.
        write "executions.delete" delete(executions::DeleteExecution) -> () = executions::delete, Shape::Subject("id"), [Executions Events Items];
        /// The fold of the log: status, state, nodes, budget and open approvals, now or as of a sequence.
        read "executions.materialize" materialize(executions::Materialize) -> Materialized = executions::materialize, Shape::Subject("id"), [Executions Events], options ["at"];
    }

    /// Events: the log of an execution, numbered and never changed.
    events: Events {
        /// Appends one event, and brings the execution up to it in the same transaction.
        write "events.append" append(events::AppendEvent) -> Created<Event> = events::append, Shape::SubjectAndObject("executionId"), [Executions Events Items], options ["expectedSequence"];
        /// Appends several events, all or none.
        write "events.appendMany" append_many(events::AppendEvents) -> Vec<Created<Event>> = events::append_many, Shape::SubjectAndArray("executionId", "events"), [Executions Events Items], options ["expectedSequence"];
        /// Lists the events of an execution in the order of their sequence.
        read "events.list" list(events::ListEvents) -> Page<Event> = events::list, Shape::Object, [Events];
        /// The sequence of the newest event; 0 without any.
        read "events.latestSequence" latest_sequence(events::LatestSequence) -> i64 = events::latest_sequence, Shape::Subject("executionId"), [Events];
    }

    /// Snapshots: folds that the store keeps by itself, so that no log is folded from its beginning.
    snapshots: Snapshots {
        /// The newest snapshot of an execution, or null.
        read "snapshots.latest" latest(snapshots::LatestSnapshot) -> Option<Snapshot> = snapshots::latest, Shape::Subject("executionId"), [Events];
        /// Lists the snapshots of an execution in the order of their sequence.
        read "snapshots.list" list(snapshots::ListSnapshots) -> Page<Snapshot> = snapshots::list, Shape::Object, [Events];
    }

    /// Approvals: what runs wait for a person to decide.
    approvals: Approvals {
        /// Lists approvals across executions in the order in which they were asked for.
        read "approvals.list" list(approvals::ListApprovals) -> Page<Approval> = approvals::list, Shape::Filter, [Events];
        /// Decides an approval. The first decision counts; a second is `conflict`.
        write "approvals.resolve" resolve(approvals::ResolveApproval) -> Approval = approvals::resolve, Shape::Object, [Executions Events Items];
    }

    /// Workflow definitions.
    workflows: Workflows {
        /// Stores a definition under an id and a version. The same content again changes nothing; other content is `conflict`, unless `replace` is true.
        write "workflows.put" put(workflows::PutWorkflow) -> Created<Workflow> = workflows::put, Shape::Object, [Workflows];
        /// A definition, or null: of a version, or the newest.
        read "workflows.get" get(workflows::GetWorkflow) -> Option<Workflow> = workflows::get, Shape::SubjectAndOptional("id"), [Workflows];
        /// Lists definitions in the order in which they were first put.
        read "workflows.list" list(workflows::ListWorkflows) -> Page<Workflow> = workflows::list, Shape::Filter, [Workflows];
    }

    /// The work queue: items that workers claim under a lease, and settle once.
    queue: Queue {
        /// Enqueues one item.
        write "queue.enqueue" enqueue(queue::EnqueueItem) -> Created<WorkItem> = queue::enqueue, Shape::Object, [Items];
        /// Enqueues several items, all or none.
        write "queue.enqueueMany" enqueue_many(queue::EnqueueItems) -> Vec<Created<WorkItem>> = queue::enqueue_many, Shape::Array("items"), [Items];
        /// Claims up to `limit` items for a worker: the highest priority first, then the earliest `runAt`, then the order of enqueueing.
        write "queue.claim" claim(queue::ClaimItems) -> Vec<WorkItem> = queue::claim, Shape::Object, [Items];
        /// Keeps the lease for longer, and tells whether the item is to be cancelled.
        write "queue.renew" renew(queue::RenewLease) -> Renewed = queue::renew, Shape::ItemAndOptional, [Items];
        /// Settles the item as completed, and in the same transaction appends the events, patches the execution's state and enqueues what follows.
        write "queue.complete" complete(queue::CompleteItem) -> queue::Completed = queue::complete, Shape::ItemAndOptional, [Items Executions Events];
        /// Ends the delivery as failed: another attempt after a delay, or the dead letters.
        write "queue.fail" fail(queue::FailItem) -> queue::Failed = queue::fail, Shape::Item, [Items Executions Events];
        /// Gives the item back without counting the attempt.
        write "queue.release" release(queue::ReleaseItem) -> queue::Released = queue::release, Shape::ItemAndOptional, [Items Executions Events];
        /// Cancels a waiting item at once, and asks the holder of a claimed one to stop.
        write "queue.cancel" cancel(queue::ItemId) -> WorkItem = queue::cancel, Shape::Subject("id"), [Items Executions Events];
        /// The item, or null.
        read "queue.get" get(queue::ItemId) -> Option<WorkItem> = queue::get, Shape::Subject("id"), [Items];
        /// Lists items in the order in which they were enqueued.
        read "queue.list" list(queue::ListItems) -> Page<WorkItem> = queue::list, Shape::Filter, [Items];
        /// The deliveries of an item that did not complete, oldest first.
        read "queue.attempts" attempts(queue::ItemId) -> Vec<Attempt> = queue::attempts, Shape::Subject("id"), [Items];
    }

    /// Queues as such: settings, pauses, holds and counts.
    queues: Queues {
        /// Lists queues and their settings in the order in which they were made.
        read "queues.list" list(queue::ListQueues) -> Page<QueueInfo> = queue::list_queues, Shape::Filter, [Queues];
        /// Changes settings of a queue; it need not have items yet. What is left out stays, null clears.
        write "queues.configure" configure(queue::ConfigureQueue) -> QueueInfo = queue::configure, Shape::SubjectAndObject("name"), [Queues Items];
        /// Nothing of the queue is claimed until `resume`. What is claimed goes on.
        write "queues.pause" pause(queue::QueueName) -> QueueInfo = queue::pause, Shape::Subject("name"), [Queues];
        /// Ends a pause.
        write "queues.resume" resume(queue::QueueName) -> QueueInfo = queue::resume, Shape::Subject("name"), [Queues];
        /// Nothing of the queue, or of one concurrency key of it, is claimed until a time: what a provider's "retry after" asks for.
        write "queues.hold" hold(queue::HoldQueue) -> QueueInfo = queue::hold, Shape::SubjectAndObject("name"), [Queues];
        /// Counts items by status, and tells how long the oldest pending one waits. Costs the same however many are finished.
        read "queues.stats" stats(queue::StatsOf) -> QueueStats = queue::stats, Shape::Filter, [Items];
    }

    /// Items whose attempts are used up.
    dead_letters: DeadLetters {
        /// Lists dead letters in the order in which they were enqueued.
        read "deadLetters.list" list(queue::ListDeadLetters) -> Page<WorkItem> = queue::list_dead_letters, Shape::Filter, [Items];
        /// Makes a dead letter, or all of a queue (`{queue}`), pending again, with attempt 0.
        procedure "deadLetters.redrive" redrive(queue::Redrive) -> Redriven = queue::redrive, Shape::SubjectOrObject("id"), [Items];
        /// Deletes a dead letter.
        write "deadLetters.delete" delete(queue::DeadLetterId) -> () = queue::delete_dead_letter, Shape::Subject("id"), [Items];
    }

    /// Leases that have run out.
    leases: Leases {
        /// Lists claimed items whose lease has run out, by `leaseExpiresAt`. It changes nothing: the sweep does.
        read "leases.listExpired" list_expired(queue::ListExpiredLeases) -> Page<ExpiredLease> = queue::list_expired, Shape::Filter, [Items];
    }

    /// The registry of workers.
    workers: Workers {
        /// Registers a worker, or refreshes the registration of a live one.
        write "workers.register" register(workers::RegisterWorker) -> Registered = workers::register, Shape::Object, [Workers];
        /// Says that a worker is alive.
        write "workers.heartbeat" heartbeat(workers::WorkerHeartbeat) -> Heartbeat = workers::heartbeat, Shape::Object, [Workers];
        /// Removes a worker. Its leases end as if they had run out.
        write "workers.markDead" mark_dead(workers::MarkWorkerDead) -> MarkedDead = workers::mark_dead, Shape::Object, [Workers Items Executions Events];
        /// Lists changes of registrations, oldest first. Heartbeats are not among them.
        read "workers.history" history(workers::ListHistory) -> Page<HistoryEntry> = workers::history, Shape::Filter, [Workers];
        /// Lists live workers in the order in which they registered.
        read "workers.list" list(workers::ListWorkers) -> Page<Worker> = workers::list, Shape::Filter, [Workers];
    }

    /// Timers: what happens to an execution at a time. The sweep fires them.
    timers: Timers {
        /// Schedules a timer, and appends `timer_created`. Once it is due, the sweep appends `timer_fired` and enqueues its work item, in one transaction and once. `invalid_transition` where the execution has ended.
        write "timers.schedule" schedule(timers::ScheduleTimer) -> Created<Timer> = timers::schedule, Shape::Object, [Timers Executions Events];
        /// Cancels a timer that has not fired; `invalid_transition` once it has.
        write "timers.cancel" cancel(timers::TimerId) -> Timer = timers::cancel, Shape::Subject("id"), [Timers];
        /// The timer, or null.
        read "timers.get" get(timers::TimerId) -> Option<Timer> = timers::get, Shape::Subject("id"), [Timers];
        /// Lists timers in the order in which they were scheduled.
        read "timers.list" list(timers::ListTimers) -> Page<Timer> = timers::list, Shape::Filter, [Timers];
    }

    /// Cron: schedules that begin executions. The sweep fires them.
    cron: Crons {
        /// Puts a schedule under a name, or changes the one that is there. Each time it comes due, the sweep begins an execution and enqueues its first work item, in one transaction and once; the execution's metadata is `{cron, dueAt}`. An expression, time zone and enabled that stay the same leave standing when it comes due.
        write "cron.put" put(cron::PutCron) -> Created<CronSchedule> = cron::put, Shape::Object, [Crons];
        /// The schedule, or null.
        read "cron.get" get(cron::CronName) -> Option<CronSchedule> = cron::get, Shape::Subject("name"), [Crons];
        /// Lists schedules in the order in which they were first put.
        read "cron.list" list(cron::ListCrons) -> Page<CronSchedule> = cron::list, Shape::Filter, [Crons];
        /// Deletes a schedule. The executions that it began stay.
        write "cron.delete" delete(cron::CronName) -> () = cron::delete, Shape::Subject("name"), [Crons];
        /// Fires a schedule now, also one that is disabled, and answers the execution. When it comes due next does not change.
        write "cron.trigger" trigger(cron::CronName) -> Execution = cron::trigger, Shape::Subject("name"), [Crons Executions Items];
    }

    /// Threads: conversations.
    threads: Threads {
        /// Creates a thread; nothing has to be given.
        write "threads.create" create(threads::CreateThread) -> Created<Thread> = threads::create, Shape::Filter, [Threads];
        /// The thread, or null.
        read "threads.get" get(threads::ThreadId) -> Option<Thread> = threads::get, Shape::Subject("id"), [Threads];
        /// Changes what is named and nothing else. What is left out stays, null clears.
        write "threads.update" update(threads::UpdateThread) -> Thread = threads::update, Shape::SubjectAndObject("id"), [Threads];
        /// Lists threads in the order in which they were created; archived ones only where that is asked for.
        read "threads.list" list(threads::ListThreads) -> Page<Thread> = threads::list, Shape::Filter, [Threads];
        /// The threads that changed last, newest first: what a sidebar shows. A thread changes with its turns and items.
        read "threads.recent" recent(threads::RecentThreads) -> Recent<Thread> = threads::recent, Shape::Filter, [Threads];
        /// Puts a thread out of sight. It can be written to as before.
        write "threads.archive" archive(threads::ThreadId) -> Thread = threads::archive, Shape::Subject("id"), [Threads];
        /// Brings an archived thread back.
        write "threads.unarchive" unarchive(threads::ThreadId) -> Thread = threads::unarchive, Shape::Subject("id"), [Threads];
        /// Deletes a thread with its turns, items, events and prompts. What it has used stays recorded, and blobs stay.
        write "threads.delete" delete(threads::ThreadId) -> () = threads::delete, Shape::Subject("id"), [Threads Turns ThreadItems ThreadEvents Inbox];
        /// Copies a thread into a new one, whole or up to and including an item or a turn. What is open is `interrupted` in the copy; usage, prompts and events are not copied.
        write "threads.fork" fork(threads::ForkThread) -> Created<Thread> = threads::fork, Shape::SubjectAndOptional("id"), [Threads Turns ThreadItems];
        /// Finds threads by their titles, and by what was asked, answered and put out by tools: best matches first, each with a snippet. What is typed is taken as words, the last one as a beginning. Of an item, the first MiB counts, once it has ended.
        read "threads.search" search(threads::search::SearchThreads) -> threads::search::SearchResults = threads::search::search, Shape::Object, [Threads ThreadItems];
    }

    /// Turns: one exchange of a thread each.
    turns: Turns {
        /// Creates a turn, `queued` unless a status is given.
        write "turns.create" create(turns::CreateTurn) -> Created<Turn> = turns::create, Shape::Object, [Turns Threads];
        /// The turn, or null.
        read "turns.get" get(turns::TurnId) -> Option<Turn> = turns::get, Shape::Subject("id"), [Turns Usage];
        /// Changes what is named. A status goes from `queued` to `in_progress` to an end, or from `queued` to an end other than `completed`; `invalid_transition` otherwise. Items that are open when the turn ends, end as it does.
        write "turns.update" update(turns::UpdateTurn) -> Turn = turns::update, Shape::SubjectAndObject("id"), [Turns Threads ThreadItems], options ["expectedStatus"];
        /// Lists the turns of a thread in the order in which they were created.
        read "turns.list" list(turns::ListTurns) -> Page<Turn> = turns::list, Shape::Object, [Turns Usage];
        /// Lists the turns of all threads that are queued or in progress, in the order in which they were created.
        read "turns.listIncomplete" list_incomplete(turns::ListIncompleteTurns) -> Page<Turn> = turns::list_incomplete, Shape::Filter, [Turns Usage];
        /// Ends the turns in progress whose owner is not among those alive, or that have none: they, and what is open in them, become `interrupted`, with the reason in `error`. Queued turns are left alone.
        procedure "turns.recover" recover(turns::RecoverTurns) -> Recovered = turns::recover, Shape::Filter, [Turns Threads ThreadItems];
    }

    /// Items: what a thread is made of, in order.
    items: Items {
        /// Creates an item at the end of a thread.
        write "items.create" create(items::CreateItem) -> Created<ThreadItem> = items::create, Shape::Object, [ThreadItems Threads];
        /// Inserts an item, or changes what is named of the one that has this id; its thread, turn and kind stay (`conflict`).
        write "items.put" put(items::PutItem) -> Created<ThreadItem> = items::put, Shape::Object, [ThreadItems Threads];
        /// The item, or null.
        read "items.get" get(items::ThreadItemId) -> Option<ThreadItem> = items::get, Shape::Subject("id"), [ThreadItems];
        /// Changes what is named. A status goes from `queued` to `in_progress` to an end, or from `queued` to an end at once; `invalid_transition` otherwise.
        write "items.update" update(items::UpdateItem) -> ThreadItem = items::update, Shape::SubjectAndObject("id"), [ThreadItems Threads];
        /// Deletes an item. The others keep their positions.
        write "items.delete" delete(items::ThreadItemId) -> () = items::delete, Shape::Subject("id"), [ThreadItems Threads];
        /// Lists the items of a thread, or of a turn, in the order of their positions.
        read "items.list" list(items::ListThreadItems) -> Page<ThreadItem> = items::list, Shape::Object, [ThreadItems];
        /// Appends to the text of an item, at the same cost however long it is; a queued item comes to be in progress. `invalid_transition` once it has ended, `conflict` (with `details.length`) where the text is not as long as `at`. A delta may end within a surrogate pair, of which the next one brings the rest.
        write "items.appendText" append_text(items::AppendText) -> TextLength = items::append_text, Shape::SubjectAndObject("id"), [ThreadItems] halves kept, options ["at"];
        /// What of an item's text is new to one who knows its first `after` UTF-16 code units. `conflict` (with `details.length`) where it is shorter than that: another text has taken its place.
        read "items.readText" read_text(items::ReadText) -> NewText = items::read_text, Shape::SubjectAndOptional("id"), [ThreadItems];
    }

    /// Thread events: what happened to threads, numbered for the whole tenant.
    thread_events: ThreadEvents {
        /// Appends an event, and answers its sequence: a number that rises with each event of the tenant and is never given twice.
        write "threadEvents.append" append(thread_events::AppendThreadEvent) -> i64 = thread_events::append, Shape::SubjectAndObject("threadId"), [ThreadEvents];
        /// Lists the events of a thread in the order of their sequence.
        read "threadEvents.list" list(thread_events::ListThreadEvents) -> Page<ThreadEvent> = thread_events::list, Shape::Object, [ThreadEvents];
    }

    /// The prompt inbox of threads.
    inbox: Inbox {
        /// Admits a prompt: it gets the thread's next number and waits, `queue` for a turn of its own, `steer` for the turn that is running.
        write "inbox.admit" admit(inbox::AdmitPrompt) -> Created<Prompt> = inbox::admit, Shape::SubjectAndObject("threadId"), [Inbox];
        /// The prompt, or null.
        read "inbox.get" get(inbox::PromptId) -> Option<Prompt> = inbox::get, Shape::Subject("id"), [Inbox];
        /// The oldest prompt that waits for a turn of its own, or null.
        read "inbox.next" next(inbox::InboxOf) -> Option<Prompt> = inbox::next, Shape::Subject("threadId"), [Inbox];
        /// The prompts that wait for the turn that is running, oldest first; at most 1000 and 8 MiB of them, more once these are promoted.
        read "inbox.steers" steers(inbox::InboxOf) -> Vec<Prompt> = inbox::steers, Shape::Subject("threadId"), [Inbox];
        /// Takes a prompt out of the inbox, into a turn if one is named; once: `conflict` after that.
        write "inbox.promote" promote(inbox::PromotePrompt) -> Prompt = inbox::promote, Shape::SubjectAndOptional("id"), [Inbox Turns];
        /// Creates the turn of the oldest prompt that waits for one, and takes the prompt out of the inbox, in one transaction; null where none waits.
        write "inbox.promoteNext" promote_next(inbox::PromoteNext) -> Option<PromotedNext> = inbox::promote_next, Shape::SubjectAndOptional("threadId"), [Inbox Turns Threads];
        /// Takes a prompt back; `conflict` once a turn has taken it.
        write "inbox.withdraw" withdraw(inbox::PromptId) -> Prompt = inbox::withdraw, Shape::Subject("id"), [Inbox];
        /// Lists the prompts of a thread in the order in which they were admitted.
        read "inbox.list" list(inbox::ListPrompts) -> Page<Prompt> = inbox::list, Shape::Object, [Inbox];
    }

    /// Usage: what responses of models have used, and what that cost.
    usage: Usage {
        /// Records what a response has used, once: a response id that is known answers the first record. Its cost is that of its time.
        write "usage.record" record(usage::RecordUsage) -> Created<UsageRecord> = usage::record_checked, Shape::Object, [Usage Turns];
        /// What a response has used, or null.
        read "usage.get" get(usage::ResponseId) -> Option<UsageRecord> = usage::get, Shape::Subject("responseId"), [Usage];
        /// Lists records in the order in which they were made.
        read "usage.list" list(usage::ListUsage) -> Page<UsageRecord> = usage::list, Shape::Filter, [Usage];
        /// Sums up what was used in a span of time, and by day, model, provider or thread. What has no price is counted in `unpricedTurns`.
        read "usage.aggregate" aggregate(usage::AggregateUsage) -> UsageAggregate = usage::aggregate, Shape::Filter, [Usage];
        /// The prices that count for what is recorded from now on.
        read "usage.getPrices" get_prices(usage::GetPrices) -> PriceList = usage::get_prices, Shape::Nothing, [Usage];
        /// Sets the prices, in US dollars per million tokens. They take the place of all, the default ones included, and change nothing that was recorded.
        write "usage.setPrices" set_prices(usage::SetPrices) -> PriceList = usage::set_prices, Shape::Array("prices"), [Usage];
        /// Gives what was recorded the cost that it has by the list of now. What the list has no price for has no cost then.
        procedure "usage.reprice" reprice(usage::RepriceUsage) -> Repriced = usage::reprice, Shape::Filter, [Usage Turns];
    }

    /// Blobs: bytes that items and events refer to, stored once.
    blobs: Blobs {
        /// Keeps bytes, at most 128 MiB, under their SHA-256. The same bytes again answer the blob that exists.
        write "blobs.put" put(blobs::PutBlob) -> Created<Blob> = blobs::put, Shape::Bytes, [Blobs] bytes given;
        /// The blob with its bytes, or a range of them, or null. A range ends where the blob does.
        read "blobs.get" get(blobs::GetBlob) -> Option<BlobContent> = blobs::get, Shape::SubjectAndOptional("id"), [Blobs] bytes answered;
        /// Deletes a blob's bytes, whether or not something refers to them.
        write "blobs.delete" delete(blobs::BlobId) -> () = blobs::delete, Shape::Subject("id"), [Blobs];
        /// Lists blobs, without their bytes, in the order in which they were first put.
        read "blobs.list" list(blobs::ListBlobs) -> Page<Blob> = blobs::list, Shape::Filter, [Blobs];
    }

    /// Imports of other programs' files.
    imports: Imports {
        /// Imports a JamJet state database: definitions, executions, events, snapshots, work items, dead letters, tenants, token digests. Importing it again adds nothing. What cannot be read is in the report, with its table and id; the rest is imported.
        procedure "imports.jamjet" jamjet(imports::ImportJamjet) -> imports::ImportReport = imports::jamjet, Shape::Bytes, [Executions Events Items Workflows] of whole_store bytes given;
        /// Imports a part of a file, whole lines of it, in one transaction; what `claudeCode`, `codex` and `zagensJson` are made of. The same part again adds nothing.
        write "imports.chunk" chunk(imports::ImportChunk) -> imports::ImportedChunk = imports::chunk, Shape::Bytes, [Threads Turns ThreadItems ThreadEvents Usage] bytes given;
    }

    /// Tokens: secrets that name a tenant and a role.
    tokens: Tokens {
        /// Makes a token. The secret is in this answer only; the store keeps its digest.
        write "tokens.create" create(tokens::CreateToken) -> NewToken = tokens::create, Shape::Object, [];
        /// What a token stands for, or null where it is unknown, expired or revoked. On the plain store, of any tenant.
        write "tokens.validate" validate(tokens::ValidateToken) -> Option<TokenInfo> = tokens::validate, Shape::Subject("token"), [];
        /// Ends a token.
        write "tokens.revoke" revoke(tokens::TokenId) -> TokenInfo = tokens::revoke, Shape::Subject("id"), [];
        /// Lists tokens in the order in which they were made.
        read "tokens.list" list(tokens::ListTokens) -> Page<TokenInfo> = tokens::list, Shape::Filter, [];
    }

    /// Tenants, of the plain store only.
    tenants: Tenants {
        /// Creates a tenant.
        write "tenants.create" create(tenants::CreateTenant) -> Created<Tenant> = tenants::create, Shape::Object, [] of whole_store;
        /// The tenant, or null.
        read "tenants.get" get(tenants::TenantId) -> Option<Tenant> = tenants::get, Shape::Subject("id"), [] of whole_store;
        /// Lists tenants in the order in which they were made.
        read "tenants.list" list(tenants::ListTenants) -> Page<Tenant> = tenants::list, Shape::Filter, [] of whole_store;
        /// Changes what is named: status, name, policy, limits.
        write "tenants.update" update(tenants::UpdateTenant) -> Tenant = tenants::update, Shape::SubjectAndObject("id"), [] of whole_store;
    }

    /// How long finished things are kept.
    retention: Retention {
        /// The times that are set.
        read "retention.get" get(retention::GetRetention) -> RetentionTimes = retention::get, Shape::Nothing, [];
        /// Sets for how long finished things are kept; the sweep prunes what is older. Everything is kept for ever unless asked.
        write "retention.set" set(retention::SetRetention) -> RetentionTimes = retention::set, Shape::Object, [];
    }

    /// The whole store.
    upkeep: Upkeep {
        /// Runs operations that change something in one transaction: all or none. The error of one names its index in `details.index`.
        write "batch" batch(Batch) -> Vec<Json> = batch, Shape::Array("calls"), [] halves kept;
        /// Does what time brings: fires due timers and schedules, ends expired leases, removes lapsed workers, makes due items claimable. Call it regularly.
        procedure "sweep" sweep(SweepRequest) -> SweepReport = sweep::sweep, Shape::Filter, [Items Workers Executions Events Timers Crons Threads Turns ThreadItems ThreadEvents Inbox] of whole_store;
        /// The whole store as a SQLite file, which a store of this version or a newer one opens: everything that was committed before, nothing of what comes after. Made in memory.
        read "exportDatabase" export_database(ExportDatabase) -> Exported = export::database, Shape::Nothing, [] of whole_store bytes answered;
    }
}

arguments! {
    pub struct Batch {
        pub calls: Vec<BatchCall>,
    }

    /// An operation and its arguments, one object.
    pub struct BatchCall {
        pub operation: String,
        pub arguments: Json,
    }
}

fn batch(tx: &Tx<'_>, batch: Batch) -> Result<Vec<Json>> {
    let one = |call: &BatchCall| {
        let operation = find(&call.operation)?;
        if !operation.writes || operation.name == "batch" {
            return Err(Error::invalid(format!("{} cannot be part of a batch: it changes nothing by itself", operation.name)));
        }
        let given = Given { arguments: call.arguments.as_str(), bytes: None };
        let tx = tx.at_present();
        Json::parse(tx.as_call(operation.topics, |tx| operation.run_in(tx, given))?.0.text)
    };
    let answers =
        batch.calls.iter().enumerate().map(|(index, call)| {
            one(call).map_err(|error| error.with("index", index).with("operation", call.operation.as_str()))
        });
    answers.collect()
}

/// Arguments of an operation that takes bytes beside its text.
pub trait TakesBytes {
    fn give_bytes(&mut self, bytes: &[u8]);
}

/// The result of an operation that gives bytes beside its text.
pub trait GivesBytes {
    /// The bytes, which are not part of the text; none where there is no result.
    fn take_bytes(&mut self) -> Option<Vec<u8>>;
}

impl<T: GivesBytes> GivesBytes for Option<T> {
    fn take_bytes(&mut self) -> Option<Vec<u8>> {
        self.as_mut().and_then(T::take_bytes)
    }
}

/// A call as it comes from outside: the name of an operation, what it is given, and who makes it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Call<'a> {
    pub operation: &'a str,
    pub given: Given<'a>,
    /// With it, the answer is kept if the call changes something, so that the call can be sent again and is applied once.
    pub request: Option<Request<'a>>,
}

impl<'a> Call<'a> {
    /// A call without bytes, by nobody in particular.
    pub fn new(operation: &'a str, arguments: &'a str) -> Self {
        Self { operation, given: Given { arguments, bytes: None }, request: None }
    }
}

/// What came of calls.
#[derive(Debug)]
pub struct Outcome {
    /// One for each call, in their order.
    pub answers: Vec<Result<Answer>>,
    /// What they changed, by tenant.
    pub changes: Vec<Change>,
}

impl Store {
    /// Runs one operation by name, with arguments and answer as JSON text.
    pub fn call(&self, operation: &str, arguments: &str) -> Result<String> {
        let call = Addressed::new(self, &Call::new(operation, arguments))?;
        self.run_alone(&call).map(|answer| answer.text)
    }

    /// Runs calls in order, sharing one transaction where that is possible. Each is answered as if it had run alone: if one fails, the
    /// shared transaction is rolled back and each runs in its own. An operation's name may be followed by `@` and the id of a tenant, for
    /// which the call then runs.
    pub fn call_many(&self, calls: &[Call<'_>]) -> Outcome {
        let (store, listener) = self.listening();
        let mut answers = Vec::with_capacity(calls.len());
        let mut group: Vec<Addressed<'_>> = Vec::new();
        for call in calls {
            match Addressed::new(&store, call) {
                Ok(call @ Addressed { operation: Operation { handler: Handler::Transaction(_), .. }, .. }) => group.push(call),
                other => {
                    store.run_group(&mut group, &mut answers);
                    answers.push(other.and_then(|call| store.run_alone(&call)));
                }
            }
        }
        store.run_group(&mut group, &mut answers);
        Outcome { answers, changes: listener.take() }
    }

    fn run_group(&self, group: &mut Vec<Addressed<'_>>, answers: &mut Vec<Result<Answer>>) {
        let calls = std::mem::take(group);
        if calls.len() > 1
            && let Ok(all) = self.run_together(&calls)
        {
            return answers.extend(all.into_iter().map(Ok));
        }
        answers.extend(calls.iter().map(|call| self.run_alone(call)));
    }

    fn run_alone(&self, call: &Addressed<'_>) -> Result<Answer> {
        let Handler::Procedure(run) = call.operation.handler else {
            let mut answers = self.run_together(std::slice::from_ref(call))?;
            return answers.pop().ok_or_else(|| Error::new(ErrorCode::Internal, "a call was not answered"));
        };
        let mut store = call.tenant.map_or_else(|| self.clone(), |id| self.for_tenant(id));
        // What takes bytes is an import: it is run again, and they are many.
        if let Some(request) = call.request.filter(|_| call.given.bytes.is_none()) {
            // A repeat is told by the tenant too.
            let name = format!("{}@{}", call.operation.name, call.tenant.unwrap_or_default());
            store = store.asked_by(Asked::new(request, &name, call.given));
        }
        if call.operation.whole_store && store.is_bound() {
            return Err(of_the_whole_store(call.operation.name));
        }
        run(&store, call.given)
    }

    /// Runs calls in one transaction.
    fn run_together(&self, calls: &[Addressed<'_>]) -> Result<Vec<Answer>> {
        let shared = |tx: &Tx<'_>| {
            // The clients are few.
            let mut acked: Vec<(&str, i64)> = Vec::new();
            let mut answers = Vec::with_capacity(calls.len());
            for call in calls {
                let tx = tx.at_present();
                let (answer, is_kept) = match call.tenant {
                    None => call.run_in(&tx),
                    Some(id) => call.run_in(&tx.of_named_tenant(id)?),
                }?;
                if let (true, Some(request)) = (is_kept, call.request) {
                    match acked.iter_mut().find(|(client, _)| *client == request.client) {
                        Some((_, last)) => *last = request.acked.max(*last),
                        None => acked.push((request.client, request.acked)),
                    }
                }
                answers.push(answer);
            }
            acked.into_iter().try_for_each(|(client, number)| requests::forget(tx, client, number))?;
            Ok(answers)
        };
        if calls.iter().any(|call| call.operation.writes) { self.write(shared) } else { self.read(shared) }
    }
}

/// A call, and for which tenant it runs if not for the store's own.
struct Addressed<'a> {
    operation: &'static Operation,
    tenant: Option<&'a str>,
    given: Given<'a>,
    request: Option<Request<'a>>,
}

impl<'a> Addressed<'a> {
    fn new(store: &Store, call: &Call<'a>) -> Result<Self> {
        let (name, tenant) = match call.operation.split_once('@') {
            None => (call.operation, None),
            Some((name, tenant)) => (name, Some(tenant)),
        };
        if tenant.is_some() && store.is_bound() {
            return Err(Error::new(
                ErrorCode::Unsupported,
                format!("{:?} names a tenant, and this store is bound to one; call it on the plain store", call.operation),
            ));
        }
        Ok(Self { operation: find(name)?, tenant, given: call.given, request: call.request })
    }

    /// Runs the call in a transaction that may be shared, or answers it as it was answered before. Tells whether something of it was kept.
    fn run_in(&self, tx: &Tx<'_>) -> Result<(Answer, bool)> {
        let Self { operation, given, .. } = *self;
        let run = |tx: &Tx<'_>| tx.as_call(operation.topics, |tx| operation.run_in(tx, given));
        let Some(request) = self.request.filter(|_| operation.writes) else { return Ok((run(tx)?.0, false)) };
        // A repeat is told by the tenant too.
        let name = format!("{}@{}", operation.name, tx.tenant);
        let digest = || requests::digest(&name, given);
        if request.again
            && let Some(answer) = requests::find(tx, request, operation.name, given, &digest())?
        {
            return Ok((answer, false));
        }
        let (answer, has_changed) = run(tx)?;
        if has_changed {
            requests::keep(tx, request, operation.name, given, &digest(), &answer)?;
        }
        Ok((answer, has_changed))
    }
}

impl Operation {
    fn run_in(&self, tx: &Tx<'_>, given: Given<'_>) -> Result<Answer> {
        match self.handler {
            Handler::Transaction(_) if self.whole_store && !tx.sees_all_tenants() => Err(of_the_whole_store(self.name)),
            Handler::Transaction(run) => run(tx, given),
            Handler::Procedure(_) => {
                Err(Error::invalid(format!("{} is a series of transactions and cannot be part of one", self.name)))
            }
        }
    }
}

fn find(name: &str) -> Result<&'static Operation> {
    OPERATIONS.iter().find(|known| known.name == name).ok_or_else(|| unknown_operation(name))
}

fn of_the_whole_store(name: &str) -> Error {
    Error::new(
        ErrorCode::Unsupported,
        format!("{name} concerns the whole store, and this one is bound to a tenant; call it on the plain store"),
    )
    .with("operation", name)
}

fn unknown_operation(name: &str) -> Error {
    Error::new(ErrorCode::Unsupported, format!("there is no operation {name:?} in this version of runkeep"))
        .with("operation", name)
}

/// Reads an operation's arguments. Errors name the operation and the field.
fn parse<A: FromJson>(operation: &str, given: Given<'_>) -> Result<A> {
    A::from_json(&readable(operation, given)?).map_err(|problem| refuse(operation, *problem))
}

/// Reads arguments in which halves of surrogate pairs mean something: text that streams in is cut anywhere.
fn parse_as_it_is<A: FromJson>(operation: &str, given: Given<'_>) -> Result<A> {
    takes_no_bytes(operation, given)?;
    A::from_json(given.arguments).map_err(|problem| refuse(operation, *problem))
}

fn readable<'a>(operation: &str, given: Given<'a>) -> Result<Cow<'a, str>> {
    takes_no_bytes(operation, given)?;
    Ok(replace_lone_surrogates(given.arguments))
}

fn takes_no_bytes(operation: &str, given: Given<'_>) -> Result<()> {
    match given.bytes {
        None => Ok(()),
        Some(_) => Err(Error::invalid(format!("{operation} takes no bytes")).with("operation", operation)),
    }
}

fn refuse(operation: &str, problem: Problem) -> Error {
    Error::invalid(format!("{operation}: {problem}")).with("operation", operation).with("path", problem.path)
}

fn with_bytes<A: FromJson + TakesBytes>(operation: &str, given: Given<'_>) -> Result<A> {
    let bytes = given.bytes.ok_or_else(|| {
        Error::invalid(format!("{operation} takes bytes beside its arguments, and got none")).with("operation", operation)
    })?;
    let mut arguments: A = parse(operation, Given { bytes: None, ..given })?;
    arguments.give_bytes(bytes);
    Ok(arguments)
}

fn answer(result: &dyn ToJson) -> Answer {
    Answer { text: text(result), bytes: None }
}

/// A call's outcome as it goes to JavaScript, the text being `{"ok": …}` or `{"error": …}`.
pub fn envelope(outcome: Result<Answer>) -> Answer {
    let error = match outcome {
        Ok(answer) => return Answer { text: format!("{{\"ok\":{}}}", answer.text), ..answer },
        Err(error) => error,
    };
    Answer { text: format!("{{\"error\":{}}}", text(&error)), bytes: None }
}
