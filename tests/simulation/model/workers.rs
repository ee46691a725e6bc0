//! The registry of workers.

use super::*;

#[derive(Debug, Clone)]
pub struct Worker {
    pub pool: String,
    pub queues: BTreeSet<String>,
    pub capabilities: BTreeSet<String>,
    pub ttl_ms: i64,
    pub registered_at: i64,
    pub last_heartbeat_at: i64,
    pub expires_at: i64,
    pub graced: bool,
    pub load: Option<f64>,
    /// The order of registration.
    pub number: u64,
}

pub type WorkerKey = (String, String);

impl Model {
    pub fn live(&self, store: usize, worker: &WorkerKey) -> Option<&Worker> {
        self.workers.get(worker).filter(|known| known.expires_at > self.waking(store))
    }

    pub fn remember(&mut self, worker: &WorkerKey, change: &'static str) {
        let now = self.now;
        self.history.entry(worker.clone()).or_default().push((change, now));
    }

    pub fn register(&mut self, store: usize, arguments: &Value, answer: &Answer) -> Verdict {
        let key = (namespace(arguments), text(&arguments["workerId"]).unwrap_or_default());
        let pool = text(&arguments["pool"]).unwrap_or_default();
        let now = self.now;
        let ttl_ms = arguments["livenessTtlMs"].as_i64().unwrap_or_default();
        let (queues, capabilities) = (names(&arguments["queues"]), names(&arguments["capabilities"]));
        let outcome = match self.live(store, &key).cloned() {
            Some(live) if live.pool != pool => {
                self.saw("a worker id is reassigned");
                return refused(answer, "conflict");
            }
            Some(live) => {
                let refreshed = Worker {
                    queues,
                    capabilities,
                    ttl_ms,
                    last_heartbeat_at: now,
                    expires_at: now + ttl_ms,
                    graced: false,
                    ..live
                };
                self.workers.insert(key.clone(), refreshed);
                "refreshed"
            }
            None => {
                if self.workers.remove(&key).is_some() {
                    self.remember(&key, "ttl_swept");
                }
                self.registered += 1;
                let registered = Worker {
                    pool,
                    queues,
                    capabilities,
                    ttl_ms,
                    registered_at: now,
                    last_heartbeat_at: now,
                    expires_at: now + ttl_ms,
                    graced: false,
                    load: None,
                    number: self.registered,
                };
                self.workers.insert(key.clone(), registered);
                "registered"
            }
        };
        self.remember(&key, outcome);
        expect_equal("the answer", answered(answer)?, &json!({ "outcome": outcome, "nextExpiryAt": now + ttl_ms }))
    }

    pub fn heartbeat(&mut self, store: usize, arguments: &Value, answer: &Answer) -> Verdict {
        let key = (namespace(arguments), text(&arguments["workerId"]).unwrap_or_default());
        let Some(live) = self.live(store, &key).cloned() else {
            return expect_equal("the answer", answered(answer)?, &json!({ "outcome": "not_registered" }));
        };
        let expires_at = self.now + live.ttl_ms;
        let load = arguments["load"].as_f64().or(live.load);
        let refreshed = Worker { last_heartbeat_at: self.now, expires_at, graced: false, load, ..live };
        self.workers.insert(key, refreshed);
        expect_equal("the answer", answered(answer)?, &json!({ "outcome": "refreshed", "nextExpiryAt": expires_at }))
    }

    pub fn mark_dead(&mut self, store: usize, arguments: &Value, answer: &Answer) -> Verdict {
        let key = (namespace(arguments), text(&arguments["workerId"]).unwrap_or_default());
        if self.live(store, &key).is_none() {
            return expect_equal("the answer", answered(answer)?, &json!({ "outcome": "not_registered", "leasesEnded": 0 }));
        }
        self.workers.remove(&key);
        self.remember(&key, "marked_dead");
        let mut ended = 0;
        if arguments["releaseLeases"].as_bool().unwrap_or(true) {
            let is_held = |item: &Item| {
                item.status == Status::Claimed && item.worker.as_ref() == Some(&key.1) && item.namespace.as_ref() == Some(&key.0)
            };
            let held: Vec<usize> = self.open.iter().copied().filter(|&index| is_held(&self.items[index])).collect();
            for index in held {
                self.saw("the lease of a dead worker ends");
                self.expire(index, "worker_dead");
                ended += 1;
            }
        }
        expect_equal("the answer", answered(answer)?, &json!({ "outcome": "marked", "leasesEnded": ended }))
    }

    /// The live workers in the order of registration.
    pub fn workers_json(&self, store: usize) -> Vec<Value> {
        let mut live: Vec<(&WorkerKey, &Worker)> =
            self.workers.iter().filter(|(_, worker)| worker.expires_at > self.waking(store)).collect();
        live.sort_by_key(|(_, worker)| worker.number);
        live.into_iter()
            .map(|((namespace, id), worker)| {
                object([
                    ("workerId", Some(json!(id))),
                    ("namespace", Some(json!(namespace))),
                    ("pool", Some(json!(worker.pool))),
                    ("queues", Some(json!(worker.queues))),
                    ("capabilities", Some(json!(worker.capabilities))),
                    ("livenessTtlMs", Some(json!(worker.ttl_ms))),
                    ("registeredAt", Some(json!(worker.registered_at))),
                    ("lastHeartbeatAt", Some(json!(worker.last_heartbeat_at))),
                    ("expiresAt", Some(json!(worker.expires_at))),
                    ("load", worker.load.map(Value::from)),
                ])
            })
            .collect()
    }
}
