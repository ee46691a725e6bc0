//! What calls changed, for those who want to hear of it after the commit.

use std::collections::{BTreeMap, BTreeSet};

use crate::operation::Topic;

/// Per topic the ids of what changed; none where it may be anything.
pub type Topics = BTreeMap<Topic, Option<BTreeSet<String>>>;

/// What changed for one tenant.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub tenant: String,
    /// Of executions, events and timers, the ids of executions; of items and queues, the names of queues; of what belongs to threads,
    /// the ids of threads; else the thing's own id or name. None where it may be anything.
    pub topics: Topics,
}

written! { Change { tenant, topics, } }

/// More ids than this say no more than "anything".
const MOST_IDS: usize = 100;

/// What was changed so far, by some key for the tenants.
#[derive(Debug)]
pub(crate) struct Touched<T>(pub(crate) BTreeMap<T, Topics>);

impl<T> Default for Touched<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Ord> Touched<T> {
    /// Adds one thing, or with none anything.
    pub(crate) fn add(&mut self, tenant: T, topic: Topic, id: Option<&str>) {
        let ids = self.0.entry(tenant).or_default().entry(topic).or_insert_with(|| Some(BTreeSet::new()));
        match (&mut *ids, id) {
            (Some(known), Some(id)) if known.len() < MOST_IDS || known.contains(id) => {
                if !known.contains(id) {
                    known.insert(id.to_owned());
                }
            }
            _ => *ids = None,
        }
    }

    /// Adds topics of which nothing else is said.
    pub(crate) fn complete(&mut self, tenant: T, topics: &[Topic]) {
        if topics.is_empty() {
            return;
        }
        let said = self.0.entry(tenant).or_default();
        for topic in topics {
            said.entry(*topic).or_insert(None);
        }
    }

    pub(crate) fn merge(&mut self, tenant: T, topics: Topics) {
        let known = self.0.entry(tenant).or_default();
        for (topic, ids) in topics {
            let all = known.entry(topic).or_insert_with(|| Some(BTreeSet::new()));
            match (&mut *all, ids) {
                (Some(all), Some(ids)) => all.extend(ids),
                _ => *all = None,
            }
            if all.as_ref().is_some_and(|all| all.len() > MOST_IDS) {
                *all = None;
            }
        }
    }
}
