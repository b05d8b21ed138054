//! The writer thread sees everything that is put in, once, whoever puts it in; and its end is heard of in every order.

use std::sync::Arc;
use std::time::Duration;

use loom::thread;

use crate::inbox::{Inbox, Work};

#[derive(Default)]
struct Items(Vec<u8>);

impl Work for Items {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The writer thread, until it was stopped and nothing is left: what it saw, in order.
fn work(inbox: &Inbox<Items>) -> Vec<u8> {
    let mut seen = Vec::new();
    loop {
        let stop = inbox.wait();
        let batch = inbox.look(std::mem::take).0;
        if batch.is_empty() && stop {
            return seen;
        }
        assert!(!batch.is_empty(), "it is not woken for nothing");
        seen.extend(batch);
    }
}

fn offer(inbox: &Inbox<Items>, item: u8) -> bool {
    inbox.offer(item, |items, item| items.0.push(item)).is_ok()
}

/// Loom ends a model in which a thread waits for ever as a deadlock: so a wake that is lost fails.
#[test]
fn what_two_threads_put_in_is_seen_once() {
    loom::model(|| {
        let inbox = Arc::new(Inbox::<Items>::default());
        let writer = {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || work(&inbox))
        };
        let other = {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || inbox.put(|items| items.0.push(1)))
        };
        assert!(offer(&inbox, 2), "nobody has stopped it");
        other.join().expect("puts in");
        inbox.stop();
        let mut seen = writer.join().expect("works");
        seen.sort_unstable();
        assert_eq!(seen, [1, 2]);
    });
}

/// What is taken is done, what is not is answered back: nobody waits for an answer that does not come.
#[test]
fn an_offer_that_races_with_the_stop_is_taken_or_refused() {
    loom::model(|| {
        let inbox = Arc::new(Inbox::<Items>::default());
        let writer = {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || work(&inbox))
        };
        let offering = {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || [1, 2].map(|item| offer(&inbox, item)))
        };
        inbox.stop();
        let [one, two] = offering.join().expect("offers");
        assert!(one || !two, "refused once, refused for good");
        let taken: Vec<u8> =
            [(1, one), (2, two)].into_iter().filter(|(_, taken)| *taken).map(|(item, _)| item).collect();
        assert_eq!(writer.join().expect("works"), taken);
    });
}

/// While the store fails, the thread is held by nothing but its time: a hurry and the stop end the pause in every order, and
/// what is put in meanwhile does not, and waits.
#[test]
fn a_pause_ends_with_the_hurry_or_the_stop() {
    for stops in [false, true] {
        loom::model(move || {
            let inbox = Arc::new(Inbox::<Items>::default());
            let writer = {
                let inbox = Arc::clone(&inbox);
                thread::spawn(move || {
                    let stop = inbox.pause(Duration::MAX, Duration::ZERO);
                    (stop, inbox.look(|items| items.0.len()))
                })
            };
            inbox.put(|items| items.0.push(1));
            // Before the pause it would be one in a hurry, of no time at all; which does not pass here.
            if stops {
                inbox.stop();
                assert_eq!(writer.join().expect("pauses"), (true, 1));
            } else {
                inbox.hurry();
                inbox.stop();
                assert_eq!(writer.join().expect("pauses").1, 1);
            }
        });
    }
}
