//! Session logs of coding assistants: JSON lines that become a thread, chunk by chunk.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use super::record::{Object, gist, name};
use super::{claude, codex, foreign, zagens};
use crate::error::{Error, Result};
use crate::ids::Name;
use crate::json::{Json, replace_lone_surrogates};
use crate::operation::{TakesBytes, Topic};
use crate::store::Tx;
use crate::tenants;
use crate::threads::import::{Conversation, ImportedItem, ImportedThread, ImportedTurn, Known, Mark, TurnEnd};
use crate::threads::items::{ItemKind, ThreadItemStatus};
use crate::threads::turns::TurnStatus;

/// The most rejected lines that a report names; the others are counted.
pub const MOST_REJECTED: usize = 1000;

words! {
    /// Whose files these are.
    #[derive(Default)]
    pub enum SessionFormat {
        /// Sessions of Claude Code, one JSON record a line.
        #[default]
        ClaudeCode = "claude_code",
        /// Rollouts of Codex, one JSON record a line.
        Codex = "codex",
        /// A file of a zagens store: a thread, a turn or an item as one JSON object, or events, one a line.
        Zagens = "zagens",
    }
}

arguments! {
    /// A part of a file: whole lines. Of a zagens thread, turn or item the whole file.
    pub struct ImportChunk {
        pub format: SessionFormat,
        /// The number of the first line; 1 unless given.
        pub line: Option<i64>,
        /// What the chunk before answered; left out for the first one.
        pub state: Option<Json> as optional,
        /// Whether the file ends here.
        pub last: Option<bool>,
        #[cfg_attr(feature = "development", ts(skip))]
        pub bytes: Vec<u8> as skip,
    }
}

impl TakesBytes for ImportChunk {
    fn give_bytes(&mut self, bytes: &[u8]) {
        self.bytes = bytes.to_vec();
    }
}

records! {
    /// What became of a part of a file.
    pub struct ImportedChunk {
        /// For the next chunk of the file; says nothing to others.
        pub state: Json,
        pub thread_id: Option<String>,
        /// Records that are new.
        pub imported: i64,
        /// Records that were imported before.
        pub skipped: i64,
        /// Lines of which something was not imported as what it is, and why; at most 1000 of them.
        pub rejected: Vec<RejectedLine>,
        pub rejected_count: i64,
        /// Records of types that have no counterpart, by type. They became thread events.
        pub unknown_types: BTreeMap<String, i64>,
    }

    pub struct RejectedLine {
        /// Lines count from 1.
        pub line: i64,
        pub reason: String,
    }
}

arguments! {
    /// What goes from chunk to chunk.
    pub(super) struct State {
        pub(super) thread: Option<Name>,
        /// Whether somebody deleted the thread while the file was imported.
        is_deleted: bool,
        /// Records from before the one that names the session.
        pending: Vec<Unplaced>,
        pending_bytes: usize,
        hopeless: bool,
        pub(super) turn: Option<OpenTurn>,
        /// The tools that the open turn has called and that have not answered yet.
        open_calls: Vec<String>,
        /// The time of the newest record that has one.
        pub(super) at: Option<i64>,
        /// The title that a prompt gave.
        pub(super) title: Option<String>,
        pub(super) model: Option<Name>,
        pub(super) provider: Option<Name>,
        /// The item of a compaction whose summary is still to come.
        pub(super) compaction: Option<Name>,
        /// Under which session responses are counted, and what it had used: input, cached, output, reasoning.
        pub(super) counted_as: Option<Name>,
        pub(super) used: [i64; 4],
    }

    /// A record whose session is not known yet.
    struct Unplaced {
        line: i64,
        /// Its number on the line.
        index: usize,
        text: String,
    }

    /// A turn that has not ended yet.
    pub(super) struct OpenTurn {
        pub(super) id: Name,
        pub(super) at: i64,
        /// Whether a side chain began it, that is, the file holds one that stands for itself. What it says counts for no other turn.
        pub(super) is_side: bool,
        /// Whether what came last is an answer.
        pub(super) is_answered: bool,
        /// How it ends, whatever came last.
        pub(super) ends_as: Option<End>,
        pub(super) error: Option<String>,
        pub(super) last_input: Option<i64>,
    }
}

impl OpenTurn {
    /// Whether a record tells how the turn ends: what side chains say inside another one's turn does not.
    pub(super) fn is_of(&self, record: &Record<'_>) -> bool {
        self.is_side || !record.is_side
    }
}

