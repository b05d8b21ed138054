//! What is there when a place is opened again.

use tidings_proto::stream::Retention;

use super::fixtures::{
    FAR, NOW, Slot, W1, W2, World, append, begin, call_id, chunk, claim, create, done, end, enqueue, heartbeat, info,
    key, lease_one, once, payloads, record, refused, retained, settle, settle_op, shared, shared_and_close, stream_id,
    timer,
};
use super::groups::{join, watch_all};
use super::{Harness, Make};
use crate::chunk::Chunk;
use crate::commit::{Claimed, Commit, Done, Durability, Op, Refused};
use crate::record::{Delivery, DeliveryState};
use crate::store::{Boot, Store};

fn some_of_everything(store: &dyn Store) -> Delivery {
    done(store, [heartbeat(W1, FAR), heartbeat(W2, FAR)]);
    done(store, [create(stream_id(1), &key("a"), W1)]);
    done(store, [append(stream_id(1), 1, vec![chunk(0, &["1.0", ""]), Chunk::lost(2, 3, NOW), chunk(5, &["5"])])]);
    done(store, [claim(stream_id(9), &key("a"), W2)]);
    done(store, [shared(stream_id(2), &key("b"), &["0"])]);
    done(store, [shared_and_close(stream_id(3), &key("call"), &["0"], NOW)]);
    done(store, [begin(call_id(1), W1), begin(call_id(2), W1), begin(call_id(3), W1)]);
    done(store, [join(1), join(2), watch_all(1, 1), watch_all(2, 2)]);
    done(store, [timer(call_id(1), NOW + 5), end(call_id(2), "completed"), Op::Leave { worker: W2 }]);
    done(store, [enqueue(1, NOW), enqueue(2, NOW + 1), enqueue(3, NOW + 2), enqueue(4, NOW + 3)]);
    let first = lease_one(store, W1, NOW, FAR);
    done(store, [settle_op(settle(&first, DeliveryState::Delivered, NOW))]);
    let second = lease_one(store, W1, NOW + 1, FAR);
    done(store, [settle_op(settle(&second, DeliveryState::Retrying, NOW))]);
    lease_one(store, W1, NOW + 2, FAR)
}

#[track_caller]
fn found_again(place: &dyn Harness, leave: impl Fn(Box<dyn Store>)) {
    let store = place.open();
    let held = some_of_everything(&*store);
    let before = World::of(&*store).without_workers();
    leave(store);

    let store = place.open();
    assert_eq!(World::of(&*store).without_workers(), before);
    assert_eq!(payloads(&*store, stream_id(1)), ["1.0", "", "<lost>", "<lost>", "<lost>", "5"]);
    assert_eq!(store.call(call_id(1)).expect("reads"), Some(record(call_id(1), W1)), "with what was sealed");
    let stale = Refused::Fenced { claim: 2, next_seq: 6 };
    assert_eq!(refused(&*store, [append(stream_id(1), 1, vec![chunk(6, &["old"])])]), stale);
    done(&*store, [append(stream_id(1), 2, vec![chunk(6, &["6"])])]);
    done(&*store, [settle_op(settle(&held, DeliveryState::Delivered, NOW + 5))]);
}

pub(super) fn everything_is_there_after_a_close(make: Make<'_>) {
    found_again(&*make(), |store| store.close().expect("closes"));
}

pub(super) fn everything_is_there_without_a_close(make: Make<'_>) {
    found_again(&*make(), drop);
}

pub(super) fn numbers_go_on_where_they_were(make: Make<'_>) {
    let place = make();
    let mut token = None;
    for round in 0..3 {
        let store = place.open();
        let claimed = done(&*store, [claim(stream_id(1), &key("a"), W1)]).remove(0);
        let Done::Claimed(Claimed { claim, next_seq, stream, .. }) = claimed else {
            panic!("a claim answers `Claimed`, not {claimed:?}")
        };
        assert_eq!((stream, claim, next_seq), (stream_id(1), round + 1, u64::from(round)));
        done(&*store, [append(stream, claim, vec![chunk(next_seq, &["x"])])]);

        done(&*store, [heartbeat(W1, FAR)]);
        if round == 0 {
            done(&*store, [enqueue(1, NOW)]);
        }
        let leased = lease_one(&*store, W1, NOW + 10 * i64::from(round), NOW + 10 * i64::from(round) + 5);
        assert!(token.is_none_or(|token| leased.token > token), "tokens go on rising");
        assert_eq!(leased.attempts, round);
        token = Some(leased.token);
        store.close().expect("closes");
    }
}

pub(super) fn keys_are_there_after_a_close(make: Make<'_>) {
    let place = make();
    for round in 0..3 {
        let store = place.open();
        assert_eq!(super::keys::appended(&*store, once(stream_id(1), &key("a"), "k", &["0"])), 0, "round {round}");
        assert_eq!(payloads(&*store, stream_id(1)), ["0"]);
        store.close().expect("closes");
    }
}

pub(super) fn evicted_events_stay_gone_and_the_head_stays(make: Make<'_>) {
    let place = make();
    let store = place.open();
    done(&*store, [create(stream_id(1), &key("a"), W1)]);
    done(&*store, [append(stream_id(1), 1, vec![chunk(0, &["0", "1", "2", "3"])])]);
    let trim = |max_events| {
        let retention = Retention { max_events: Some(max_events), ..Retention::UNLIMITED };
        Op::Trim { now: NOW, wall: NOW, retention, keep_finished_ms: FAR }
    };
    done(&*store, [trim(1)]);
    store.close().expect("closes");

    let store = place.open();
    let (found, slots) = retained(&*store, stream_id(1)).expect("there");
    assert_eq!((found.earliest, found.next_seq), (3, 4));
    assert!(matches!(&slots[..], [Slot::Event(event)] if event.seq == 3 && event.payload == "3"));
    done(&*store, [trim(0)]);
    store.close().expect("closes");

    let store = place.open();
    let found = info(&*store, &key("a"));
    assert_eq!((found.earliest, found.next_seq), (4, 4));
    done(&*store, [append(stream_id(1), 1, vec![chunk(4, &["4"])])]);
    assert_eq!(payloads(&*store, stream_id(1)), ["4"]);
}

pub(super) fn the_timeline_goes_on(make: Make<'_>) {
    let place = make();
    let boot = |id: &str, now_ms| Boot { id: id.to_owned(), now_ms };
    let store = place.open();
    let offset = store.timeline(&boot("one", 1_000), NOW).expect("reads");
    store.close().expect("closes");
    let store = place.open();
    assert_eq!(store.timeline(&boot("one", 9_000), NOW - 90_000_000).expect("reads"), offset, "of the same boot");
    store.close().expect("closes");
    let store = place.open();
    let next = store.timeline(&boot("two", 10), 0).expect("reads") + 10;
    assert!(next >= offset + 9_000, "the next boot begins at {next}, not before {}", offset + 9_000);
}

pub(super) fn both_durabilities_are_there_after_a_close(make: Make<'_>) {
    let place = make();
    let store = place.open();
    let commit = |durability, payload| Commit::new(durability, vec![shared(stream_id(1), &key("a"), &[payload])]);
    for answer in store.commit(&[commit(Durability::Disk, "0"), commit(Durability::Process, "1")]) {
        answer.expect("done");
    }
    assert!(store.commit(&[commit(Durability::Process, "2")])[0].is_ok());
    store.close().expect("closes");
    assert_eq!(payloads(&*place.open(), stream_id(1)), ["0", "1", "2"]);
}
