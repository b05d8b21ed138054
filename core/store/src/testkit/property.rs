//! Any sequence of commits does in a store what it does in the model: every answer, and every read after every group.

use std::collections::{BTreeMap, BTreeSet};

use proptest::test_runner::{Config, TestCaseError, TestRunner};
use proptest::{prop_assert, prop_assert_eq};

use super::Make;
use super::fixtures::{ALL, Fresh, done, heartbeat, retained, slots};
use super::model::Model;
use super::script::{self, Clock, KEYS, Turn, What};
use crate::commit::{Commit, CommitError, Done, Durability, Op, Refused};
use crate::record::{CallId, CallRecord, DeliveryId, DeliveryState, DeliverySummary, StreamInfo, Subject};
use crate::store::{ReadLimits, Store};

/// What differs is an error, not a panic, so that the search for a smaller script stays quiet.
type Outcome = Result<(), TestCaseError>;

type Answer = Result<Vec<Done>, Refused>;

pub(super) fn any_sequence_of_commits_does_what_the_model_does(make: Make<'_>) {
    // A quarter of what proptest does by default (64; `PROPTEST_CASES` changes it): each case is a long script, and a
    // durable store pays for each of its commits.
    let config = Config {
        cases: Config::default().cases.div_ceil(4),
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..Config::default()
    };
    let mut runner = TestRunner::new(config);
    let outcome = runner.run(&script::script(), |turns| play(&*Fresh::open(make), &turns));
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

fn play(store: &dyn Store, turns: &[Turn]) -> Outcome {
    let mut player =
        Player { store, model: Model::default(), clock: Clock::new(), tokens: BTreeMap::new(), calls: BTreeSet::new() };
    for worker in script::workers() {
        let op = heartbeat(worker, player.clock.now + 10_500);
        done(store, [op.clone()]);
        player.model.apply(&op).expect("never refused");
    }
    for turn in turns {
        player.clock.now += turn.advance * 1_000;
        match &turn.what {
            What::Group(commits) => player.group(commits)?,
            What::Trim(events, close, end) => player.trim(*events, *close, *end)?,
        }
        player.compare()?;
    }
    Ok(())
}

struct Player<'a> {
    store: &'a dyn Store,
    model: Model,
    clock: Clock,
    /// The last token of each delivery.
    tokens: BTreeMap<DeliveryId, u64>,
    /// Every call that ever was to begin, forgotten ones included.
    calls: BTreeSet<CallId>,
}

