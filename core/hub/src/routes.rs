//! Stored routes that were read not long ago: deliveries over one route have the same text, and reading it takes longer than
//! looking for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tidings_proto::config::Route;
use tidings_store::Sealed;

use crate::error::{Error, ErrorCode, Result};
use crate::notify::lock;
use crate::plan;

/// At most so many are kept, so that routes whose texts all differ (a trace context of each call) take little memory.
const KEPT: usize = 1_024;

/// A route, and whether it was asked for since the last sweep.
struct Read {
    route: Arc<Route>,
    used: bool,
}

/// What was read, by its text. Both hold secrets: what nobody asks for does not stay.
#[derive(Default)]
pub(crate) struct Routes {
    read: Mutex<HashMap<Bytes, Read>>,
}

impl Routes {
    /// The route that [`plan::seal`] wrote as the text of one delivery.
    pub(crate) fn read(&self, text: &Sealed) -> Result<Arc<Route>> {
        if let Some(known) = lock(&self.read).get_mut(&text.0) {
            known.used = true;
            return Ok(Arc::clone(&known.route));
        }
        let route = plan::read(text)?.pop();
        let route = route.ok_or_else(|| Error::new(ErrorCode::Internal, "the delivery holds no route"))?;
        let route = Arc::new(route);
        let mut read = lock(&self.read);
        if read.len() < KEPT {
            read.insert(text.0.clone(), Read { route: Arc::clone(&route), used: true });
        }
        Ok(route)
    }

    /// Forgets what was not asked for since this was done last.
    pub(crate) fn sweep(&self) {
        lock(&self.read).retain(|_, known| std::mem::take(&mut known.used));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(id: usize) -> Sealed {
        let url = "https://hooks.example/";
        let text =
            format!(r#"{{"routes":[{{"id":"{id}","type":"webhook","endpoint":"{url}","triggers":["completed"]}}]}}"#);
        Sealed(text.into())
    }

    #[test]
    fn a_route_is_read_once_while_it_is_used() {
        let routes = Routes::default();
        let (first, other) = (routes.read(&text(1)).unwrap(), routes.read(&text(2)).unwrap());
        assert_eq!((first.id.as_str(), other.id.as_str()), ("1", "2"));
        routes.sweep();
        assert!(Arc::ptr_eq(&first, &routes.read(&text(1)).unwrap()), "used since the sweep before");
        routes.sweep();
        assert!(Arc::ptr_eq(&first, &routes.read(&text(1)).unwrap()));
        assert!(!Arc::ptr_eq(&other, &routes.read(&text(2)).unwrap()), "not used between two sweeps: read anew");
        routes.sweep();
        routes.sweep();
        assert!(lock(&routes.read).is_empty(), "nothing stays that nobody asks for");
    }

    #[test]
    fn no_more_are_kept_than_the_bound() {
        let routes = Routes::default();
        for id in 0..KEPT + 10 {
            assert_eq!(routes.read(&text(id)).unwrap().id, id.to_string());
        }
        assert_eq!(lock(&routes.read).len(), KEPT);
    }

    #[test]
    fn what_is_no_route_is_an_error_each_time() {
        let routes = Routes::default();
        for bad in ["", "{", r#"{"routes":[]}"#] {
            for _ in 0..2 {
                assert!(routes.read(&Sealed(bad.into())).is_err(), "{bad}");
            }
        }
        assert!(lock(&routes.read).is_empty());
    }
}
