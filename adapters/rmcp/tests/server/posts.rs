//! The hub's own webhook receiver, waited for without holding up the runtime.

use std::sync::Arc;

use crate::receiver::{Receiver, Request};

pub struct Posts(Arc<Receiver>);

impl Posts {
    pub fn start() -> Self {
        Self(Arc::new(Receiver::ok()))
    }

    pub fn endpoint(&self) -> &str {
        &self.0.endpoint
    }

    pub fn count(&self) -> usize {
        self.0.requests().len()
    }

    /// The newest once there are so many.
    pub async fn requested(&self, count: usize) -> Request {
        let receiver = Arc::clone(&self.0);
        let requests = tokio::task::spawn_blocking(move || receiver.wait_for(count)).await.expect("they come");
        requests.into_iter().next_back().expect("one")
    }
}
