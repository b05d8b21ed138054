//! Requests that nothing lets outlive their connection: from 2026-07-28 on, whoever leaves cancels what it asked for.

use std::pin::pin;
use std::time::Duration;

use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::call::gone;
use crate::principal::is_modern;
use crate::wire;

/// How long a handler that was cancelled may take to end by itself, as long as rmcp waits for one that it cancels; then it is
/// dropped.
const GRACE: Duration = Duration::from_secs(2);

/// Serves a request as long as its client is there. rmcp goes on with one whose stream is kept, since its client could come back;
/// the specification (2026-07-28, "Cancellation") has the closed stream be the cancel. A request of an older client goes on, and so
/// does one of which nobody tells whether its client has gone; see [`Front`](crate::Front).
pub(crate) async fn while_connected<T, F>(
    mut context: RequestContext<RoleServer>,
    serve: impl FnOnce(RequestContext<RoleServer>) -> F,
) -> Result<T, ErrorData>
where
    F: Future<Output = Result<T, ErrorData>>,
{
    let Some(gone) = gone(&context).filter(|_| is_modern(&context)) else { return serve(context).await };
    let stop = context.ct.child_token();
    context.ct = stop.clone();
    unless(&gone, &stop, GRACE, serve(context)).await.unwrap_or_else(|| Err(wire::disconnected()))
}

/// `None`: the client had gone before it ended, and whatever it came to after that is nobody's.
async fn unless<T>(
    gone: &CancellationToken,
    stop: &CancellationToken,
    grace: Duration,
    serving: impl Future<Output = T>,
) -> Option<T> {
    let mut serving = pin!(serving);
    tokio::select! {
        biased;
        served = &mut serving => return Some(served),
        () = gone.cancelled() => {}
    }
    stop.cancel();
    drop(timeout(grace, serving).await);
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn tokens() -> (CancellationToken, CancellationToken) {
        (CancellationToken::new(), CancellationToken::new())
    }

    #[tokio::test]
    async fn who_stays_has_its_answer() {
        let (gone, stop) = tokens();
        assert_eq!(unless(&gone, &stop, GRACE, async { 7 }).await, Some(7));
        // What is there already is not taken away by a client that leaves at that moment.
        gone.cancel();
        assert_eq!(unless(&gone, &stop, GRACE, async { 7 }).await, Some(7));
        assert!(!stop.is_cancelled());
    }

    #[tokio::test]
    async fn a_handler_that_listens_tidies_up_and_its_answer_is_nobodys() {
        let (gone, stop) = tokens();
        gone.cancel();
        let mut tidied = false;
        let serving = async {
            stop.cancelled().await;
            tokio::task::yield_now().await;
            tidied = true;
        };
        assert_eq!(unless(&gone, &stop, GRACE, serving).await, None);
        assert!(tidied);
    }

    #[tokio::test]
    async fn a_handler_that_does_not_listen_is_dropped() {
        let (gone, stop) = tokens();
        gone.cancel();
        let holds = Arc::new(());
        let held = Arc::clone(&holds);
        let serving = async move {
            std::future::pending::<()>().await;
            drop(held);
        };
        assert_eq!(unless(&gone, &stop, Duration::ZERO, serving).await, None);
        assert_eq!(Arc::strong_count(&holds), 1);
    }
}