words! {
    pub(super) enum End {
        Completed = "completed",
        Failed = "failed",
        Interrupted = "interrupted",
    }
}

const UNKNOWN_MODEL: &str = "unknown";

/// How much may come before the record that names the session: it goes from chunk to chunk. Each record weighs something besides its text.
const MOST_PENDING_BYTES: usize = 4 << 20;
const UNPLACED_BYTES: usize = 64;
const TOO_LATE: &str = "more than 4 MiB of records come before the one that tells of which session they are";

/// Imports a part of a file, in one transaction. The same part again, with the same state, adds nothing.
pub(crate) fn chunk(tx: &Tx<'_>, arguments: ImportChunk) -> Result<ImportedChunk> {
    let ImportChunk { format, line, state, last, bytes } = arguments;
    let line = line.unwrap_or(1);
    if line < 1 {
        return Err(Error::invalid(format!("line counts from 1; it is {line}")).with("path", "line"));
    }
    let state = state.map_or(Ok(State::default()), |state| {
        if !state.as_str().starts_with('{') {
            return Err(Error::invalid("state must be what the chunk before answered, an object").with("path", "state"));
        }
        state.read().map_err(|error| {
            Error::invalid(format!("state must be what the chunk before answered: {}", error.message())).with("path", "state")
        })
    })?;
    tenants::may_create(tx)?;
    // Rows of the past are written past those who would tell which thread it is.
    for topic in [Topic::Threads, Topic::Turns, Topic::ThreadItems, Topic::ThreadEvents, Topic::Usage] {
        tx.touch_any(topic);
    }
    let mut import = Import {
        tx,
        format,
        state,
        conversation: None,
        turn: None,
        open_calls: BTreeSet::new(),
        undo: Vec::new(),
        unknown: None,
        report: ImportedChunk {
            state: Json::default(),
            thread_id: None,
            imported: 0,
            skipped: 0,
            rejected: Vec::new(),
            rejected_count: 0,
            unknown_types: BTreeMap::new(),
        },
    };
    import.open_calls.extend(std::mem::take(&mut import.state.open_calls));
    if let Some(id) = import.state.thread.clone() {
        if !import.state.is_deleted {
            import.conversation = Conversation::find(tx, &id)?;
        }
        // Begun anew here, it would lack what came before, and get that after the rest once the file is imported again.
        if import.conversation.is_none() {
            if !std::mem::replace(&mut import.state.is_deleted, true) {
                let id = id.as_str();
                import.reject(line, format!("the thread {id:?} was deleted meanwhile; nothing was imported from here on"));
            }
            return import.answer();
        }
    }
    if format == SessionFormat::Zagens {
        zagens::import(&mut import, line, &bytes)?;
    } else {
        import.lines(line, &bytes)?;
        if last.unwrap_or(false) {
            import.finish()?;
        }
    }
    import.answer()
}

/// The import of one part of one file.
pub(super) struct Import<'t, 'c> {
    pub(super) tx: &'t Tx<'c>,
    pub(super) format: SessionFormat,
    pub(super) state: State,
    pub(super) conversation: Option<Conversation>,
    /// The key of the open turn, once it is known.
    turn: Option<(Name, i64)>,
    /// Those of the state. There may be many, and a record changes few: what it changed is undone where it fails.
    open_calls: BTreeSet<String>,
    undo: Vec<Undo>,
    /// The unknown type of the record that is being imported.
    unknown: Option<String>,
    pub(super) report: ImportedChunk,
}

/// What brings the open calls back to where they were.
enum Undo {
    Insert(String),
    Remove(String),
    Replace(BTreeSet<String>),
}

/// A record of a file.
pub(super) struct Record<'r> {
    /// Of its id, or of all of it.
    pub(super) mark: Mark,
    pub(super) text: &'r str,
    pub(super) object: &'r Object<'r>,
    /// When it was written: its own time, or that of the one before.
    pub(super) at: i64,
    /// Whether it is new; otherwise only the state moves on.
    pub(super) is_new: bool,
    /// Whether it belongs to a side chain: what an agent says and does that the main one has called.
    pub(super) is_side: bool,
}

impl Import<'_, '_> {
    pub(super) fn reject(&mut self, line: i64, reason: impl Into<String>) {
        self.report.rejected_count += 1;
        if self.report.rejected.len() < MOST_REJECTED {
            self.report.rejected.push(RejectedLine { line, reason: reason.into() });
        }
    }

