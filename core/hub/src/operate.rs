//! What an operator does by hand: dead letters, endpoints, pauses, numbers.

use std::time::Duration;

use tidings_proto::delivery::{DeliveryState, DisableReason, EndpointKey, Learned, RetryPolicy, deadline};
use tidings_store::{
    AttemptRecord, Commit, DeliveryId, DeliverySummary, Done, Durability, EndpointRecord, NewDelivery, Op, Outlet,
    Purge,
};

use crate::core::Core;
use crate::error::{Error, ErrorCode, Result};
use crate::hub::{Hub, Stats};
use crate::metrics::{head, line};
use crate::plan;
use crate::target;

/// How often a drain looks whether the last attempt has ended.
const LOOK: Duration = Duration::from_millis(20);

impl Hub {
    /// The attempts of a delivery that were settled, in order, by category and time.
    pub fn attempts(&self, id: DeliveryId) -> Result<Vec<AttemptRecord>> {
        Ok(self.core()?.store.attempts(id)?)
    }

    /// What a delivery carries, whatever became of it: the body as it was sent, where its route encrypts before that, and the
    /// route itself. `None`: there is none of that id.
    pub fn stored_delivery(&self, id: DeliveryId) -> Result<Option<NewDelivery>> {
        Ok(self.core()?.store.stored_delivery(id)?)
    }

    /// Sends a dead letter again: a new delivery of the same firing, with the same `webhook-id` and bytes, over the same
    /// route, with as many attempts and as much time as the first one had. Where the route batches it goes out in a batch of
    /// its own, or with others that are sent again. Answers its id.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`] where there is no delivery of that id, or it was not given up.
    pub async fn send_again(&self, id: DeliveryId) -> Result<DeliveryId> {
        let core = self.core()?;
        let state = state_of(&core, id)?;
        if !matches!(state, Some(DeliveryState::Dead | DeliveryState::Expired)) {
            return Err(Error::new(ErrorCode::InvalidArgument, "id: names no delivery that is dead or expired"));
        }
        let old = core.store.stored_delivery(id)?;
        let old =
            old.ok_or_else(|| Error::new(ErrorCode::Unsupported, "the delivery's route does not open any more"))?;
        let now = core.timeline.now();
        let lifetime = u64::try_from(old.deadline.saturating_sub(old.created_at)).ok();
        let until = deadline(now, None, lifetime);
        let batch =
            plan::read(&old.route)?.pop().and_then(|route| plan::batch(&core, &route, !old.fallback.0.is_empty()));
        let hand_over = RetryPolicy::with_successor().hand_over_ms.filter(|_| !old.fallback.0.is_empty());
        let wait_until = hand_over.map_or(until, |ms| now.saturating_add_unsigned(ms).min(until));
        let new = NewDelivery {
            id: DeliveryId(core.random()?),
            due: now,
            created_at: now,
            deadline: until,
            wait_until,
            // The cursor in it was a watermark when it was enqueued first; what came later went on without it.
            seq: None,
            batch,
            outlet: old.outlet.clone().map(|outlet| Outlet { until: wait_until, ..outlet }),
            ..old
        };
        let id = new.id;
        core.commit(Commit::new(Durability::Disk, vec![Op::Enqueue(Box::new(new))])).await?;
        core.work.notify_one();
        Ok(id)
    }

    /// Forgets finished deliveries before their time: this one, or all for which what is named holds. Answers how many.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidArgument`] for a state that is not final.
    pub async fn purge(
        &self,
        id: Option<DeliveryId>,
        principal: Option<&str>,
        state: Option<DeliveryState>,
    ) -> Result<u64> {
        if state.is_some_and(|state| !state.is_final()) {
            return Err(Error::new(ErrorCode::InvalidArgument, "state: must be one that is final"));
        }
        let core = self.core()?;
        let mut all = 0;
        loop {
            let purge = Purge { id, principal: principal.map(str::to_owned), state, limit: 500 };
            let done = core.commit(Commit::new(Durability::Process, vec![Op::Purge(purge)])).await?;
            let count = done.iter().map(|done| if let Done::Purged(count) = done { *count } else { 0 }).sum::<u32>();
            all += u64::from(count);
            if count == 0 {
                return Ok(all);
            }
        }
    }

