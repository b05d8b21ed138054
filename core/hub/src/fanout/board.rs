//! Who listens at one outbox, and what waits for whom. Everything here happens under the outbox's lock.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tidings_proto::fanout::state::{Listener as ListenerState, ListenerAct, ListenerEvent, Sink, SinkAct, SinkEvent};
use tidings_proto::fanout::{Filter, Frame, MethodSet, Protocol, Tag};
use tidings_proto::time::StoreMillis;

use super::below::above;
use super::handle::{ListenerId, Parcel, SinkId};
use super::listener::Listener;
use super::set::{Key, Members, Table};
use super::{Fanout, Limits, Ready};

#[derive(Debug)]
struct SinkRow {
    state: Sink,
    /// Frames in the host's hands.
    handed: u32,
    /// The drain in which they were handed out.
    drain: u32,
    late: StoreMillis,
    /// It is in `Board::late`, once.
    timed: bool,
    deadline: i64,
    reachable: bool,
    principal: Option<Box<str>>,
    listeners: Vec<Key>,
}

#[derive(Debug)]
pub(super) struct Board {
    number: u32,
    protocol: &'static Protocol,
    lists_frames: Arc<[Option<Frame>]>,
    limits: Limits,
    sinks: Table<SinkRow>,
    listeners: Table<Listener>,
    /// By the place of the method.
    by_list: Vec<Members>,
    by_name: Vec<HashMap<Box<str>, Members>>,
    ready: VecDeque<Key>,
    /// When which sink is late at the earliest, each once: one that has written meanwhile stays in here until then.
    late: VecDeque<(StoreMillis, Key)>,
    /// Sinks that cannot be told anything at the moment.
    unreachable: usize,
    publishes: u32,
    drains: u32,
    /// The newest time it was told.
    now: StoreMillis,
}

