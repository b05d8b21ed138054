use super::*;
use proptest::prelude::*;

const FULL: Loss = Loss::Cancelled { reason: Reason::DetachLimit, reply: Reply::Error };
const DROPPED: Loss = Loss::Cancelled { reason: Reason::Disconnected, reply: Reply::Never };
const WHY: Option<Reason> = Some(Reason::Unserialisable);

/// Every kind of event, with each distinct argument that a table tells apart.
const EVENTS: [Event; 15] = [
    Event::Complete,
    Event::Fail(None),
    Event::Fail(WHY),
    Event::Cancel,
    Event::Timeout,
    Event::ServerLost,
    Event::Shutdown,
    Event::DetachExpired,
    Event::Lost(Loss::Resumable),
    Event::Lost(Loss::Released),
    Event::Lost(Loss::Draining),
    Event::Lost(FULL),
    Event::Lost(DROPPED),
    Event::Detach,
    Event::Reattach,
];

fn ended(outcome: Outcome, reason: Option<Reason>, reply: Reply, tool: Tool) -> Option<Step> {
    Some(Step { state: State::Ended(outcome, reason), fires: Some(outcome.trigger()), reply, tool })
}

fn open(link: Link, fires: Option<Trigger>, reply: Reply) -> Option<Step> {
    Some(Step { state: State::Open(link), fires, reply, tool: Tool::GoesOn })
}

/// The design, section 5, as one row per event: what each link makes of it, in the order attached, resumable,
/// released, draining. `None` is ignored.
fn rows() -> Vec<(Event, [Option<Step>; 4])> {
    use Link::{Attached, Draining, Released, Resumable};
    use Outcome::{Cancelled, Completed, Failed, Timeout};
    use Reply::{Error, Never, NotYet, Payload};
    use Tool::{Gone, Stop};
    let lost = Some(Trigger::Disconnected);
    let server_lost = Some(Reason::ServerLost);
    let shutdown = Some(Reason::Shutdown);
    let expired = Some(Reason::DetachExpired);
    // The outcome alone does not depend on the link; only what the request is owed does.
    let each = |outcome, reason, replies: [Reply; 4], tool| replies.map(|reply| ended(outcome, reason, reply, tool));
    let hears = |reply| [reply, reply, Never, reply];
    vec![
        (Event::Complete, each(Completed, None, hears(Payload), Gone)),
        (Event::Fail(None), each(Failed, None, hears(Payload), Gone)),
        (Event::Fail(WHY), each(Failed, WHY, hears(Error), Gone)),
        (Event::Cancel, each(Cancelled, None, [Never; 4], Stop)),
        (Event::Timeout, each(Timeout, None, hears(Error), Stop)),
        (Event::ServerLost, each(Failed, server_lost, [Error, Error, Never, Never], Gone)),
        (Event::Shutdown, each(Failed, shutdown, hears(Error), Stop)),
        (
            Event::DetachExpired,
            [None, ended(Cancelled, expired, Error, Stop), ended(Cancelled, expired, Never, Stop), None],
        ),
        (Event::Lost(Loss::Resumable), [open(Resumable, lost.clone(), NotYet), None, None, None]),
        (Event::Lost(Loss::Released), [open(Released, lost.clone(), Never), None, None, None]),
        (Event::Lost(Loss::Draining), [open(Draining, lost, NotYet), None, None, None]),
        (Event::Lost(FULL), [ended(Cancelled, Some(Reason::DetachLimit), Error, Stop), None, None, None]),
        (Event::Lost(DROPPED), [ended(Cancelled, Some(Reason::Disconnected), Never, Stop), None, None, None]),
        (Event::Detach, [open(Released, None, Never), open(Released, None, Never), None, open(Released, None, Never)]),
        (Event::Reattach, [None, open(Attached, None, NotYet), None, None]),
    ]
}

#[test]
fn every_row_of_an_open_call() {
    let rows = rows();
    assert_eq!(rows.iter().map(|(event, _)| *event).collect::<Vec<_>>(), EVENTS);
    for (event, wants) in rows {
        for (link, want) in Link::ALL.into_iter().zip(wants) {
            assert_eq!(step(State::Open(link), event), want.ok_or(Refused::Ignored), "{link:?} {event:?}");
        }
    }
}

/// Field report B36: the first terminal state stays, whatever comes after it.
#[test]
fn every_row_of_an_ended_call() {
    for outcome in Outcome::ALL {
        for reason in [None, Some(Reason::Shutdown)] {
            for event in EVENTS {
                let ends = !matches!(event, Event::DetachExpired | Event::Lost(_) | Event::Detach | Event::Reattach);
                let want = if ends { Refused::AlreadyEnded(outcome, reason) } else { Refused::Ignored };
                assert_eq!(step(State::Ended(outcome, reason), event), Err(want), "{outcome} {event:?}");
            }
        }
    }
}

