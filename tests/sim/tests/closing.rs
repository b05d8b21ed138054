//! What a hub still records while it closes.

mod web;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidings::store::{DeliveryState, MemoryStore, Store, StoreError};
use tidings::{Durability, simulation};
use tidings_store::layer::Layer;
use tokio::time::sleep;
use web::{STEP, Web, begin, options, runtime, world};

/// A store that can be read when its hub has closed it.
#[derive(Default)]
struct Kept(MemoryStore);

impl Layer for Kept {
    fn below(&self) -> &dyn Store {
        &self.0
    }

    fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Somebody has closed the stream of receipts, so that what is recorded with a receipt is refused; and one attempt hangs, so that the
/// other's outcome is recorded in the last turn. It is recorded without its receipt, then as at any other time.
#[test]
fn an_outcome_that_is_refused_in_the_last_turn_is_recorded() {
    runtime().block_on(async {
        let web = Arc::new(Web::default());
        web.hanging.store(true, Ordering::SeqCst);
        let store = Arc::new(Kept::default());
        let (hub, threads) =
            simulation::over(Arc::clone(&store) as Arc<dyn Store>, options(), world(&web)).expect("a hub");
        let receipts = hub.stream("p", "deliveries").expect("a stream");
        receipts.close(Vec::new(), Durability::Process).await.expect("closed");
        for url in ["http://one.example/hangs", "http://one.example/answers"] {
            let call = begin(&hub, url).await;
            call.fire(STEP, b"{}").expect("numbered");
        }
        while web.asked.load(Ordering::SeqCst) < 2 {
            sleep(Duration::from_millis(1)).await;
        }
        hub.close(Duration::from_secs(10));
        threads.ended().await;
        let of = |state| store.0.deliveries(None, None, Some(state), 10).expect("reads").len();
        assert_eq!(of(DeliveryState::Delivered), 1);
        assert_eq!(of(DeliveryState::Retrying), 1, "the one that hangs was cut");
    });
}
