//! The lines in which deliveries wait: one for each endpoint, and what the lines of one host share.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tidings_proto::delivery::{EndpointKey, Learned, Proof, Standing};
use tidings_proto::time::StoreMillis;

use crate::commit::EndpointNews;
use crate::flow::{HostRow, Line};
use crate::record::{EndpointOwner, EndpointRecord, OriginProof};

#[derive(Default)]
pub(super) struct Lines {
    rows: HashMap<EndpointKey, Row>,
    /// Lines in which something may go, by (at, turn): of endpoints for which something speaks, and of suspects.
    ready: [BTreeSet<(StoreMillis, i64, u64, EndpointKey)>; 2],
    /// Endpoints that have to be verified, by when.
    unverified: BTreeSet<(StoreMillis, u64, EndpointKey)>,
    /// In the order in which they came to be.
    order: BTreeMap<u64, EndpointKey>,
    hosts: HashMap<String, HostRow>,
    shares: HashMap<(String, String), i64>,
    /// What origins published, by principal and origin.
    proofs: HashMap<(String, String), OriginProof>,
    next: u64,
}

#[derive(Clone)]
pub(super) struct Row {
    n: u64,
    owner: EndpointOwner,
    standing: Standing,
    tat: i64,
    at: Option<StoreMillis>,
    turn: i64,
    named_at: StoreMillis,
}

/// What stood there before the change.
pub(super) enum Undo {
    Row(EndpointKey, Option<Box<Row>>),
    Host(String, Option<HostRow>),
    Share((String, String), Option<i64>),
    Proof((String, String), Option<Box<OriginProof>>),
}

impl From<Undo> for super::Undo {
    fn from(undo: Undo) -> Self {
        Self::Line(undo)
    }
}

impl Lines {
    fn put(&mut self, key: EndpointKey, row: Option<Row>) -> Option<Row> {
        let before = self.rows.remove(&key);
        if let Some(row) = &before {
            self.order.remove(&row.n);
            if let Some(at) = row.at {
                self.ready[usize::from(row.standing.is_suspect())].remove(&(at, row.turn, row.n, key));
            }
            if let Some(at) = row.standing.verify_at {
                self.unverified.remove(&(at, row.n, key));
            }
        }
        if let Some(row) = row {
            self.order.insert(row.n, key);
            if let Some(at) = row.at {
                self.ready[usize::from(row.standing.is_suspect())].insert((at, row.turn, row.n, key));
            }
            if let Some(at) = row.standing.verify_at {
                self.unverified.insert((at, row.n, key));
            }
            self.rows.insert(key, row);
        }
        before
    }

    fn change(&mut self, key: EndpointKey, row: Option<Row>, undo: &mut Vec<super::Undo>) {
        let before = self.put(key, row);
        undo.push(Undo::Row(key, before.map(Box::new)).into());
    }

    pub(super) fn take_back(&mut self, undo: Undo) {
        match undo {
            Undo::Row(key, before) => drop(self.put(key, before.map(|row| *row))),
            Undo::Host(host, before) => restore(&mut self.hosts, host, before),
            Undo::Share(key, before) => restore(&mut self.shares, key, before),
            Undo::Proof(key, before) => restore(&mut self.proofs, key, before.map(|proof| *proof)),
        }
    }

    fn new_row(&mut self, owner: EndpointOwner, standing: Standing, now: StoreMillis) -> Row {
        self.next += 1;
        Row { n: self.next, owner, standing, tat: 0, at: None, turn: 0, named_at: now }
    }

    /// Makes sure that the endpoint of a delivery is there.
    pub(super) fn ensure(&mut self, key: EndpointKey, principal: &str, now: StoreMillis, undo: &mut Vec<super::Undo>) {
        if !self.rows.contains_key(&key) {
            let owner = EndpointOwner { principal: principal.to_owned(), ..EndpointOwner::default() };
            let policy = tidings_proto::delivery::EndpointPolicy::default();
            let standing = Standing::default().learn(&policy, Learned::NamedTrusted(Proof::Address), now);
            let row = self.new_row(owner, standing, now);
            self.change(key, Some(row), undo);
        }
    }

    /// Notes what was learned. Answers whether the endpoint is known.
    pub(super) fn learn(&mut self, news: &EndpointNews, undo: &mut Vec<super::Undo>) -> bool {
        let is_name = matches!(news.learned, Learned::NamedForProof | Learned::NamedTrusted(_));
        let mut row = match self.rows.get(&news.key) {
            Some(row) => row.clone(),
            None if is_name => self.new_row(news.owner.clone(), Standing::default(), news.now),
            None => return false,
        };
        let before = row.standing;
        row.standing = before.learn(&news.policy, news.learned, news.now);
        if is_name && row.standing != before {
            row.owner.route = news.owner.route.clone();
        }
        if is_name {
            row.named_at = row.named_at.max(news.now);
        }
        self.change(news.key, Some(row), undo);
        true
    }

    /// Sees to it that the line is looked at no later than at `at`.
    pub(super) fn wake(&mut self, key: EndpointKey, at: StoreMillis, undo: &mut Vec<super::Undo>) {
        if let Some(mut row) = self.rows.get(&key).filter(|row| row.at.is_none_or(|then| then > at)).cloned() {
            row.at = Some(at);
            self.change(key, Some(row), undo);
        }
    }

