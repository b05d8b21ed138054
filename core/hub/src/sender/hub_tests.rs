//! The rules about addresses on a whole hub: from the config that names an endpoint to the receipt that its client reads.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidings_proto::address::{Network, Policy};
use tidings_proto::id::RequestId;
use tidings_store::{MemoryStore, Store};

use super::tests::{DENIED_ANSWERS, DENIED_HOSTS, DENIED_NAMES};
use super::*;
use crate::{After, BeginCall, Call, ErrorCode, Hub, SystemClock, Verify};

/// The longest wait for anything: only a failure lasts that long.
const HANG: Duration = Duration::from_secs(60);
/// An address where nobody listens, and which the operator allows.
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// The name that leads there. All others lead to denied addresses.
const REFUSED: &str = "refused.example";

/// Answers to the names `NUMBER.KIND.example`: the denied address of that number, alone or among good ones.
struct Resolver(Arc<AtomicUsize>);

impl Net for Resolver {
    fn lookup<'a>(&'a self, name: &'a str, _: u16) -> Lookup<'a> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            if name == REFUSED {
                return Ok(vec![NOBODY]);
            }
            let mut parts = name.split('.');
            let number: usize = parts.next().and_then(|number| number.parse().ok()).ok_or(io::ErrorKind::NotFound)?;
            let bad: IpAddr = DENIED_ANSWERS[number].parse().map_err(|_| io::ErrorKind::NotFound)?;
            Ok(match parts.next() {
                Some("first") => vec![bad, NOBODY],
                Some("last") => vec![NOBODY, bad],
                _ => vec![bad],
            })
        })
    }
}

/// A listener that counts who connects to it, and on whose port everything is asked for.
struct Trap {
    port: u16,
    connections: Arc<AtomicUsize>,
}

impl Trap {
    /// Counts until the program ends: the thread holds nothing that anybody waits for.
    fn new() -> Self {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        std::thread::spawn(move || {
            while listener.accept().is_ok() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { port, connections }
    }

    /// `http` and the port are allowed, so that nothing but the address is in the way.
    fn hub(&self, verify: Verify) -> (Hub, Arc<MemoryStore>, Arc<AtomicUsize>) {
        let mut options = Options { verify, ..Options::default() };
        options.address = Policy {
            allow_http: true,
            allow_ports: vec![self.port],
            allow_networks: vec![Network::parse("127.0.0.2/32").unwrap()],
            ..Policy::default()
        };
        let (store, lookups) = (Arc::new(MemoryStore::new()), Arc::new(AtomicUsize::new(0)));
        let sender = Sender::with_net(&options, Box::new(Resolver(Arc::clone(&lookups))));
        let clock = Arc::new(SystemClock);
        let given = Arc::clone(&store) as Arc<dyn Store>;
        let core =
            crate::core::Core::start_with(given, options.clone(), clock.clone(), sender, Arc::default()).unwrap();
        (Hub::of(core, options, clock), store, lookups)
    }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async { timeout(HANG, future).await.expect("this hangs") })
}

fn begin(hub: &Hub, principal: &str, endpoint: &str) -> Result<Call> {
    let config = format!(
        r#"{{"routes":[{{"id":"r","type":"webhook","endpoint":"{endpoint}","triggers":["completed"],"deadlineMs":1000}}]}}"#
    );
    wait(hub.begin_call(BeginCall {
        config: Some(config.as_bytes()),
        route_types: &["webhook"],
        principal,
        session: None,
        peer: None,
        open: &[],
        request_id: &RequestId::from(7_i64),
        tool: "tool",
        timeout: None,
        task: None,
    }))
}

/// A literal address is refused with the config, in whatever way it is written: nothing runs, nothing is asked.
#[test]
fn a_literal_denied_address_is_refused_with_its_config() {
    let trap = Trap::new();
    for verify in [Verify::Address, Verify::Always] {
        let (hub, store, lookups) = trap.hub(verify);
        for host in DENIED_HOSTS.into_iter().chain(DENIED_NAMES) {
            let error = begin(&hub, "p", &format!("http://{host}:{}/", trap.port)).map(drop).expect_err(host);
            assert_eq!(error.code(), ErrorCode::InvalidConfig, "{host}");
        }
        assert!(store.endpoints(None, 1).unwrap().is_empty());
        assert_eq!(lookups.load(Ordering::SeqCst), 0);
    }
    assert_eq!(trap.connections.load(Ordering::SeqCst), 0);
}

/// What the client reads of one delivery, without what is drawn anew and how often there was time to try.
fn told(hub: &Hub, principal: &str) -> (String, String) {
    let stream = hub.stream(principal, "deliveries").unwrap();
    let event = wait(async {
        loop {
            if let Some(event) = stream.read(After::Earliest, Default::default()).unwrap().events.into_iter().next() {
                return event;
            }
            tokio::time::sleep(Duration::from_millis(10)).await; // the stream comes to be with its first receipt
        }
    });
    let text = String::from_utf8(event.payload.to_vec()).unwrap();
    let members = text.trim_matches(['{', '}']).split(',');
    let drawn = ["\"deliveryId\"", "\"eventId\"", "\"callId\"", "\"attempts\""];
    let kept: Vec<_> = members.filter(|member| !drawn.iter().any(|name| member.starts_with(name))).collect();
    (event.kind, kept.join(","))
}

/// Field case B57. A name that leads to a denied address, alone or among good ones, is never connected to: neither for a
/// delivery, nor for a challenge, nor for what its origin publishes. Its client is told no more than who named a port where
/// nobody listens; only the operator can tell.
#[test]
fn a_client_cannot_tell_a_denied_address_from_a_refused_connection() {
    let trap = Trap::new();
    // What it depends on is whether its time was over at an attempt or between two.
    for (verify, errors) in
        [(Verify::Address, &["connection_refused", "deadline"][..]), (Verify::Always, &["challenge_failed"])]
    {
        let (hub, store, lookups) = trap.hub(verify);
        let names: Vec<String> = (0..DENIED_ANSWERS.len())
            .flat_map(|number| ["only", "first", "last"].map(|kind| format!("{number}.{kind}.example")))
            .collect();
        let all = || names.iter().map(String::as_str).chain([REFUSED]);
        for name in all() {
            // One principal each, so that each has its receipts for itself.
            let call = begin(&hub, name, &format!("http://{name}:{}/", trap.port)).expect("a name is good");
            assert!(wait(call.complete(b"{}")).unwrap().committed);
        }
        let form = |error| format!(r#""trigger":"completed","route":"r","state":"expired","error":"{error}""#);
        for name in all() {
            let (kind, text) = told(&hub, name);
            assert_eq!(kind, "io.tidings.dead", "{name}");
            assert!(errors.iter().any(|error| text == form(error)), "{name}: {text}");
        }
        for one in store.deliveries(None, None, None, 1_000).unwrap() {
            let category = if one.principal == REFUSED { "connection_refused" } else { "denied" };
            let attempts = hub.attempts(one.id).unwrap();
            let for_the_operator = attempts.iter().all(|attempt| attempt.error.as_deref() == Some(category));
            assert!(for_the_operator, "{}: {attempts:?}", one.principal);
        }
        assert!(lookups.load(Ordering::SeqCst) > 0);
    }
    assert_eq!(trap.connections.load(Ordering::SeqCst), 0);
}
