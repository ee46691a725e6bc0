//! What holds a queue back.

use super::*;

#[derive(Debug, Clone, PartialEq)]
pub struct Rate {
    pub limit: i64,
    pub per_ms: i64,
}

impl Rate {
    pub fn of(value: &Value) -> Option<Self> {
        Some(Self { limit: value["limit"].as_i64()?, per_ms: value["perMs"].as_i64()? })
    }

    pub fn json(&self) -> Value {
        json!({ "limit": self.limit, "perMs": self.per_ms })
    }
}

/// What is in a bucket, in parts of which `perMs` make a token.
#[derive(Debug, Clone, Copy)]
pub struct Level {
    pub parts: i64,
    pub at: i64,
}

impl Level {
    pub fn now(self, rate: &Rate, now: i64) -> i64 {
        (self.parts + (now - self.at).max(0) * rate.limit).min(rate.limit * rate.per_ms)
    }
}

/// A token bucket. After the clock went back it is not said how fast a bucket fills, so there is a least and a most that it may hold;
/// while time goes forwards the two are the same. Full where there is none.
#[derive(Debug, Clone, Default)]
pub struct Bucket(Option<(Level, Level)>);

impl Bucket {
    pub fn least_and_most(&self, rate: &Rate, now: i64) -> (i64, i64) {
        let full = rate.limit * rate.per_ms;
        self.0.map_or((full, full), |(least, most)| (least.now(rate, now), most.now(rate, now)))
    }

    pub fn verdict(&self, rate: &Rate, now: i64) -> May {
        let (least, most) = self.least_and_most(rate, now);
        match () {
            () if most < rate.per_ms => May::Not,
            () if least >= rate.per_ms => May::Must,
            () => May::Either,
        }
    }

    pub fn spend(&mut self, rate: &Rate, now: i64) {
        let (least, most) = self.least_and_most(rate, now);
        let at = self.0.map_or(now, |(least, _)| least.at.max(now));
        let less = |parts: i64| (parts - rate.per_ms).max(0);
        self.0 = Some((Level { parts: less(least), at }, Level { parts: less(most), at: now }));
    }

    pub fn clock_went_back(&mut self, rate: &Rate, from: i64, to: i64) {
        if let Some((_, most)) = &mut self.0 {
            *most = Level { parts: most.now(rate, from), at: to };
        }
    }

    /// From here on the present counts, also where the clock went back.
    pub fn look(&mut self, now: i64) {
        if let Some((least, _)) = &mut self.0 {
            least.at = least.at.min(now);
        }
    }
}

/// Whether an item that stands in line may be handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum May {
    Not,
    Either,
    Must,
}

