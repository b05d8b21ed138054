//! Many listeners, most of which are stuck (fault 9), and threads that race on joining, publishing, taking and leaving.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tidings::proto::fanout::Profile;
use tidings::proto::fanout::mcp::MCP;
use tidings::{Hub, ListenerId, Options, Outbox, Parcel, Publish, SinkId, SinkOptions};

use crate::support::{FaultStore, HANG, TestClock, memory, over_with, wait};

const SERVER: &str = r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true}}"#;
const TOOLS: Publish<'_> = Publish { kinds: &["tools"], name: None, audience: None };
const PROMPTS: Publish<'_> = Publish { kinds: &["prompts"], name: None, audience: None };

fn profile() -> Profile {
    Profile::new(&MCP, "2025-11-25", SERVER, "{}").expect("a profile")
}

fn join(outbox: &Outbox, profile: &Profile) -> (SinkId, ListenerId) {
    let sink = outbox.add_sink(SinkOptions::default()).expect("a sink");
    let listener = outbox.attend(sink, profile).expect("a listener");
    outbox.open(listener);
    (sink, listener)
}

/// How many frames each sink was handed, of all that is ready.
fn take(outbox: &Outbox) -> HashMap<SinkId, u32> {
    let mut frames = HashMap::new();
    loop {
        let parcels = outbox.take(usize::MAX);
        if parcels.is_empty() {
            return frames;
        }
        for parcel in parcels {
            if let Parcel::Frame { sink, .. } = parcel {
                *frames.entry(sink).or_default() += 1;
            }
        }
    }
}

fn resource(name: &str) -> Publish<'_> {
    Publish { kinds: &["resource"], name: Some(name), audience: None }
}

/// Fault 9: 10,000 subscribers, of which nine in ten never read what they are handed. A publish is one pass and waits for
/// nobody; those who read get everything; of those who do not, no more waits than one state of what they asked for, however
/// long the storm; and when their time is over they have failed, and nobody else.
#[test]
fn ten_thousand_of_whom_most_are_stuck() {
    const ALL: usize = 10_000;
    const LAG: u32 = 4;
    let (store, clock) = (FaultStore::new(), TestClock::new());
    let mut options = Options::default();
    options.sink_deadline = Duration::from_secs(30);
    options.sink_lag = LAG;
    let hub = over_with(&store, options, &clock);
    let outbox = hub.outbox().expect("an outbox");
    let profile = profile();
    let sinks: Vec<SinkId> = (0..ALL)
        .map(|_| {
            let (sink, listener) = join(&outbox, &profile);
            outbox.subscribe(listener, &profile, "file:///a").expect("subscribed");
            sink
        })
        .collect();
    let reads: HashSet<SinkId> = sinks.iter().copied().step_by(10).collect();
    assert_eq!(hub.notify(TOOLS).expect("published").told, ALL as u64);
    assert_eq!(take(&outbox).len(), ALL, "all are handed their first frame, and from then on most are stuck");
    outbox.all_written(reads.iter().copied());

    for n in 0..20 {
        // Neither is the publisher held up, nor is anybody left out: who is stuck has it waiting.
        for publish in [PROMPTS, TOOLS, resource(&format!("file:///a/{n}"))] {
            let fanout = hub.notify(publish).expect("published");
            assert_eq!((fanout.told, fanout.skipped, fanout.failed), (ALL as u64, 0, 0));
        }
        let handed = take(&outbox);
        assert_eq!(handed.keys().copied().collect::<HashSet<_>>(), reads, "nothing for those who are stuck");
        for (sink, frames) in handed {
            assert_eq!(frames, 3, "each of the three");
            assert!(outbox.written(sink, frames));
        }
    }

    // Some of the stuck come back, and get one state of everything: both lists, and at most so many single things, or that
    // all of them have changed.
    let back: HashSet<SinkId> = sinks.iter().copied().skip(1).step_by(10).collect();
    outbox.all_written(back.iter().copied());
    let handed = take(&outbox);
    assert_eq!(handed.keys().copied().collect::<HashSet<_>>(), back);
    assert!(handed.values().all(|frames| *frames > 2 && *frames <= 2 + LAG + 1), "of 60 publishes");
    for (sink, frames) in handed {
        assert!(outbox.written(sink, frames));
    }

    clock.advance(Duration::from_secs(30));
    let fanout = hub.notify(TOOLS).expect("published");
    let fine = (reads.len() + back.len()) as u64;
    // The background may have found them before the publish did.
    assert_eq!((fanout.told, fanout.skipped), (fine, 0));
    assert!(fanout.failed == 0 || fanout.failed == ALL as u64 - fine, "{fanout:?}");
    assert_eq!(outbox.listeners() as u64, fine);
    assert_eq!(take(&outbox).keys().copied().collect::<HashSet<_>>(), reads.union(&back).copied().collect());
    // Which is told late may differ, and only the newest are kept; none of them is one of the others.
    let failed = wait(async {
        loop {
            let failed = hub.failed_sinks().expect("open");
            if !failed.is_empty() {
                return failed;
            }
            tokio::task::yield_now().await;
        }
    });
    assert!(failed.iter().all(|sink| !reads.contains(sink) && !back.contains(sink)));
}