    fn lines(&mut self, first: i64, bytes: &[u8]) -> Result<()> {
        for (number, line) in (first..).zip(bytes.split(|byte| *byte == b'\n')) {
            self.line(number, line)?;
        }
        Ok(())
    }

    /// The text of a line; none where it is blank or unreadable.
    pub(super) fn text<'l>(&mut self, number: i64, line: &'l [u8]) -> Option<std::borrow::Cow<'l, str>> {
        let line = if number == 1 { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line };
        match std::str::from_utf8(line.trim_ascii()) {
            Ok("") => None,
            Ok(text) => Some(replace_lone_surrogates(text)),
            Err(_) => {
                self.reject(number, "not valid UTF-8");
                None
            }
        }
    }

    fn line(&mut self, number: i64, line: &[u8]) -> Result<()> {
        let Some(text) = self.text(number, line) else { return Ok(()) };
        let mut start = 0;
        let mut index = 0;
        while start < text.len() {
            let rest = &text[start..];
            let mut objects = serde_json::Deserializer::from_str(rest).into_iter::<Object<'_>>();
            match objects.next() {
                None => break,
                Some(Ok(object)) => {
                    let end = objects.byte_offset();
                    self.take(number, index, &rest[..end], &object)?;
                    start += end;
                    index += 1;
                }
                Some(Err(error)) => {
                    let reason = why_unreadable(rest, &error);
                    let after = match index {
                        0 => String::new(),
                        1 => "after one good record: ".to_owned(),
                        count => format!("after {count} good records: "),
                    };
                    self.reject(number, after + &reason);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Takes a record, or keeps it until another one tells of which session it is.
    fn take(&mut self, line: i64, index: usize, text: &str, object: &Object<'_>) -> Result<()> {
        let text = text.trim();
        if self.conversation.is_some() {
            return self.process(line, index, text, object);
        }
        let begun = match self.format {
            SessionFormat::Codex => codex::begin(self, object),
            _ => claude::begin(self, object),
        };
        let Some((id, thread)) = begun else {
            if self.state.hopeless {
                self.reject(line, TOO_LATE);
                return Ok(());
            }
            self.state.pending.push(Unplaced { line, index, text: text.to_owned() });
            self.state.pending_bytes += text.len() + UNPLACED_BYTES;
            if self.state.pending_bytes > MOST_PENDING_BYTES {
                self.give_up(TOO_LATE);
            }
            return Ok(());
        };
        self.begin(&id, thread)?;
        for Unplaced { line, index, text } in std::mem::take(&mut self.state.pending) {
            // It was read before.
            let pending: Object<'_> = serde_json::from_str(&text).map_err(|error| {
                Error::invalid(format!("state is not what the chunk before answered: {error}")).with("path", "state")
            })?;
            self.process(line, index, &text, &pending)?;
        }
        self.process(line, index, text, object)
    }

    pub(super) fn begin(&mut self, id: &Name, thread: ImportedThread) -> Result<()> {
        self.state.at.get_or_insert(thread.created_at);
        self.state.thread = Some(id.clone());
        self.conversation = Some(match Conversation::find(self.tx, id)? {
            Some(known) => known,
            None => Conversation::create(self.tx, id, thread)?,
        });
        Ok(())
    }

    fn give_up(&mut self, reason: &str) {
        self.state.hopeless = true;
        for Unplaced { line, .. } in std::mem::take(&mut self.state.pending) {
            self.reject(line, reason);
        }
    }

    fn process(&mut self, line: i64, index: usize, text: &str, object: &Object<'_>) -> Result<()> {
        let called = match self.format {
            SessionFormat::Codex => mark(&[&line.to_string(), &index.to_string(), text]),
            _ => object.text("uuid").map_or_else(|| mark(&["", text]), |uuid| mark(&["uuid", &uuid])),
        };
        let own = object.text("timestamp").and_then(|text| foreign::time(&text).ok()).filter(|at| *at >= 0);
        let at = own.or(self.state.at).unwrap_or(self.tx.now);
        let before = (self.state.clone(), self.conversation.clone(), self.turn.clone());
        let tx = self.tx;
        let outcome = tx.attempt(|tx| {
            let conversation = self.conversation()?;
            let known = conversation.note(tx, &called, &mark(&[text]))?;
            let repeat =
                (known == Known::Other).then(|| conversation.note(tx, &mark(&["again", text]), &mark(&[text]))).transpose()?;
            self.state.at = Some(at);
            let is_new = repeat.unwrap_or(known) == Known::New;
            let is_side = self.format == SessionFormat::ClaudeCode && object.is_true("isSidechain");
            let record = Record { mark: called, text, object, at, is_new, is_side };
            let problem = match self.format {
                _ if repeat.is_some() => claude::repeat(self, &record)?,
                SessionFormat::Codex => codex::record(self, &record)?,
                _ => claude::record(self, &record)?,
            };
            Ok((known, problem))
        })?;
        if outcome.is_err() {
            (self.state, self.conversation, self.turn) = before;
        }
        self.settle(line, outcome);
        Ok(())
    }

    /// Counts what became of a record.
    pub(super) fn settle(&mut self, line: i64, outcome: Result<(Known, Option<String>)>) {
        let (undo, unknown) = (std::mem::take(&mut self.undo), self.unknown.take());
        match outcome {
            Err(error) => {
                for change in undo.into_iter().rev() {
                    match change {
                        Undo::Insert(call) => _ = self.open_calls.insert(call),
                        Undo::Remove(call) => _ = self.open_calls.remove(&call),
                        Undo::Replace(calls) => self.open_calls = calls,
                    }
                }
                return self.reject(line, error.message());
            }
            Ok((_, Some(problem))) => self.reject(line, problem),
            Ok((Known::New, None)) => self.report.imported += 1,
            Ok(_) => self.report.skipped += 1,
        }
        if let Some(kind) = unknown {
            *self.report.unknown_types.entry(kind).or_default() += 1;
        }
    }

    /// A tool was called, and has not answered yet.
    pub(super) fn called(&mut self, call: &str) {
        // An id may be of any length.
        let call = hex(&mark(&[call]));
        if self.open_calls.insert(call.clone()) {
            self.undo.push(Undo::Remove(call));
        }
    }

    fn answered(&mut self, call: &str) {
        let call = hex(&mark(&[call]));
        if self.open_calls.remove(&call) {
            self.undo.push(Undo::Insert(call));
        }
    }

    /// Whether a tool of the open turn has not answered yet.
    pub(super) fn waits(&self) -> bool {
        !self.open_calls.is_empty()
    }

    fn finish(&mut self) -> Result<()> {
        if self.conversation.is_none() {
            self.give_up("the file does not tell of which session it is");
        }
        self.end_turn()
    }

    fn answer(mut self) -> Result<ImportedChunk> {
        if let Some(conversation) = &mut self.conversation {
            conversation.save(self.tx)?;
            self.report.thread_id = Some(conversation.id.to_string());
        }
        self.state.open_calls = self.open_calls.into_iter().collect();
        self.report.state = Json::of(&self.state)?;
        Ok(self.report)
    }

    pub(super) fn conversation(&mut self) -> Result<&mut Conversation> {
        self.conversation.as_mut().ok_or_else(|| Error::invalid("the file has not told of which session it is"))
    }

    /// An id of something of this thread's, from the file's own ids.
    pub(super) fn id(&self, parts: &[&str]) -> Result<Name> {
        let thread = self.state.thread.as_deref().unwrap_or_default();
        let id = format!("{thread}/{}", parts.join("/"));
        id.parse().or_else(|_| format!("{}/{}", hex(&mark(&[thread])), hex(&mark(parts))).parse())
    }

    /// Opens a turn, ending the one that is open.
    pub(super) fn open_turn(&mut self, record: &Record<'_>, summary: &str, metadata: Option<Json>) -> Result<()> {
        self.end_turn()?;
        let id = self.id(&["turn", &hex(&record.mark)])?;
        if record.is_new {
            let turn = ImportedTurn {
                id: id.clone(),
                status: TurnStatus::InProgress,
                input_summary: gist(summary),
                created_at: record.at,
                started_at: Some(record.at),
                ended_at: None,
                duration_ms: None,
                last_request_input_tokens: None,
                error: None,
                steer_count: 0,
                metadata,
                is_side: record.is_side,
            };
            let tx = self.tx;
            let key = self.conversation()?.turn(tx, turn)?;
            self.turn = Some((id.clone(), key));
        }
        self.state.turn = Some(OpenTurn {
            id,
            at: record.at,
            is_side: record.is_side,
            is_answered: false,
            ends_as: None,
            error: None,
            last_input: None,
        });
        Ok(())
    }

    /// The open turn; one is opened where there is none that the record may belong to.
    pub(super) fn turn(&mut self, record: &Record<'_>) -> Result<&mut OpenTurn> {
        if self.state.turn.as_ref().is_none_or(|turn| turn.is_side && !record.is_side) {
            self.open_turn(record, "", None)?;
        }
        match &mut self.state.turn {
            Some(turn) => {
                turn.at = turn.at.max(record.at);
                Ok(turn)
            }
            None => Err(Error::new(crate::ErrorCode::Internal, "a turn was not opened")),
        }
    }

    fn turn_key(&mut self) -> Result<Option<i64>> {
        let Some(open) = &self.state.turn else { return Ok(None) };
        if let Some((id, key)) = &self.turn
            && *id == open.id
        {
            return Ok(Some(*key));
        }
        let found = crate::threads::import::find_turn(self.tx, &open.id)?;
        self.turn = found.map(|(key, _)| (open.id.clone(), key));
        Ok(found.map(|(key, _)| key))
    }

    pub(super) fn end_turn(&mut self) -> Result<()> {
        let key = self.turn_key()?;
        let Some(turn) = self.state.turn.take() else { return Ok(()) };
        let open_calls = std::mem::take(&mut self.open_calls);
        let waits = !open_calls.is_empty();
        self.undo.push(Undo::Replace(open_calls));
        // Somebody has deleted it.
        let Some(key) = key else { return Ok(()) };
        let status = match turn.ends_as {
            Some(End::Failed) => TurnStatus::Failed,
            Some(End::Interrupted) => TurnStatus::Interrupted,
            Some(End::Completed) => TurnStatus::Completed,
            None if turn.is_answered && !waits => TurnStatus::Completed,
            None => TurnStatus::Interrupted,
        };
        let error = turn.error.map(|message| Json::from(serde_json::json!({ "message": message })));
        let end = TurnEnd { status, ended_at: turn.at, error, last_request_input_tokens: turn.last_input };
        let tx = self.tx;
        self.conversation()?.end_turn(tx, key, &end)
    }

    /// Adds an item to the open turn, or to the thread where none is open.
    pub(super) fn item(&mut self, record: &Record<'_>, new: NewItem) -> Result<()> {
        if !record.is_new {
            return Ok(());
        }
        let turn = self.turn_key()?;
        let is_ended = new.status.is_ended();
        let item = ImportedItem {
            id: new.id,
            turn,
            kind: new.kind,
            status: new.status,
            summary: new.summary,
            text: new.text,
            data: new.data,
            metadata: new.metadata,
            created_at: record.at,
            started_at: Some(record.at),
            ended_at: is_ended.then_some(record.at),
            position: None,
        };
        let tx = self.tx;
        self.conversation()?.item(tx, item)
    }

    /// Ends the item of a tool's call with its result. A result whose call is not there, or has one, becomes an item of its own.
    pub(super) fn result(
        &mut self,
        record: &Record<'_>,
        number: usize,
        call: &str,
        output: &str,
        failed: bool,
        more: Option<Json>,
    ) -> Result<()> {
        self.answered(call);
        if let Some(turn) = &mut self.state.turn {
            turn.is_answered &= !turn.is_of(record);
            turn.at = turn.at.max(record.at);
        }
        if !record.is_new {
            return Ok(());
        }
        let status = if failed { ThreadItemStatus::Failed } else { ThreadItemStatus::Completed };
        let mut id = self.id(&["call", call])?;
        let tx = self.tx;
        let conversation = self.conversation()?;
        match conversation.contents(tx, &id)? {
            Some((key, known, data, metadata)) if !matches!(known, ThreadItemStatus::Completed | ThreadItemStatus::Failed) => {
                let data = with_member(data.as_ref(), "output", output)?;
                let metadata = match &more {
                    Some(more) => Some(with_member(metadata.as_ref(), "result", more.as_str())?),
                    None => metadata,
                };
                conversation.end_item(tx, key, status, record.at, &data, metadata.as_ref())
            }
            known => {
                if known.is_some() {
                    id = self.id(&["call", call, &hex(&record.mark), &number.to_string()])?;
                }
                self.turn(record)?;
                let data = Some(with_member(None, "output", output)?);
                let metadata = more.map(|more| with_member(None, "result", more.as_str())).transpose()?;
                let summary = String::new();
                let kind = ItemKind::ToolCall;
                self.item(record, NewItem { id, kind, status, summary, text: String::new(), data, metadata })
            }
        }
    }

    /// Keeps a record as a thread event, under the type that it has with a prefix.
    pub(super) fn event(&mut self, record: &Record<'_>, prefix: &str, kind: &str) -> Result<()> {
        if !record.is_new {
            return Ok(());
        }
        let event_type = prefixed(prefix, kind)?;
        let data = Json::parse(record.text)?;
        let turn = self.state.turn.as_ref().map(|turn| turn.id.clone());
        let (tx, at) = (self.tx, record.at);
        self.conversation()?.event(tx, event_type, turn, None, data, at)
    }

    pub(super) fn count_unknown(&mut self, kind: &str) {
        self.unknown = Some(gist(kind));
    }

    /// The title that a prompt gives, where the thread has none.
    pub(super) fn title_of_prompt(&mut self, record: &Record<'_>, prompt: &str) -> Result<()> {
        let title = gist(prompt);
        if self.state.title.is_none() && !title.is_empty() {
            if record.is_new {
                let tx = self.tx;
                self.conversation()?.entitle(tx, &title, None)?;
            }
            self.state.title = Some(title);
        }
        Ok(())
    }
}

pub(super) struct NewItem {
    pub(super) id: Name,
    pub(super) kind: ItemKind,
    pub(super) status: ThreadItemStatus,
    pub(super) summary: String,
    pub(super) text: String,
    pub(super) data: Option<Json>,
    pub(super) metadata: Option<Json>,
}

/// A document with one member more, which it does not have yet.
pub(super) fn with_member(document: Option<&Json>, name: &str, value: &str) -> Result<Json> {
    let before = document.map_or("{}", Json::as_str).trim_end();
    let before = before.strip_suffix('}').unwrap_or("{");
    let comma = if before.trim_end().ends_with('{') { "" } else { "," };
    Json::parse(format!("{before}{comma}{}:{value}}}", super::record::quoted(name)))
}

/// A name of ours for something that has one of any length there.
pub(super) fn prefixed(prefix: &str, text: &str) -> Result<Name> {
    format!("{prefix}:{text}").parse().or_else(|_| format!("{prefix}:{}", hex(&mark(&[text]))).parse())
}

/// The model that was told. One that is no name counts as none, and what is wrong with it comes along.
pub(super) fn model(path: &str, told: Option<&str>) -> (Option<Name>, Option<String>) {
    match told.map(|told| name(path, told)).transpose() {
        Ok(model) => (model, None),
        Err(error) => (None, Some(format!("{}; its usage is counted under {UNKNOWN_MODEL:?}", error.message()))),
    }
}

/// The model of usage that tells of none.
pub(super) fn model_or_unknown(model: Option<Name>) -> Result<Name> {
    model.map_or_else(|| UNKNOWN_MODEL.parse(), Ok)
}

pub(super) fn not_counted(error: &Error) -> String {
    format!("its usage was not counted: {}", error.message())
}

/// 16 bytes that stand for these texts.
pub(super) fn mark(parts: &[&str]) -> Mark {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    let digest: [u8; 32] = digest.finalize().into();
    let mut mark = [0; 16];
    mark.copy_from_slice(&digest[..16]);
    mark
}

pub(super) fn hex(mark: &Mark) -> String {
    mark.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is wrong with a line, in words.
pub(super) fn why_unreadable(text: &str, error: &serde_json::Error) -> String {
    let start = text.trim_start();
    match start.bytes().next() {
        Some(b'{') if error.is_eof() => "cut off: the line ends inside an object".to_owned(),
        Some(b'[') if serde_json::from_str::<&serde_json::value::RawValue>(start).is_ok() => {
            "not an object but an array".to_owned()
        }
        Some(b'"' | b'0'..=b'9' | b'-' | b't' | b'f' | b'n')
            if serde_json::from_str::<&serde_json::value::RawValue>(start).is_ok() =>
        {
            "not an object".to_owned()
        }
        _ => {
            let said = error.to_string();
            let said = said.rsplit_once(" at line ").map_or(said.as_str(), |(before, _)| before);
            format!("not valid JSON: {said}")
        }
    }
}