#[derive(Debug, Clone, Default)]
pub struct Hold {
    pub until: i64,
    /// Whether its end has passed: a clock that goes back need not bring it back.
    pub passed: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Key {
    pub hold: Option<Hold>,
    pub bucket: Bucket,
}

impl Key {
    pub fn held(&self, now: i64) -> May {
        match &self.hold {
            Some(hold) if now < hold.until && hold.passed => May::Either,
            Some(hold) if now < hold.until => May::Not,
            _ => May::Must,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct Queue {
    pub name: String,
    pub paused: bool,
    pub held_until: Option<i64>,
    pub concurrency: Option<i64>,
    pub key_concurrency: Option<i64>,
    pub rate: Option<Rate>,
    pub key_rate: Option<Rate>,
    pub max_attempts: Option<i64>,
    pub backoff: Option<Value>,
    pub bucket: Bucket,
    pub keys: BTreeMap<String, Key>,
}

impl Queue {
    pub fn json(&self) -> Value {
        object([
            ("name", Some(json!(self.name))),
            ("paused", Some(json!(self.paused))),
            ("heldUntil", self.held_until.map(Value::from)),
            ("concurrency", self.concurrency.map(Value::from)),
            ("keyConcurrency", self.key_concurrency.map(Value::from)),
            ("rateLimit", self.rate.as_ref().map(Rate::json)),
            ("keyRateLimit", self.key_rate.as_ref().map(Rate::json)),
            ("maxAttempts", self.max_attempts.map(Value::from)),
            ("backoff", self.backoff.clone()),
        ])
    }

    /// How many more items of a key may run, where no clock has a say in it.
    pub fn timeless_room_of_key(&self, key: &str, claimed: i64) -> Option<i64> {
        let is_timeless = self.key_rate.is_none() && self.keys.get(key).is_none_or(|key| key.hold.is_none());
        is_timeless.then(|| self.key_concurrency.map_or(i64::MAX, |limit| (limit - claimed).max(0)))
    }
}

impl Model {
    pub fn claimed_of(&self, queue: usize, key: Option<&String>) -> i64 {
        let counts = |item: &Item| {
            item.status == Status::Claimed
                && item.queue == queue
                && key.is_none_or(|key| item.concurrency_key.as_ref() == Some(key))
        };
        self.open.iter().filter(|&&index| counts(&self.items[index])).count() as i64
    }

    /// Whether the limits let an item go now.
    pub fn verdict(&self, index: usize) -> (May, &'static str) {
        let item = &self.items[index];
        let queue = &self.queues[item.queue];
        if queue.paused {
            return (May::Not, "its queue is paused");
        }
        if queue.held_until.is_some_and(|until| until > self.now) {
            return (May::Not, "its queue is held");
        }
        if queue.concurrency.is_some_and(|limit| self.claimed_of(item.queue, None) >= limit) {
            return (May::Not, "its queue runs as many as it may");
        }
        let mut may = May::Must;
        if let Some(rate) = &queue.rate {
            may = may.min(queue.bucket.verdict(rate, self.now));
        }
        if may == May::Not {
            return (May::Not, "the bucket of its queue is empty");
        }
        let Some(key) = &item.concurrency_key else { return (may, "") };
        if queue.key_concurrency.is_some_and(|limit| self.claimed_of(item.queue, Some(key)) >= limit) {
            return (May::Not, "its key runs as many as it may");
        }
        let Some(state) = queue.keys.get(key) else { return (may, "") };
        may = may.min(state.held(self.now));
        if may == May::Not {
            return (May::Not, "its key is held");
        }
        if let Some(rate) = &queue.key_rate {
            may = may.min(state.bucket.verdict(rate, self.now));
        }
        (may, "the bucket of its key is empty")
    }

    pub fn configure(&mut self, arguments: &Value, answer: &Answer) -> Verdict {
        let index = self.ensure_queue(&arguments["name"]);
        let queue = &mut self.queues[index];
        let number = |field: &str, before: Option<i64>| arguments.get(field).map_or(before, Value::as_i64);
        queue.concurrency = number("concurrency", queue.concurrency);
        queue.key_concurrency = number("keyConcurrency", queue.key_concurrency);
        queue.max_attempts = number("maxAttempts", queue.max_attempts);
        if let Some(backoff) = arguments.get("backoff") {
            queue.backoff = Some(backoff.clone()).filter(|backoff| !backoff.is_null());
        }
        if let Some(rate) = arguments.get("rateLimit").map(Rate::of) {
            if rate != queue.rate {
                queue.bucket = Bucket::default();
            }
            queue.rate = rate;
        }
        if let Some(rate) = arguments.get("keyRateLimit").map(Rate::of) {
            if rate != queue.key_rate {
                queue.keys.values_mut().for_each(|key| key.bucket = Bucket::default());
            }
            queue.key_rate = rate;
        }
        self.compare_queue(index, answer)
    }

    pub fn compare_queue(&self, index: usize, answer: &Answer) -> Verdict {
        expect_equal("the queue", answered(answer)?, &self.queues[index].json())
    }

    pub fn set_paused(&mut self, arguments: &Value, paused: bool, answer: &Answer) -> Verdict {
        let index = self.ensure_queue(&arguments["name"]);
        self.queues[index].paused = paused;
        self.compare_queue(index, answer)
    }

    pub fn hold(&mut self, arguments: &Value, answer: &Answer) -> Verdict {
        let until = arguments["until"].as_i64();
        if until.is_some_and(|until| until <= self.now) {
            return refused(answer, "invalid_argument");
        }
        let index = self.ensure_queue(&arguments["name"]);
        match text(&arguments["key"]) {
            None => self.queues[index].held_until = until,
            Some(key) => {
                self.queues[index].keys.entry(key).or_default().hold = until.map(|until| Hold { until, passed: false });
            }
        }
        self.compare_queue(index, answer)
    }
}
