//! Several handles on one place at the same time, as several processes have them.

use tidings_proto::stream::StreamId;

use super::Make;
use super::fixtures::{
    FAR, NOW, W1, W2, World, append, begin, call_id, chunk, claim, create, done, end, enqueue, heartbeat, info, key,
    lease, lease_one, once, outcome, payloads, refused, settle, settle_op, shared, stream_id,
};
use crate::commit::{Done, Op, Refused};
use crate::record::DeliveryState;
use crate::store::{Boot, Changes, Store};

pub(super) fn handles_see_each_others_commits(make: Make<'_>) {
    let place = make();
    let (one, two) = (place.open(), place.open());
    done(&*one, [heartbeat(W1, FAR), heartbeat(W2, FAR)]);
    done(&*one, [create(stream_id(1), &key("a"), W1), append(stream_id(1), 1, vec![chunk(0, &["0"])])]);
    assert_eq!(payloads(&*two, stream_id(1)), ["0"]);
    done(&*two, [begin(call_id(1), W2), enqueue(1, NOW), shared(stream_id(2), &key("b"), &["x"])]);
    assert_eq!(World::of(&*one), World::of(&*two));
    assert!(one.call(call_id(1)).expect("reads").is_some());
}

pub(super) fn changes_tell_of_other_handles_commits(make: Make<'_>) {
    let place = make();
    let (one, two) = (place.open(), place.open());
    let (a, b) = (stream_id(1), stream_id(2));
    done(&*two, [create(a, &key("a"), W1), create(b, &key("b"), W1)]);
    one.changes().expect("reads"); // what was before does not matter
    for n in 0..3 {
        for id in [a, b] {
            done(&*two, [append(id, 1, vec![chunk(n, &["x"])])]);
            assert_told(&*one, &[id]);
        }
    }
    done(&*two, [append(b, 1, vec![chunk(3, &["x"])]), append(a, 1, vec![chunk(3, &["x"])])]);
    assert_told(&*one, &[a, b]);
    assert_eq!(one.changes().expect("reads"), Changes::Nothing);

    // A stream that is closed without an event, and what is no stream at all.
    done(&*two, [Op::Append { stream: a, claim: 1, chunks: vec![], close: true, now: NOW + 1 }]);
    assert_told(&*one, &[a]);
    done(&*two, [begin(call_id(1), W1)]);
    assert_told(&*one, &[]);

    // However many there are, none is left out.
    let id_of =
        |n: u16| StreamId([[n.to_be_bytes(); 2].concat().as_slice(), &[9; 12]].concat().try_into().expect("16"));
    let many: Vec<_> = (0..3_000).map(id_of).collect();
    let append = |(n, id): (usize, &StreamId)| shared(*id, &key(&format!("many {n}")), &["x"]);
    done(&*two, many.iter().enumerate().map(append).collect::<Vec<_>>());
    assert_told(&*one, &many);
    assert_eq!(one.changes().expect("reads"), Changes::Nothing);
}

/// A store need not tell which streams have grown; one that does tells exactly these.
#[track_caller]
fn assert_told(store: &dyn Store, grown: &[StreamId]) {
    match store.changes().expect("reads") {
        Changes::Streams(mut told) => {
            told.sort();
            assert_eq!(told, grown);
        }
        Changes::Anything => {}
        Changes::Nothing => panic!("{} streams have grown", grown.len()),
    }
}

pub(super) fn fences_hold_between_handles(make: Make<'_>) {
    let place = make();
    let (one, two) = (place.open(), place.open());
    let a = stream_id(1);
    done(&*one, [create(a, &key("a"), W1), append(a, 1, vec![chunk(0, &["0"])])]);
    done(&*two, [claim(stream_id(2), &key("a"), W2)]);
    assert_eq!(refused(&*one, [append(a, 1, vec![chunk(1, &["old"])])]), Refused::Fenced { claim: 2, next_seq: 1 });
    done(&*two, [append(a, 2, vec![chunk(1, &["new"])])]);
    assert_eq!(payloads(&*one, a), ["0", "new"]);
}