/// What the host of one outbox knows in the race below: of which state of the world each connection was told last.
#[derive(Default)]
struct Host {
    told: Mutex<HashMap<SinkId, u64>>,
    /// Whom the host has let go of.
    gone: Mutex<HashSet<SinkId>>,
}

/// Publishers change the world and say so, clients join, look at it, and leave again, and a host writes: each in threads of
/// their own. Whatever the order, whoever stays has been told after the last change it could not see when it joined, nobody is
/// told after it was let go of, and no wake is lost: the host waits, and a lost one would leave it waiting.
#[test]
fn threads_that_join_publish_take_and_leave() {
    const PUBLISHERS: u64 = 2;
    const CHANGES: u64 = 300;
    const CLIENTS: usize = 2;
    const VISITS: usize = 150;
    let hub = memory();
    let outbox = hub.outbox().expect("an outbox");
    let (world, host, over) = (AtomicU64::new(0), Host::default(), AtomicBool::new(false));
    let profile = profile();
    let stay: Vec<SinkId> = std::thread::scope(|scope| {
        let publishers: Vec<_> = (0..PUBLISHERS)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..CHANGES {
                        world.fetch_add(1, Ordering::SeqCst);
                        hub.notify(TOOLS).expect("published");
                        std::thread::yield_now();
                    }
                })
            })
            .collect();
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| {
                    let mut stay = Vec::new();
                    for visit in 0..VISITS {
                        let (sink, _) = join(&outbox, &profile);
                        // It looks at the world once it is there: what changes from now on has to be told.
                        let seen = world.load(Ordering::SeqCst);
                        let mut told = host.told.lock().expect("told");
                        let newest = told.entry(sink).or_default();
                        *newest = seen.max(*newest);
                        drop(told);
                        if visit % 3 == 0 {
                            stay.push(sink);
                            continue;
                        }
                        std::thread::yield_now();
                        assert_eq!(outbox.drop_sink(sink), 1, "nobody else lets go of it");
                        host.gone.lock().expect("gone").insert(sink);
                    }
                    stay
                })
            })
            .collect();
        let writer = scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                wait(outbox.ready()).expect("open");
                write(&outbox, &world, &host);
            }
            write(&outbox, &world, &host);
        });
        for publisher in publishers {
            publisher.join().expect("publishes");
        }
        let stay: Vec<_> = clients.into_iter().flat_map(|client| client.join().expect("comes and goes")).collect();
        over.store(true, Ordering::SeqCst);
        // It may be waiting, and only something to be told wakes it.
        hub.notify(PROMPTS).expect("published");
        writer.join().expect("writes");
        stay
    });
    assert_eq!(outbox.listeners(), stay.len());
    let told = host.told.lock().expect("told");
    let last = PUBLISHERS * CHANGES;
    let missed: Vec<_> = stay.iter().filter(|sink| told.get(sink) != Some(&last)).collect();
    assert!(missed.is_empty(), "{} of {} were not told of the last change", missed.len(), stay.len());
}

/// Takes and writes what is ready. Who is written to looks at the world then.
fn write(outbox: &Outbox, world: &AtomicU64, host: &Host) {
    loop {
        let gone = host.gone.lock().expect("gone").clone();
        let parcels = outbox.take(16);
        if parcels.is_empty() {
            return;
        }
        for parcel in parcels {
            let frame = if let Parcel::Frame { sink, .. } = parcel { Some(sink) } else { None };
            let sink = frame.expect("nobody ends a listener in order");
            assert!(!gone.contains(&sink), "told after it was let go of");
            let seen = world.load(Ordering::SeqCst);
            let mut told = host.told.lock().expect("told");
            let newest = told.entry(sink).or_default();
            *newest = seen.max(*newest);
            drop(told);
            outbox.written(sink, 1);
        }
    }
}

/// The first to listen at an outbox begins to follow the other processes' publishes; threads race on being it, on one outbox
/// and on several, while another process publishes.
#[test]
fn threads_that_race_to_be_the_first() {
    for _ in 0..10 {
        let (store, clock) = (FaultStore::shared(), TestClock::new());
        let one = over_with(&store, Options::default(), &clock);
        let two = over_with(&store.other(), Options::default(), &clock);
        let outboxes = [one.outbox().expect("an outbox"), one.outbox().expect("an outbox")];
        two.ensure_open().expect("open");
        let start = std::sync::Barrier::new(3);
        let (profile, outboxes, start) = (&profile(), &outboxes, &start);
        std::thread::scope(|scope| {
            for at in [0, 1, 0] {
                scope.spawn(move || {
                    start.wait();
                    join(&outboxes[at], profile);
                });
            }
        });
        two.notify(TOOLS).expect("published");
        for (outbox, all) in outboxes.iter().zip([2, 1]) {
            let mut told = 0;
            while told < all {
                wait(outbox.ready()).expect("open");
                let handed = take(outbox);
                told += handed.len();
                outbox.all_written(handed.into_keys());
            }
            assert_eq!(told, all, "each once");
        }
        close(one, two);
    }
}

fn close(one: Hub, two: Hub) {
    assert!(one.close(HANG) && two.close(HANG));
}