/// The design, section 5, "A lost connection".
#[test]
fn every_row_of_a_lost_connection() {
    let cancelled = |reason, reply| Loss::Cancelled { reason, reply };
    for (transport, opted_in, room, want) in [
        (Transport::LegacyHttp, false, true, Loss::Resumable),
        (Transport::LegacyHttp, true, true, Loss::Resumable),
        (Transport::LegacyHttp, false, false, cancelled(Reason::DetachLimit, Reply::Error)),
        (Transport::LegacyHttp, true, false, cancelled(Reason::DetachLimit, Reply::Error)),
        (Transport::ModernHttp, false, true, cancelled(Reason::Disconnected, Reply::Never)),
        (Transport::ModernHttp, false, false, cancelled(Reason::Disconnected, Reply::Never)),
        (Transport::ModernHttp, true, true, Loss::Released),
        (Transport::ModernHttp, true, false, cancelled(Reason::DetachLimit, Reply::Never)),
        (Transport::Stdio, false, true, Loss::Draining),
        (Transport::Stdio, true, true, Loss::Draining),
        (Transport::Stdio, false, false, Loss::Draining),
        (Transport::Stdio, true, false, Loss::Draining),
    ] {
        assert_eq!(lost_connection(transport, opted_in, room), want, "{transport:?} {opted_in} {room}");
    }
}

/// Runs `events` on a fresh call: the triggers that fired, how many events came too late, and the end.
fn run(events: &[Event]) -> (Vec<Trigger>, usize, State) {
    let (mut state, mut fired, mut late) = (State::Open(Link::Attached), Vec::new(), 0);
    for event in events {
        match step(state, *event) {
            Ok(step) => {
                state = step.state;
                fired.extend(step.fires);
            }
            Err(Refused::AlreadyEnded(..)) => late += 1,
            Err(Refused::Ignored) => {}
        }
    }
    (fired, late, state)
}

/// Field reports B34 and B36: one terminal trigger, and the loser is counted.
#[test]
fn first_outcome_wins() {
    use Event::{Cancel, Complete};
    let ended = |outcome| State::Ended(outcome, None);
    assert_eq!(run(&[Complete, Cancel]), (vec![Trigger::Completed], 1, ended(Outcome::Completed)));
    // An abort path that returns `{}` after the cancel is no completion.
    assert_eq!(run(&[Cancel, Complete]), (vec![Trigger::Cancelled], 1, ended(Outcome::Cancelled)));
    assert_eq!(run(&[Cancel, Cancel, Event::Timeout, Complete]).1, 3);
}

#[test]
fn modern_disconnect_then_abort_is_cancelled_and_opted_in_goes_on() {
    let plain = Event::Lost(lost_connection(Transport::ModernHttp, false, true));
    let want = State::Ended(Outcome::Cancelled, Some(Reason::Disconnected));
    assert_eq!(run(&[plain, Event::Complete]), (vec![Trigger::Cancelled], 1, want));
    let kept = Event::Lost(lost_connection(Transport::ModernHttp, true, true));
    let want = State::Ended(Outcome::Completed, None);
    assert_eq!(run(&[kept, Event::Complete]), (vec![Trigger::Disconnected, Trigger::Completed], 0, want));
}

#[test]
fn each_loss_of_a_resumed_call_fires_again() {
    let lost = Event::Lost(Loss::Resumable);
    let (fired, _, state) = run(&[lost, lost, Event::Reattach, lost]);
    assert_eq!(fired, [Trigger::Disconnected, Trigger::Disconnected]);
    assert_eq!(state, State::Open(Link::Resumable));
}

#[test]
fn client_may_only_lower_the_timeout() {
    for (server, client, want) in [
        (Some(1000), Some(500), Some(500)),
        (Some(1000), Some(1000), Some(1000)),
        (Some(1000), Some(1001), Some(1000)),
        (Some(1000), None, Some(1000)),
        (None, Some(500), Some(500)),
        (None, None, None),
    ] {
        assert_eq!(effective_timeout(server, client), want, "{server:?} {client:?}");
    }
}

proptest! {
    /// Field reports B36 and B52, for any order of events: at most one terminal trigger, and it is the state's.
    #[test]
    fn any_order_has_at_most_one_outcome(picks in proptest::collection::vec(0..EVENTS.len(), 0..12)) {
        let events: Vec<_> = picks.iter().map(|pick| EVENTS[*pick]).collect();
        let (fired, _, state) = run(&events);
        let terminal: Vec<_> = fired.into_iter().filter(|trigger| *trigger != Trigger::Disconnected).collect();
        match state {
            State::Open(_) => prop_assert!(terminal.is_empty()),
            State::Ended(outcome, _) => prop_assert_eq!(terminal, vec![outcome.trigger()]),
        }
    }
}