impl Board {
    pub(super) fn new(
        number: u32,
        protocol: &'static Protocol,
        lists_frames: Arc<[Option<Frame>]>,
        limits: Limits,
        now: StoreMillis,
    ) -> Self {
        Self {
            number,
            protocol,
            lists_frames,
            limits,
            sinks: Table::new(number),
            listeners: Table::new(number),
            by_list: protocol.methods.iter().map(|_| Members::default()).collect(),
            by_name: protocol.methods.iter().map(|_| HashMap::new()).collect(),
            ready: VecDeque::new(),
            late: VecDeque::new(),
            unreachable: 0,
            publishes: 0,
            drains: 0,
            now,
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(super) fn listeners(&self) -> usize {
        self.listeners.len()
    }

    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    fn id(&self, key: Key) -> SinkId {
        SinkId { outbox: self.number, key }
    }

    fn key(&self, sink: SinkId) -> Option<Key> {
        (sink.outbox == self.number && self.sinks.get(sink.key).is_some()).then_some(sink.key)
    }

    pub(super) fn add_sink(&mut self, principal: Option<&str>, deadline: i64) -> SinkId {
        let row = SinkRow {
            state: Sink::Idle,
            handed: 0,
            drain: 0,
            late: 0,
            timed: false,
            deadline,
            reachable: true,
            principal: principal.map(Into::into),
            listeners: Vec::new(),
        };
        let key = self.sinks.add(row);
        self.id(key)
    }

    /// Whose sink it is, for publishes from now on.
    pub(super) fn set_principal(&mut self, sink: SinkId, principal: Option<&str>) {
        if let Some(row) = self.sinks.get_mut(sink.key) {
            row.principal = principal.map(Into::into);
        }
    }

    /// Whether the sink can be told anything at the moment.
    pub(super) fn set_reachable(&mut self, sink: SinkId, reachable: bool) {
        if let Some(row) = self.sinks.get_mut(sink.key) {
            let before = std::mem::replace(&mut row.reachable, reachable);
            self.unreachable += usize::from(before && !reachable);
            self.unreachable -= usize::from(!before && reachable);
        }
    }

    /// Adds a listener. With a tag it is acknowledged first; without one its host says when it is open. `None`: there is
    /// no such sink (any more).
    pub(super) fn add_listener(
        &mut self,
        sink: SinkId,
        filter: Filter,
        tag: Option<Tag>,
        below: bool,
    ) -> Option<ListenerId> {
        let at = self.key(sink)?;
        if self.sinks.get(at).is_none_or(|row| !matches!(row.state, Sink::Idle | Sink::Writing)) {
            return None;
        }
        let acknowledgement = tag.as_ref().map(|_| Frame::acknowledged(self.protocol, &filter));
        let acknowledged = acknowledgement.is_some();
        let lists = filter.methods().common(self.protocol.lists());
        let names: Vec<_> = filter.names().map(|(method, name)| (method, Box::<str>::from(name))).collect();
        let key = self.listeners.add(Listener {
            counted: self.publishes,
            lists: MethodSet::EMPTY,
            state: ListenerState::Opening,
            queued: acknowledged,
            sink: at,
            acknowledging: false,
            acknowledgement,
            tag,
            filter,
            below,
            names: Vec::new(),
        });
        for place in lists.places() {
            if let Some(members) = self.by_list.get_mut(place) {
                members.join(key);
            }
        }
        for (method, name) in names {
            if let Some(by_name) = self.by_name.get_mut(method) {
                by_name.entry(name).or_default().join(key);
            }
        }
        if let Some(row) = self.sinks.get_mut(at) {
            row.listeners.push(key);
        }
        if acknowledged {
            self.ready.push_back(key);
        }
        Some(ListenerId(key))
    }

    /// The listener asks for one more thing. `None`: there is no such listener.
    pub(super) fn subscribe(&mut self, listener: ListenerId, method: usize, name: &str) -> Option<bool> {
        let row = self.listeners.get_mut(listener.0)?;
        if row.filter.len() >= Filter::MAX_NAMES {
            return Some(false);
        }
        if row.filter.add(method, name)
            && let Some(by_name) = self.by_name.get_mut(method)
        {
            by_name.entry(name.into()).or_default().join(listener.0);
        }
        Some(true)
    }

    /// And no longer.
    pub(super) fn unsubscribe(&mut self, listener: ListenerId, method: usize, name: &str) {
        let Some(row) = self.listeners.get_mut(listener.0) else { return };
        if !row.filter.remove(method, name) {
            return;
        }
        row.names.retain(|waiting| waiting.method != method || *waiting.name != *name);
        if let Some(by_name) = self.by_name.get_mut(method)
            && let Some(members) = by_name.get_mut(name)
        {
            members.leave(listener.0);
            if members.is_empty() {
                by_name.remove(name);
            }
        }
    }

    /// The names asked for under a method.
    pub(super) fn names(&self, method: usize) -> Vec<String> {
        let names = self.by_name.get(method).into_iter().flatten();
        names.filter(|(_, members)| !members.is_empty()).map(|(name, _)| name.to_string()).collect()
    }

    /// The listener may be told from now on.
    pub(super) fn opened(&mut self, listener: ListenerId) {
        let Some(row) = self.listeners.get_mut(listener.0) else { return };
        let (state, act) = row.state.step(ListenerEvent::Opened);
        row.state = state;
        if matches!(act, ListenerAct::Release | ListenerAct::Flush) {
            self.queue(listener.0);
        }
    }

    /// Puts a listener for which something waits on the list.
    fn queue(&mut self, key: Key) {
        if let Some(row) = self.listeners.get_mut(key)
            && row.waits()
            && !std::mem::replace(&mut row.queued, true)
        {
            self.ready.push_back(key);
        }
    }

    /// Ends a listener in order: a [`Parcel::Finish`] follows when everything before it is written.
    pub(super) fn end_listener(&mut self, listener: ListenerId) {
        let Some(row) = self.listeners.get_mut(listener.0) else { return };
        let (state, act) = row.state.step(ListenerEvent::End);
        row.state = state;
        if act == ListenerAct::Flush {
            self.queue(listener.0);
        }
    }

    /// Ends a listener now: nothing more is written for it. `false`: it was not there.
    pub(super) fn drop_listener(&mut self, listener: ListenerId) -> bool {
        let Some(row) = self.listeners.get_mut(listener.0) else { return false };
        let (state, act) = row.state.step(ListenerEvent::Abort);
        row.state = state;
        if act == ListenerAct::Forget {
            self.remove_listener(listener.0);
        }
        true
    }

    fn remove_listener(&mut self, key: Key) {
        let Some(row) = self.listeners.remove(key) else { return };
        for place in row.filter.methods().common(self.protocol.lists()).places() {
            if let Some(members) = self.by_list.get_mut(place) {
                members.left(&self.listeners);
            }
        }
        for (method, name) in row.filter.names() {
            let Some(by_name) = self.by_name.get_mut(method) else { continue };
            let Some(members) = by_name.get_mut(name) else { continue };
            members.leave(key);
            if members.is_empty() {
                by_name.remove(name);
            }
        }
        if let Some(sink) = self.sinks.get_mut(row.sink) {
            sink.listeners.retain(|other| *other != key);
        }
    }

    /// The host lets go of a sink. Says how many listeners went with it.
    pub(super) fn drop_sink(&mut self, sink: SinkId) -> usize {
        let Some(key) = self.key(sink) else { return 0 };
        self.step_sink(key, SinkEvent::Close);
        let ended = self.end_all_of(key);
        if self.sinks.remove(key).is_some_and(|row| !row.reachable) {
            self.unreachable -= 1;
        }
        ended
    }

    fn end_all_of(&mut self, sink: Key) -> usize {
        let Some(row) = self.sinks.get_mut(sink) else { return 0 };
        let listeners = std::mem::take(&mut row.listeners);
        for key in &listeners {
            self.remove_listener(*key);
        }
        listeners.len()
    }

    fn step_sink(&mut self, key: Key, event: SinkEvent) -> SinkAct {
        let Some(row) = self.sinks.get_mut(key) else { return SinkAct::Nothing };
        let (state, act) = row.state.step(event);
        row.state = state;
        act
    }

    /// A sink did not take a frame. Says how many listeners went with it; `None`: it had failed or gone before.
    pub(super) fn broke(&mut self, sink: SinkId) -> Option<usize> {
        let key = self.key(sink)?;
        let reported = self.step_sink(key, SinkEvent::Broke) == SinkAct::Report;
        reported.then(|| self.end_all_of(key))
    }

    /// The host has written `frames` of what it was handed for a sink. `false`: the sink has failed or gone meanwhile.
    pub(super) fn written(&mut self, sink: SinkId, frames: u32) -> bool {
        let Some(row) = self.sinks.get_mut(sink.key) else { return false };
        row.handed = row.handed.saturating_sub(frames);
        if row.handed > 0 {
            row.late = self.now.saturating_add(row.deadline);
            return row.state == Sink::Writing;
        }
        let (state, act) = row.state.step(SinkEvent::Written);
        row.state = state;
        if act != SinkAct::Next {
            return state == Sink::Idle;
        }
        if let [only] = row.listeners[..] {
            self.after_write(only);
            return true;
        }
        for key in row.listeners.clone() {
            self.after_write(key);
        }
        true
    }

    fn after_write(&mut self, key: Key) {
        let Some(row) = self.listeners.get_mut(key) else { return };
        if std::mem::take(&mut row.acknowledging) {
            row.state = row.state.step(ListenerEvent::Opened).0;
        }
        self.queue(key);
    }

    /// Ends the sinks that have not written in time.
    pub(super) fn expire(&mut self, now: StoreMillis, mut ended: impl FnMut(SinkId, &[&Filter])) {
        self.now = self.now.max(now);
        while let Some((_, key)) = self.late.front().copied().filter(|(at, _)| *at <= now) {
            self.late.pop_front();
            let Some(row) = self.sinks.get_mut(key) else { continue };
            row.timed = row.state == Sink::Writing && row.late > now;
            if row.state != Sink::Writing {
                continue;
            }
            if row.timed {
                // It has been written to since.
                let later = row.late;
                self.insert_late(later, key);
                continue;
            }
            if self.step_sink(key, SinkEvent::Late) == SinkAct::Report {
                let Some(row) = self.sinks.get(key) else { continue };
                let filters: Vec<_> =
                    row.listeners.iter().filter_map(|key| self.listeners.get(*key)).map(|row| &row.filter).collect();
                ended(self.id(key), &filters);
                self.end_all_of(key);
            }
        }
    }

    fn insert_late(&mut self, at: StoreMillis, key: Key) {
        // Deadlines of one length come in order; others find their place.
        let after = self.late.iter().rev().take_while(|(other, _)| *other > at).count();
        self.late.insert(self.late.len() - after, (at, key));
    }

    pub(super) fn next_late(&self) -> Option<StoreMillis> {
        self.late.front().map(|(at, _)| *at)
    }

    /// One pass over the listeners that asked for it.
    pub(super) fn publish(&mut self, ready: &Ready<'_>) -> Fanout {
        let total = self.listeners.len() as u64;
        self.publishes = self.publishes.wrapping_add(1);
        let mut told = 0;
        let all_may = ready.audience.is_none() && self.unreachable == 0;
        for place in ready.lists.places() {
            let Some(members) = self.by_list.get(place) else { continue };
            for key in members.keys() {
                // Whoever has gone is in here for a while.
                let Some(row) = self.listeners.get_mut(*key) else { continue };
                let (_, act) = row.state.step(ListenerEvent::Publish);
                if act == ListenerAct::Ignore || !(all_may || may_hear(&self.sinks, row.sink, ready.audience)) {
                    continue;
                }
                row.lists = row.lists.and(MethodSet::one(place));
                if row.counted != self.publishes {
                    row.counted = self.publishes;
                    told += 1;
                }
                if act == ListenerAct::Tell && !row.queued {
                    row.queued = true;
                    self.ready.push_back(*key);
                }
            }
        }
        if let Some(named) = &ready.named {
            for (key, asked) in self.named(named.method, named.name) {
                let Some(row) = self.listeners.get_mut(key) else { continue };
                let (_, act) = row.state.step(ListenerEvent::Publish);
                if act == ListenerAct::Ignore || !(all_may || may_hear(&self.sinks, row.sink, ready.audience)) {
                    continue;
                }
                row.note(named.method, named.name, &named.frame, asked, self.limits.lag, self.protocol);
                if row.counted != self.publishes {
                    row.counted = self.publishes;
                    told += 1;
                }
                if act == ListenerAct::Tell && !row.queued {
                    row.queued = true;
                    self.ready.push_back(key);
                }
            }
        }
        Fanout { told, skipped: total - told, failed: 0 }
    }

    /// Something to tell one listener only.
    pub(super) fn note(&mut self, listener: ListenerId, method: usize, name: &str, frame: &Frame) {
        let Some(row) = self.listeners.get_mut(listener.0) else { return };
        row.note(method, name, frame, name, self.limits.lag, self.protocol);
        self.queue(listener.0);
    }

    /// The listeners of one thing, with the name they asked by: of the thing itself and, where that is the rule, of what it
    /// lies below. Who asked by several names is in it several times.
    fn named<'n>(&self, method: usize, name: &'n str) -> Vec<(Key, &'n str)> {
        let Some(by_name) = self.by_name.get(method).filter(|by_name| !by_name.is_empty()) else { return Vec::new() };
        let keys = |asked: &str| by_name.get(asked).map(Members::keys).unwrap_or_default();
        let mut found: Vec<_> = keys(name).iter().map(|key| (*key, name)).collect();
        for asked in above(name) {
            let below = |key: &&Key| self.listeners.get(**key).is_some_and(|row| row.below);
            found.extend(keys(asked).iter().filter(below).map(|key| (*key, asked)));
        }
        found
    }

    /// Hands out frames, at least `max` if there are so many: all that waits for one listener belongs together.
    pub(super) fn take(&mut self, max: usize, now: StoreMillis) -> Vec<Parcel> {
        self.now = self.now.max(now);
        self.drains = self.drains.wrapping_add(1);
        let mut parcels = Vec::with_capacity(max.min(self.ready.len()));
        while parcels.len() < max {
            let Some(key) = self.ready.pop_front() else { break };
            self.hand_out(key, &mut parcels);
        }
        parcels
    }

    fn hand_out(&mut self, key: Key, parcels: &mut Vec<Parcel>) {
        let Some(row) = self.listeners.get_mut(key) else { return };
        row.queued = false;
        let Some(sink) = self.sinks.get_mut(row.sink) else { return };
        if sink.state == Sink::Writing && sink.drain != self.drains {
            return; // it comes up again when that is written
        }
        let (at, listener) = (SinkId { outbox: self.number, key: row.sink }, ListenerId(key));
        let before = parcels.len();
        let parcel = |frame, tag| Parcel::Frame { sink: at, listener, frame, tag };
        if let Some(acknowledgement) = row.acknowledgement.take() {
            row.acknowledging = true;
            parcels.push(parcel(acknowledgement, row.tag.clone()));
        } else if row.state == ListenerState::Active || row.state == ListenerState::Ending {
            for place in std::mem::take(&mut row.lists).places() {
                if let Some(Some(frame)) = self.lists_frames.get(place) {
                    parcels.push(parcel(frame.clone(), row.tag.clone()));
                }
            }
            for waiting in std::mem::take(&mut row.names) {
                parcels.push(parcel(waiting.frame, row.tag.clone()));
            }
        }
        let handed = parcels.len() - before;
        if handed == 0 {
            if row.state == ListenerState::Ending && sink.state == Sink::Idle {
                let (state, act) = row.state.step(ListenerEvent::Drained);
                row.state = state;
                if act == ListenerAct::Finish {
                    parcels.push(Parcel::Finish { sink: at, listener });
                    self.remove_listener(key);
                }
            }
            return;
        }
        let (state, _) = sink.state.step(SinkEvent::Handed);
        let first = sink.state != Sink::Writing;
        sink.state = state;
        sink.drain = self.drains;
        sink.handed += u32::try_from(handed).unwrap_or(u32::MAX);
        sink.late = self.now.saturating_add(sink.deadline);
        if first && !std::mem::replace(&mut sink.timed, true) {
            let (late, key) = (sink.late, row.sink);
            self.insert_late(late, key);
        }
    }

    /// Every sink.
    pub(super) fn sinks(&self) -> Vec<SinkId> {
        self.sinks.keys().map(|key| self.id(key)).collect()
    }

    /// Every listener that sent a filter.
    pub(super) fn with_filters(&self) -> Vec<ListenerId> {
        let tagged = |key: &Key| self.listeners.get(*key).is_some_and(|row| row.tag.is_some());
        self.listeners.keys().filter(tagged).map(ListenerId).collect()
    }
}

#[inline]
fn may_hear(sinks: &Table<SinkRow>, sink: Key, audience: Option<&str>) -> bool {
    sinks.get(sink).is_some_and(|sink| {
        sink.reachable && audience.is_none_or(|audience| sink.principal.as_deref() == Some(audience))
    })
}