impl Player<'_> {
    fn group(&mut self, commits: &[Vec<script::Step>]) -> Outcome {
        let mut group = Vec::new();
        let mut expected = Vec::new();
        for (n, steps) in commits.iter().enumerate() {
            let mut trial = self.model.clone();
            let mut answer: Answer = Ok(Vec::new());
            let mut ops = Vec::new();
            for step in steps {
                let op = script::resolve(step, &trial, &mut self.clock);
                if let Ok(done) = &mut answer {
                    match trial.apply(&op) {
                        Ok(one) => done.push(one),
                        Err(refused) => answer = Err(refused),
                    }
                }
                if let Op::BeginCall(record) = &op {
                    self.calls.insert(record.id);
                }
                ops.push(op);
            }
            if answer.is_ok() {
                self.model = trial;
            }
            expected.push(answer);
            let durability = if n == 0 { Durability::Disk } else { Durability::Process };
            group.push(Commit::new(durability, ops));
        }
        let answers: Result<Vec<Answer>, _> =
            self.store.commit(&group).into_iter().map(|answer| self.told(answer)).collect();
        let answers = answers?;
        prop_assert_eq!(answers, expected, "answers to {:#?}", group);
        for row in &mut self.model.deliveries {
            if row.state == DeliveryState::Leased {
                row.token = self.tokens.get(&row.new.id).copied();
            }
        }
        Ok(())
    }

    /// The store's answer without what is its own to choose, after learning its tokens.
    fn told(&mut self, answer: Result<Vec<Done>, CommitError>) -> Result<Answer, TestCaseError> {
        let mut done = match answer {
            Ok(done) => done,
            Err(CommitError::Refused(refused)) => return Ok(Err(refused)),
            Err(CommitError::Store(error)) => {
                return Err(TestCaseError::fail(format!("the store must not fail: {error}")));
            }
        };
        for one in &mut done {
            match one {
                Done::Claimed(claimed) => claimed.epoch = 0,
                Done::Appended { epoch, .. } => *epoch = 0,
                Done::Leased(leased) => {
                    for delivery in leased {
                        let before = self.tokens.insert(delivery.new.id, delivery.token);
                        prop_assert!(before < Some(delivery.token), "token {} after {before:?}", delivery.token);
                        delivery.token = 0;
                    }
                }
                Done::Nothing | Done::Trimmed { .. } | Done::Verify(_) | Done::Purged(_) => {}
            }
        }
        Ok(Ok(done))
    }

    fn trim(&mut self, max_events: u64, close: u64, end: i64) -> Outcome {
        let op = script::trim(&self.clock, max_events, close, end);
        for _ in 0..1_000 {
            match done(self.store, [op.clone()]).remove(0) {
                Done::Trimmed { more: true, .. } => {}
                Done::Trimmed { more: false, .. } => {
                    self.model.apply(&op).expect("never refused");
                    return Ok(());
                }
                other => panic!("a trim answers `Trimmed`, not {other:?}"),
            }
        }
        panic!("a trim that has more to do comes to an end");
    }

    fn compare(&self) -> Outcome {
        for n in 0..KEYS {
            self.compare_stream(n)?;
        }
        let now = self.clock.now;
        for id in &self.calls {
            let expected = self.model.calls.iter().find(|call| call.record.id == *id);
            prop_assert_eq!(self.store.call(*id).expect("reads"), expected.map(|call| call.record.clone()));
        }
        let by_id = |mut calls: Vec<CallRecord>| {
            calls.sort_by_key(|call| call.id);
            calls
        };
        for at in [now, now + 6_000] {
            let lost = by_id(self.store.lost_calls(at, ALL).expect("reads"));
            prop_assert_eq!(lost, by_id(self.model.lost_calls(at)), "lost calls");
            prop_assert_eq!(self.store.due_timers(at, ALL).expect("reads"), self.model.due_timers(at), "due timers");
        }
        // What is overdue may stand at any moment that has passed.
        let from_now = |due: Option<i64>| due.map(|due| due.max(now));
        let next_due = self.store.next_due().expect("reads");
        prop_assert_eq!(from_now(next_due), from_now(self.model.next_due()), "next due");
        let outlets = self.store.waiting_outlets().expect("reads");
        prop_assert_eq!(outlets, self.model.waiting_outlets(), "waiting outlets");

        let list = |wanted: &dyn Fn(&DeliverySummary) -> bool| -> Vec<DeliverySummary> {
            let all = self.model.deliveries.iter().map(super::model::Row::summary);
            all.filter(|summary| wanted(summary)).collect()
        };
        let deliveries =
            |subject: Option<&Subject>, state| self.store.deliveries(None, subject, state, ALL).expect("reads");
        prop_assert_eq!(deliveries(None, None), list(&|_| true), "all deliveries");
        for state in DeliveryState::ALL {
            prop_assert_eq!(deliveries(None, Some(state)), list(&|one| one.state == state), "{:?}", state);
        }
        let mut unfinished = BTreeMap::<String, u32>::new();
        for one in list(&|_| true) {
            *unfinished.entry(one.principal).or_default() += u32::from(!one.state.is_final());
        }
        for (principal, count) in unfinished {
            let counted = self.store.pending(&principal, u32::MAX).expect("reads");
            prop_assert_eq!(counted, count, "unfinished ones of {}", principal);
        }
        for subject in script::subjects() {
            prop_assert_eq!(deliveries(Some(&subject), None), list(&|one| one.subject == subject), "{:?}", subject);
        }
        Ok(())
    }

    fn compare_stream(&self, n: u8) -> Outcome {
        let found = self.store.stream(&script::key(n)).expect("reads");
        let Some(stream) = self.model.stream(&script::key(n)) else {
            prop_assert_eq!(found, None);
            return Ok(());
        };
        let missing = || TestCaseError::fail(format!("the stream {:?} is there", stream.key));
        let found = found.ok_or_else(missing)?;
        let owner_gone = self.model.owner_gone(stream, self.clock.now).unwrap_or(found.owner_gone);
        let expected = StreamInfo { epoch: found.epoch, ..self.model.info(stream, owner_gone) };
        prop_assert_eq!(&found, &expected, "by key");
        prop_assert_eq!(self.store.stream_by_id(stream.id).expect("reads"), Some(found), "by id");
        for claim in 0..=stream.claim() {
            let next = stream.claims.get(claim as usize).copied();
            prop_assert_eq!(
                self.store.next_claim_first(stream.id, claim).expect("reads"),
                next,
                "claim after {}",
                claim
            );
        }

        let (info, slots) = retained(self.store, stream.id).expect("there");
        prop_assert_eq!((info, &slots[..]), (expected, stream.retained()));
        for limits in [ReadLimits { events: 2, bytes: 1 << 40 }, ReadLimits { events: u32::MAX, bytes: 60 }] {
            self.compare_pages(stream, limits)?;
        }
        Ok(())
    }

    /// Reading page after page gives everything once, and no page goes on after it has enough.
    fn compare_pages(&self, stream: &super::model::Stream, limits: ReadLimits) -> Outcome {
        let mut from = stream.earliest;
        loop {
            let page = self.store.read(stream.id, from, limits).expect("reads").expect("there");
            let Some((last, before)) = page.chunks.split_last() else { break };
            let events = |chunks: &[crate::Chunk]| chunks.iter().map(|chunk| chunk.rest(from).0).sum::<u64>();
            let bytes = |chunks: &[crate::Chunk]| chunks.iter().map(|chunk| chunk.rest(from).1).sum::<u64>();
            let enough = |chunks| events(chunks) >= u64::from(limits.events) || bytes(chunks) >= limits.bytes;
            prop_assert!(!enough(before), "a page of {limits:?} from {from} stops in time");
            prop_assert!(enough(&page.chunks) || last.end() == stream.next_seq(), "nor sooner");
            let first = page.chunks[0].first_seq;
            prop_assert!(first <= from && from < page.chunks[0].end(), "a page begins in the chunk that holds {from}");
            let expected =
                &stream.slots[usize::try_from(from).expect("small")..usize::try_from(last.end()).expect("small")];
            prop_assert_eq!(&slots(&page.chunks)[usize::try_from(from - first).expect("small")..], expected);
            from = last.end();
        }
        prop_assert_eq!(from, stream.next_seq());
        Ok(())
    }
}
