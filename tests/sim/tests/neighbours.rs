//! Endpoints that hang take nothing from those that answer: neither their slots, nor their host's tokens, nor their turn; also
//! where they are so many, and hang so suddenly, that they could have all slots there are. In virtual time, so that what is
//! compared is what the dispatcher does, and not the machine it runs on.

mod web;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidings::proto::delivery::Rate;
use tidings::store::MemoryStore;
use tidings::{Call, Durability, Hub, simulation};
use tokio::time::{Instant, sleep};
use web::{STEP, Web, begin, options, runtime, world};

/// Of those that answer; and of those that hang, where they are not a crowd.
const ENDPOINTS: usize = 10;
/// More than there are slots, before the second attempt of any.
const CROWD: usize = 100;
/// For each that answers: more than the bursts of an endpoint and of a host, so that rates count too.
const DELIVERIES: usize = 125;
/// For each that hangs.
const HELD_UP: usize = 20;

fn fire(calls: &[Call]) {
    for call in calls {
        call.fire(STEP, b"{}").expect("numbered");
    }
}

async fn until_delivered(hub: &Hub, count: usize) {
    while hub.stats().delivered < count as u64 {
        sleep(Duration::from_millis(1)).await;
    }
}

/// How the neighbours hang.
#[derive(Clone, Copy, Debug)]
enum Neighbours {
    None,
    /// Never took anything.
    Strangers,
    /// Took something before.
    Lapsed,
    /// The same, of so many that their attempts could fill all slots several times.
    Crowd,
}

impl Neighbours {
    fn count(self) -> usize {
        if matches!(self, Self::Crowd) { CROWD } else { ENDPOINTS }
    }
}

/// How long it takes until the endpoints that answer have everything. Those that hang are at the same host and at another.
fn time(neighbours: Neighbours, deliveries: usize) -> Duration {
    runtime().block_on(async {
        let web = Arc::new(Web::default());
        let mut options = options();
        // Half of the defaults, for a run that is half as long.
        (options.concurrency, options.endpoint_concurrency) = (64, 4);
        options.endpoint_rate = Some(Rate { per_second: 50, burst: 100 });
        options.host_rate = Some(Rate { per_second: 250, burst: 500 });
        let (hub, threads) = simulation::over(Arc::new(MemoryStore::new()), options, world(&web)).expect("a hub");
        let (mut good, mut hanging) = (Vec::new(), Vec::new());
        for n in 0..ENDPOINTS {
            good.push(begin(&hub, &format!("http://one.example/good/{n}")).await);
        }
        for n in 0..neighbours.count() {
            let host = ["one.example", "two.example"][n % 2];
            hanging.push(begin(&hub, &format!("http://{host}/hangs/{n}")).await);
        }
        fire(&good);
        let mut known = good.len();
        if matches!(neighbours, Neighbours::Lapsed | Neighbours::Crowd) {
            fire(&hanging);
            known += hanging.len();
        }
        until_delivered(&hub, known).await;
        sleep(Duration::from_secs(10)).await; // every bucket is full again
        web.hanging.store(true, Ordering::SeqCst);

        hub.pause().expect("open");
        for n in 0..deliveries {
            if n < HELD_UP && !matches!(neighbours, Neighbours::None) {
                fire(&hanging);
            }
            fire(&good);
        }
        for call in good.iter().chain(&hanging) {
            call.writer().flush(Durability::Process).await.expect("committed");
        }
        let begun = Instant::now();
        hub.unpause().expect("open");
        until_delivered(&hub, known + good.len() * deliveries).await;
        let took = begun.elapsed();
        threads.kill().await;
        took
    })
}

fn assert_they_keep_their_rate(neighbours: &[Neighbours], deliveries: usize) {
    let alone = time(Neighbours::None, deliveries);
    for neighbours in neighbours {
        let beside = time(*neighbours, deliveries);
        let share = alone.as_secs_f64() / beside.as_secs_f64();
        assert!(share >= 0.9, "{neighbours:?}: {beside:?} against {alone:?}, {:.0} %", share * 100.0);
    }
}

#[test]
fn ten_that_answer_keep_their_rate_beside_ten_that_hang() {
    assert_they_keep_their_rate(&[Neighbours::Strangers, Neighbours::Lapsed], DELIVERIES);
}

/// An attempt takes as long as all deliveries of those that answer: were they to wait for one, they would have half of their rate.
#[test]
fn ten_that_answer_keep_their_rate_beside_a_crowd_that_hangs_at_once() {
    assert_they_keep_their_rate(&[Neighbours::Crowd], 2 * DELIVERIES);
}
