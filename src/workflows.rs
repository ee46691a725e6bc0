//! Workflow definitions: documents under an id and a version.

use rusqlite::Row;

use crate::error::{Error, Result};
use crate::executions::Created;
use crate::ids::Name;
use crate::json::{Json, digest};
use crate::operation::Topic;
use crate::page::{self, Order, Page, PageBuilder};
use crate::store::{Columns, Tx};
use crate::tenants;

records! {
    pub struct Workflow {
        pub id: String,
        pub version: String,
        pub definition: Json,
        /// Unix milliseconds.
        pub created_at: i64,
        /// Unix milliseconds.
        pub updated_at: i64,
    }
}

arguments! {
    /// A definition. The same content again changes nothing; other content under the same id and version is `conflict`.
    pub struct PutWorkflow {
        pub id: Name,
        pub version: Name,
        /// Any JSON.
        pub definition: Json,
        /// Puts other content in the place of what there is.
        pub replace: Option<bool>,
    }

    pub struct GetWorkflow {
        pub id: Name,
        /// The one that was put first last, unless given.
        pub version: Option<Name>,
    }

    /// Which definitions to list; without members, all of them.
    pub struct ListWorkflows {
        pub id: Option<Name>,
        /// 1 to 1000; 100 unless given.
        pub limit: Option<i64>,
        pub order: Option<Order>,
        pub cursor: Option<String>,
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT key, id, version, definition, created_at, updated_at FROM workflows ", $rest)
    };
}

fn read(row: &Row<'_>) -> Result<Workflow> {
    let columns = Columns::with_id(row, "workflows", 1);
    Ok(Workflow {
        id: columns.get(1)?,
        version: columns.get(2)?,
        definition: columns.get(3)?,
        created_at: columns.get(4)?,
        updated_at: columns.get(5)?,
    })
}

fn find(tx: &Tx<'_>, id: &Name, version: &Name) -> Result<Option<Workflow>> {
    tx.row(select!("WHERE tenant = ?1 AND id = ?2 AND version = ?3"), (tx.tenant, id, version), read)
}

pub(crate) fn put(tx: &Tx<'_>, arguments: PutWorkflow) -> Result<Created<Workflow>> {
    tx.document("definition", Some(&arguments.definition))?;
    let (id, version) = (&arguments.id, &arguments.version);
    let content = digest(&arguments.definition)?;
    let known = tx.row(
        "SELECT key, digest FROM workflows WHERE tenant = ?1 AND id = ?2 AND version = ?3",
        (tx.tenant, id, version),
        |row| Ok((row.get::<_, i64>(0)?, row.get::<_, [u8; 32]>(1)?)),
    )?;
    let created = known.is_none();
    tx.touch(Topic::Workflows, id);
    match known {
        Some((_, known)) if known == content => {}
        Some((key, _)) if arguments.replace == Some(true) => tx.execute_one(
            "UPDATE workflows SET definition = ?2, digest = ?3, updated_at = ?4 WHERE key = ?1",
            (key, &arguments.definition, content, tx.now),
        )?,
        Some(_) => {
            return Err(Error::conflict(format!(
                "version {:?} of the workflow {:?} has another definition already; put another version, or pass replace: true",
                version.as_str(),
                id.as_str()
            ))
            .with("id", id.as_str())
            .with("version", version.as_str()));
        }
        None => {
            tenants::admit_workflow(tx, id)?;
            let key = tx.next_key("SELECT key FROM workflows WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT 1")?;
            tx.execute_one(
                "INSERT INTO workflows (key, tenant, id, version, definition, digest, created_at, updated_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)",
                (key, tx.tenant, id, version, &arguments.definition, content, tx.now),
            )?;
        }
    }
    let record = find(tx, id, version)?.ok_or_else(|| Error::not_found("workflow", id))?;
    Ok(Created { record, created })
}

pub(crate) fn get(tx: &Tx<'_>, arguments: GetWorkflow) -> Result<Option<Workflow>> {
    match &arguments.version {
        Some(version) => find(tx, &arguments.id, version),
        None => {
            // The versions of one workflow are few: they are looked at in the order of their key.
            let newest =
                tx.row("SELECT max(key) FROM workflows WHERE tenant = ?1 AND id = ?2", (tx.tenant, &arguments.id), |row| {
                    Ok(row.get::<_, Option<i64>>(0)?)
                })?;
            newest.flatten().map_or(Ok(None), |key| tx.row(select!("WHERE key = ?1"), [key], read))
        }
    }
}

pub(crate) fn list(tx: &Tx<'_>, filter: ListWorkflows) -> Result<Page<Workflow>> {
    let limit = page::limit(filter.limit)?;
    let mut page = if filter.id.is_some() { PageBuilder::filtered(limit) } else { PageBuilder::unfiltered(limit) };
    let order = filter.order.unwrap_or_default();
    let (from, to) = page::range(tx, filter.cursor.as_deref(), order)?;
    let sql = match order {
        Order::Asc => select!("WHERE key BETWEEN ?1 AND ?2 ORDER BY key LIMIT ?3"),
        Order::Desc => select!("WHERE key BETWEEN ?1 AND ?2 ORDER BY key DESC LIMIT ?3"),
    };
    tx.walk(sql, (from, to, page.scanned()), |row| {
        let number = tx.number_of(row.get(0)?);
        if filter.id.is_some() && row.get::<_, String>(1)? != filter.id.as_deref().unwrap_or_default() {
            page.skip(number);
            return Ok(true);
        }
        page.visit(number, read(row), |workflow| workflow.definition.as_str().len() + 200)
    })?;
    Ok(page.finish())
}
