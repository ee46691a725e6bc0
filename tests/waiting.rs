//! Claims that wait.
#![allow(clippy::disallowed_methods, reason = "these waits are in real time")]

use std::time::{Duration, Instant};

use runkeep::Store;
use runkeep::queue::{ClaimItems, EnqueueItem};

fn request(wait_ms: i64) -> ClaimItems {
    ClaimItems {
        worker_id: "w".parse().unwrap(),
        queues: vec!["q".parse().unwrap()],
        wait_ms: Some(wait_ms),
        ..Default::default()
    }
}

#[test]
fn a_claim_waits_for_an_item_and_gets_it() {
    let store = Store::in_memory().unwrap();
    let claimed = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| store.queue().claim_waiting(request(60_000)).unwrap());
        let item = EnqueueItem { queue: "q".parse().unwrap(), ..Default::default() };
        store.queue().enqueue(item).unwrap();
        waiting.join().unwrap()
    });
    assert_eq!(claimed.len(), 1);
}

#[test]
fn a_claim_notices_what_becomes_due_while_it_waits() {
    let store = Store::in_memory().unwrap();
    let item = EnqueueItem { queue: "q".parse().unwrap(), delay_ms: Some(100), ..Default::default() };
    store.queue().enqueue(item).unwrap();
    assert_eq!(store.queue().claim_waiting(request(60_000)).unwrap().len(), 1);
}

#[test]
fn a_claim_that_waited_in_vain_answers_nothing() {
    let store = Store::in_memory().unwrap();
    let begin = Instant::now();
    assert!(store.queue().claim_waiting(request(120)).unwrap().is_empty());
    assert!(begin.elapsed() >= Duration::from_millis(120));
    assert!(store.queue().claim_waiting(request(0)).unwrap().is_empty());
}
