//! Forks: a thread that goes on from a point of another.

use super::{Beginning, ForkedFrom, Head, Thread, items, turns};
use crate::error::{Error, Result};
use crate::executions::Created;
use crate::ids::Name;
use crate::json::digest;
use crate::store::{Columns, Tx};

arguments! {
    /// A thread that goes on from a point of another one: from the end of an item or a turn, or of the whole thread as it is.
    pub struct ForkThread {
        pub id: Name,
        /// The last item that belongs to the fork, with those before it.
        pub at_item: Option<Name>,
        /// The last turn that belongs to the fork, with those before it.
        pub at_turn: Option<Name>,
        /// The id of the new thread; made by the store unless given. The same call again then answers the thread that exists.
        pub new_id: Option<Name>,
    }
}

/// Copies a thread up to a point, with new ids for all that is in it. What was open in it is `interrupted` in the copy: nobody works on it.
/// Usage, prompts of the inbox and thread events are not copied.
pub(crate) fn fork(tx: &Tx<'_>, arguments: ForkThread) -> Result<Created<Thread>> {
    if arguments.at_item.is_some() && arguments.at_turn.is_some() {
        return Err(Error::invalid("atTurn is given beside atItem; give one of them").with("path", "atTurn"));
    }
    let digest = arguments.new_id.is_some().then(|| digest(&arguments)).transpose()?;
    if let Some(record) = super::repeated(tx, arguments.new_id.as_ref(), digest)? {
        return Ok(Created { record, created: false });
    }
    let from = Head::get(tx, &arguments.id)?;
    let until = Until::find(tx, &from, &arguments)?;
    let thread = super::by_key(tx, from.key)?;
    let mut to = super::begin(
        tx,
        Beginning {
            id: arguments.new_id,
            title: thread.title,
            model: thread.model,
            mode: thread.mode,
            workspace: thread.workspace,
            system_prompt: thread.system_prompt,
            task_id: thread.task_id,
            task_type: thread.task_type,
            archived: false,
            metadata: Some(thread.metadata),
            forked_from: Some(ForkedFrom {
                thread_id: thread.id,
                item_id: arguments.at_item.map(|id| id.to_string()),
                turn_id: arguments.at_turn.map(|id| id.to_string()),
            }),
            digest,
        },
    )?;
    let turns = turns::copy(tx, &from, &to, until.turn)?;
    items::copy(tx, &from, &mut to, until.position, &turns)?;
    Ok(Created { record: super::by_key(tx, to.key)?, created: true })
}

/// How far a fork goes.
struct Until {
    /// The position of the last item.
    position: i64,
    /// The key of the last turn.
    turn: i64,
}

impl Until {
    fn find(tx: &Tx<'_>, from: &Head, arguments: &ForkThread) -> Result<Self> {
        match (&arguments.at_item, &arguments.at_turn) {
            (Some(id), _) => Self::item(tx, from, id),
            (None, Some(id)) => Self::turn(tx, from, id),
            (None, None) => Ok(Self { position: from.last_position, turn: i64::MAX }),
        }
    }

    /// The end of an item, and the newest turn that there was by then.
    fn item(tx: &Tx<'_>, from: &Head, id: &Name) -> Result<Self> {
        let found =
            tx.row("SELECT thread, position FROM thread_items WHERE tenant = ?1 AND id = ?2", (tx.tenant, id), |row| {
                let columns = Columns::new(row, "thread_items", id.as_str());
                Ok((columns.get::<i64>(0)?, columns.get::<i64>(1)?))
            })?;
        let (thread, position) = found.ok_or_else(|| Error::not_found("item", id))?;
        must_be_of(from, thread, "atItem", id)?;
        let turn = tx.row(
            "SELECT coalesce(max(turn), 0) FROM thread_items WHERE thread = ?1 AND position <= ?2",
            (from.key, position),
            |row| Ok(row.get(0)?),
        )?;
        Ok(Self { position, turn: turn.unwrap_or(0) })
    }

    /// The last item of a turn or of one before it.
    fn turn(tx: &Tx<'_>, from: &Head, id: &Name) -> Result<Self> {
        let turn = turns::Head::get(tx, id)?;
        must_be_of(from, turn.thread, "atTurn", id)?;
        let position = tx.row(
            "SELECT position FROM thread_items WHERE thread = ?1 AND turn <= ?2 ORDER BY position DESC LIMIT 1",
            (from.key, turn.key),
            |row| Ok(row.get(0)?),
        )?;
        Ok(Self { position: position.unwrap_or(0), turn: turn.key })
    }
}

fn must_be_of(from: &Head, thread: i64, path: &str, id: &Name) -> Result<()> {
    if thread == from.key {
        return Ok(());
    }
    Err(Error::invalid(format!("{path} {:?} is of another thread than {:?}", id.as_str(), from.id.as_str())).with("path", path))
}