    /// Endpoints of a principal, or all, at most `limit`.
    pub fn endpoints(&self, principal: Option<&str>, limit: u32) -> Result<Vec<EndpointRecord>> {
        Ok(self.core()?.store.endpoints(principal, limit)?)
    }

    /// Has an endpoint tried again: verified anew where it needs that, else at once.
    pub async fn enable_endpoint(&self, key: EndpointKey) -> Result<()> {
        self.tell_endpoint(key, Learned::Enable).await
    }

    /// Sends nothing more to an endpoint, until it is enabled or verified again; what waits for it is given up.
    pub async fn disable_endpoint(&self, key: EndpointKey) -> Result<()> {
        self.tell_endpoint(key, Learned::Disable(DisableReason::Operator)).await
    }

    async fn tell_endpoint(&self, key: EndpointKey, learned: Learned) -> Result<()> {
        let core = self.core()?;
        if core.store.endpoint(key)?.is_none() {
            return Err(Error::new(ErrorCode::InvalidArgument, "key: names no endpoint"));
        }
        core.commit(Commit::new(Durability::Disk, vec![target::learned(&core, key, learned)])).await?;
        core.work.notify_one();
        Ok(())
    }

    /// Holds deliveries and verifications back in this process until [`unpause`](Self::unpause): attempts under way go on to
    /// their end, none is begun. What fires meanwhile is kept. Other processes of the store go on.
    pub fn pause(&self) -> Result<()> {
        self.core()?.set_paused(true);
        Ok(())
    }

    /// Ends a [`pause`](Self::pause).
    pub fn unpause(&self) -> Result<()> {
        self.core()?.set_paused(false);
        Ok(())
    }

    /// Pauses, and waits until the attempts under way here have ended, at most this long. Says whether they have.
    pub async fn drain(&self, wait: Duration) -> Result<bool> {
        let core = self.core()?;
        core.set_paused(true);
        let looking = std::sync::Arc::clone(&core);
        let drained = core.spawn(async move {
            let ended = async {
                while looking.load.all() > 0 {
                    tokio::time::sleep(LOOK).await;
                }
            };
            tokio::time::timeout(wait, ended).await.is_ok()
        });
        match drained {
            Some(drained) => drained.await.map_err(|_| Error::closed("hub")),
            None => Err(Error::closed("hub")),
        }
    }

    /// The counters of [`stats`](Self::stats) and more in Prometheus's text format. Counts of this process since it opened
    /// the hub; no label holds a name that somebody else chose.
    pub fn prometheus(&self) -> String {
        let stats = self.stats();
        let mut out = String::new();
        let Stats { groups, events, lost, failures, buffered, in_flight, .. } = stats;
        for (name, kind, help, value) in [
            ("tidings_commit_groups_total", "counter", "Groups of commits.", groups),
            ("tidings_events_total", "counter", "Events committed for writers of this process.", events),
            ("tidings_events_lost_total", "counter", "Events given up while the store was down.", lost),
            ("tidings_commit_failures_total", "counter", "Groups of commits that failed.", failures),
            ("tidings_buffered_bytes", "gauge", "Bytes of events that wait for the store.", buffered),
            ("tidings_attempts_in_flight", "gauge", "Attempts at webhooks under way.", in_flight),
        ] {
            head(&mut out, name, kind, help);
            line(&mut out, name, &[], value);
        }
        if let Some(core) = self.opened() {
            core.counters.write(&mut out);
        }
        out
    }
}

fn state_of(core: &Core, id: DeliveryId) -> Result<Option<DeliveryState>> {
    let Some(stored) = core.store.stored_delivery(id)? else { return Ok(None) };
    let all = core.store.deliveries(None, Some(&stored.subject), None, u32::MAX)?;
    Ok(all.iter().find(|one: &&DeliverySummary| one.id == id).map(|one| one.state))
}