    pub(super) fn take_unverified(
        &mut self,
        now: StoreMillis,
        until: StoreMillis,
        limit: u32,
        undo: &mut Vec<super::Undo>,
    ) -> Vec<EndpointRecord> {
        let due = self.unverified.iter().take_while(|(at, ..)| *at <= now).take(limit as usize);
        let keys: Vec<_> = due.map(|(.., key)| *key).collect();
        let mut taken = Vec::with_capacity(keys.len());
        for key in keys {
            let Some(mut row) = self.rows.get(&key).cloned() else { continue };
            taken.push(row.record(key));
            row.standing.verify_at = Some(until);
            self.change(key, Some(row), undo);
        }
        taken
    }

    pub(super) fn first_ready(&self, now: StoreMillis, suspects: bool) -> Option<EndpointKey> {
        let [good, suspect] = &self.ready;
        let firsts = good.first().into_iter().chain(suspect.first().filter(|_| suspects));
        firsts.min().filter(|(at, ..)| *at <= now).map(|(.., key)| *key)
    }

    pub(super) fn line(&self, key: EndpointKey) -> Option<Line> {
        self.rows.get(&key).map(|row| Line {
            standing: row.standing,
            principal: row.owner.principal.clone(),
            host: row.owner.host.clone(),
            tat: row.tat,
            at: row.at,
            turn: row.turn,
        })
    }

    pub(super) fn put_line(&mut self, key: EndpointKey, line: &Line, undo: &mut Vec<super::Undo>) {
        if let Some(mut row) = self.rows.get(&key).cloned() {
            (row.standing, row.tat, row.at, row.turn) = (line.standing, line.tat, line.at, line.turn);
            self.change(key, Some(row), undo);
        }
    }

    pub(super) fn host(&self, host: &str) -> HostRow {
        self.hosts.get(host).copied().unwrap_or_default()
    }

    pub(super) fn put_host(&mut self, host: &str, row: HostRow, undo: &mut Vec<super::Undo>) {
        let before = self.hosts.insert(host.to_owned(), row);
        undo.push(Undo::Host(host.to_owned(), before).into());
    }

    pub(super) fn share(&self, host: &str, principal: &str) -> i64 {
        self.shares.get(&(host.to_owned(), principal.to_owned())).copied().unwrap_or_default()
    }

    pub(super) fn put_share(&mut self, host: &str, principal: &str, tag: i64, undo: &mut Vec<super::Undo>) {
        let key = (host.to_owned(), principal.to_owned());
        let before = self.shares.insert(key.clone(), tag);
        undo.push(Undo::Share(key, before).into());
    }

    pub(super) fn prove_origin(&mut self, proof: &OriginProof, undo: &mut Vec<super::Undo>) {
        let key = (proof.principal.clone(), proof.origin.clone());
        let before = self.proofs.insert(key.clone(), proof.clone());
        undo.push(Undo::Proof(key, before.map(Box::new)).into());
    }

    pub(super) fn origin_proof(&self, principal: &str, origin: &str) -> Option<OriginProof> {
        self.proofs.get(&(principal.to_owned(), origin.to_owned())).cloned()
    }

    /// Forgets up to `limit` of what origins published and what does not count `now`.
    pub(super) fn forget_proofs(&mut self, now: StoreMillis, limit: usize, undo: &mut Vec<super::Undo>) {
        let old = self.proofs.iter().filter(|(_, proof)| proof.until <= now).take(limit);
        let keys: Vec<_> = old.map(|(key, _)| key.clone()).collect();
        for key in keys {
            let before = self.proofs.remove(&key).map(Box::new);
            undo.push(Undo::Proof(key, before).into());
        }
    }

    pub(super) fn next_due(&self) -> Option<StoreMillis> {
        let ready = self.ready.iter().filter_map(|lines| lines.first()).map(|(at, ..)| *at);
        ready.chain(self.next_verification()).min()
    }

    pub(super) fn next_verification(&self) -> Option<StoreMillis> {
        self.unverified.first().map(|(at, ..)| *at)
    }

    pub(super) fn record(&self, key: EndpointKey) -> Option<EndpointRecord> {
        self.rows.get(&key).map(|row| row.record(key))
    }

    pub(super) fn records(&self, principal: Option<&str>, limit: u32) -> Vec<EndpointRecord> {
        let all = self.order.values().filter_map(|key| self.record(*key));
        all.filter(|record| principal.is_none_or(|wanted| record.owner.principal == wanted))
            .take(limit as usize)
            .collect()
    }

    /// Forgets up to `limit` endpoints that were named last at or before `by` and that nothing refers to. Answers how many.
    pub(super) fn forget(
        &mut self,
        by: StoreMillis,
        used: impl Fn(EndpointKey) -> bool,
        limit: usize,
        undo: &mut Vec<super::Undo>,
    ) -> usize {
        let old = self.rows.iter().filter(|(key, row)| row.named_at <= by && !used(**key));
        let keys: Vec<_> = old.map(|(key, _)| *key).take(limit).collect();
        for key in &keys {
            self.change(*key, None, undo);
        }
        keys.len()
    }
}

impl Row {
    fn record(&self, key: EndpointKey) -> EndpointRecord {
        EndpointRecord { key, owner: self.owner.clone(), standing: self.standing }
    }
}

fn restore<K: std::hash::Hash + Eq, V>(map: &mut HashMap<K, V>, key: K, before: Option<V>) {
    match before {
        Some(value) => drop(map.insert(key, value)),
        None => drop(map.remove(&key)),
    }
}