pub(super) fn one_outcome_wins_between_handles(make: Make<'_>) {
    let place = make();
    let (one, two) = (place.open(), place.open());
    done(&*one, [heartbeat(W1, FAR), begin(call_id(1), W1)]);
    done(&*two, [end(call_id(1), "cancelled")]);
    assert_eq!(
        refused(&*one, [enqueue(1, NOW), end(call_id(1), "completed")]),
        Refused::Ended(outcome("cancelled", None))
    );
}

pub(super) fn leases_hold_between_handles(make: Make<'_>) {
    let place = make();
    let (one, two) = (place.open(), place.open());
    done(&*one, [heartbeat(W1, FAR), heartbeat(W2, FAR), enqueue(1, NOW)]);
    let first = lease_one(&*one, W1, NOW, NOW + 100);
    assert_eq!(lease(&*two, W2, NOW + 99, FAR, 10), []);
    let second = lease_one(&*two, W2, NOW + 100, FAR);
    assert!(second.token > first.token);
    assert_eq!(refused(&*one, [settle_op(settle(&first, DeliveryState::Delivered, NOW))]), Refused::LostLease);
    done(&*two, [settle_op(settle(&second, DeliveryState::Delivered, NOW))]);
}

pub(super) fn handles_of_one_boot_share_the_timeline(make: Make<'_>) {
    let place = make();
    let (one, two) = (place.open(), place.open());
    let boot = |now_ms| Boot { id: "boot".to_owned(), now_ms };
    let offset = one.timeline(&boot(1_000), NOW).expect("reads");
    assert_eq!(two.timeline(&boot(2_000), NOW - 50_000).expect("reads"), offset);
    assert_eq!(one.timeline(&boot(3_000), NOW + 50_000).expect("reads"), offset);
}

pub(super) fn closing_one_handle_leaves_the_other(make: Make<'_>) {
    let place = make();
    let (one, two) = (place.open(), place.open());
    done(&*one, [shared(stream_id(1), &key("a"), &["0"])]);
    one.close().expect("closes");
    done(&*two, [shared(stream_id(1), &key("a"), &["1"])]);
    assert_eq!(payloads(&*two, stream_id(1)), ["0", "1"]);
    assert_eq!(payloads(&*place.open(), stream_id(1)), ["0", "1"]);
}

pub(super) fn a_key_holds_between_handles(make: Make<'_>) {
    let place = make();
    let (one, two) = (place.open(), place.open());
    for store in [&one, &two, &one] {
        assert_eq!(super::keys::appended(&**store, once(stream_id(1), &key("a"), "k", &["0"])), 0);
    }
    assert_eq!(super::keys::appended(&*two, once(stream_id(1), &key("a"), "l", &["1"])), 1);
    assert_eq!(super::keys::appended(&*one, once(stream_id(1), &key("a"), "l", &["1"])), 1);
    assert_eq!(payloads(&*one, stream_id(1)), ["0", "1"]);
}

/// Two writers at once: every event gets one number, none twice, none missing, each writer's own in its order.
pub(super) fn shared_appends_of_two_handles_interleave(make: Make<'_>) {
    const EACH: u64 = 50;
    let place = make();
    let handles = [("one", place.open()), ("two", place.open())];
    std::thread::scope(|scope| {
        for (name, store) in &handles {
            scope.spawn(move || {
                let mut last = None;
                for n in 0..EACH {
                    let op = shared(stream_id(name.len() as u8), &key("a"), &[&format!("{name} {n}")]);
                    match done(&**store, [op]).remove(0) {
                        Done::Appended { first_seq, .. } => {
                            assert!(last < Some(first_seq));
                            last = Some(first_seq);
                        }
                        other => panic!("a shared append answers `Appended`, not {other:?}"),
                    }
                }
            });
        }
    });
    let (_, store) = &handles[0];
    let found = info(&**store, &key("a"));
    assert_eq!((found.next_seq, found.claim), (2 * EACH, 1));
    let all = payloads(&**store, found.id);
    for (name, _) in &handles {
        let own: Vec<_> = all.iter().filter(|payload| payload.starts_with(name)).cloned().collect();
        assert_eq!(own, (0..EACH).map(|n| format!("{name} {n}")).collect::<Vec<_>>());
    }
}
