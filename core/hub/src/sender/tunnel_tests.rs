//! Through a real little `CONNECT` proxy on loopback.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use tidings_proto::address::Policy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::tests::{HANG, LOCAL, attempt, options, resolving_with, run, server};
use super::*;

/// The heads of the requests that a proxy was asked.
type Heads = Arc<Mutex<Vec<String>>>;

/// A proxy that opens every tunnel, and what it was asked.
async fn proxy() -> (String, Heads) {
    let heads = Heads::default();
    let asked = Arc::clone(&heads);
    let (address, _) = server(move |mut client: TcpStream| {
        let asked = Arc::clone(&asked);
        async move {
            let head = read_head(&mut client).await;
            let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
            asked.lock().unwrap().push(head);
            let Ok(mut target) = TcpStream::connect(target).await else {
                let _ = client.write_all(b"HTTP/1.1 503 Service Unavailable\r\n\r\n").await;
                return;
            };
            let _ = client.write_all(b"HTTP/1.1 200 Connection established\r\nvia: 1.1 x\r\n\r\n").await;
            let _ = tokio::io::copy_bidirectional(&mut client, &mut target).await;
        }
    })
    .await;
    (address, heads)
}

async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

/// Answers 200 to each request of a connection.
async fn receiver() -> String {
    let (address, _) = server(async |mut stream: TcpStream| {
        let mut buffer = [0; 4_096];
        while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        }
    })
    .await;
    address
}

fn through(proxy: &str) -> Options {
    Options { proxy: Some(EgressProxy::parse(proxy).unwrap()), ..options(HANG) }
}

fn taken() -> Sent {
    Sent::Response { status: 200, retry_after: None, body: Bytes::new() }
}

#[test]
fn a_webhook_goes_through_the_proxy_with_its_credentials() {
    run(async {
        let (receiver, (proxy, heads)) = (receiver().await, proxy().await);
        let sender = Sender::new(&through(&format!("http://user:secret@{proxy}")));
        assert_eq!(sender.send(attempt(&format!("http://{receiver}/hook"))).await, taken());
        // RFC 7617: base64 of "user:secret".
        let want = format!(
            "CONNECT {receiver} HTTP/1.1\r\nHost: {receiver}\r\nProxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n\r\n"
        );
        assert_eq!(*heads.lock().unwrap(), [want]);
    });
}

/// The proxy is asked for the address that was checked, and resolves nothing: a name that leads elsewhere when it looks
/// gains nothing.
#[test]
fn the_proxy_is_asked_for_the_checked_address() {
    run(async {
        let (receiver, (proxy, heads)) = (receiver().await, proxy().await);
        let port = receiver.rsplit(':').next().unwrap();
        let options = through(&format!("http://{proxy}"));
        let (sender, lookups) = resolving_with(&options, vec![Ok(vec![LOCAL])]);
        assert_eq!(sender.send(attempt(&format!("http://vouched.internal:{port}/"))).await, taken());
        assert_eq!(lookups.load(Ordering::SeqCst), 1);
        let heads = heads.lock().unwrap();
        assert!(heads[0].starts_with(&format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n")), "{heads:?}");
        assert!(!heads[0].contains("vouched"), "{heads:?}");
    });
}

/// What is denied is denied on this side: the proxy never hears of it.
#[test]
fn denied_addresses_never_reach_the_proxy() {
    run(async {
        let (proxy, heads) = proxy().await;
        let strict = Options {
            address: Policy { allow_http: true, allow_ports: vec![80], ..Policy::default() },
            ..through(&format!("http://{proxy}"))
        };
        let public: IpAddr = "93.184.215.14".parse().unwrap();
        for answers in [vec![LOCAL], vec!["10.0.0.5".parse().unwrap()], vec![public, LOCAL]] {
            let (sender, _) = resolving_with(&strict, vec![Ok(answers.clone())]);
            let sent = sender.send(attempt("http://rebind.example/")).await;
            assert_eq!(sent, Sent::Failed(Category::Denied), "{answers:?}");
        }
        for literal in ["127.0.0.1", "169.254.169.254", "[::ffff:10.0.0.1]"] {
            let sent = Sender::new(&strict).send(attempt(&format!("http://{literal}/"))).await;
            assert_eq!(sent, Sent::Failed(Category::Denied), "{literal}");
        }
        assert!(heads.lock().unwrap().is_empty());
    });
}

#[test]
fn whose_fault_a_failure_is() {
    run(async {
        let receiver = receiver().await;
        for (answer, want) in [
            (&b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"[..], Category::ProxyError),
            (b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n", Category::ProxyError),
            (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", Category::ConnectionRefused),
            (b"HTTP/1.1 504 Gateway Timeout\r\n\r\n", Category::Timeout),
            (b"garbage\r\n\r\n", Category::ProxyError),
            (b"HTTP/1.1 200 OK\r\nx: ", Category::ProxyError), // and goes
            (b"", Category::ProxyError),
        ] {
            let (proxy, _) = server(move |mut stream: TcpStream| async move {
                read_head(&mut stream).await;
                let _ = stream.write_all(answer).await;
            })
            .await;
            let sent =
                Sender::new(&through(&format!("http://{proxy}"))).send(attempt(&format!("http://{receiver}/"))).await;
            assert_eq!(sent, Sent::Failed(want), "{}", String::from_utf8_lossy(answer));
        }
        // One whose head never ends.
        let (proxy, _) = server(async |mut stream: TcpStream| {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nx-a: ").await;
            while stream.write_all(&[b'z'; 4_096]).await.is_ok() {}
        })
        .await;
        let sent =
            Sender::new(&through(&format!("http://{proxy}"))).send(attempt(&format!("http://{receiver}/"))).await;
        assert_eq!(sent, Sent::Failed(Category::ProxyError));
        // One that is not there.
        let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let sent = Sender::new(&through(&format!("http://{free}"))).send(attempt(&format!("http://{receiver}/"))).await;
        assert_eq!(sent, Sent::Failed(Category::ProxyError));
    });
}

/// A proxy that never answers holds a worker no longer than any receiver does.
#[test]
fn a_proxy_that_hangs_is_left_at_the_limit() {
    run(async {
        let (proxy, _) =
            server(async |mut stream: TcpStream| while stream.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {})
                .await;
        let short = Options { attempt_timeout: Duration::from_millis(150), ..through(&format!("http://{proxy}")) };
        let sent = Sender::new(&short).send(attempt("http://127.0.0.1:9/")).await;
        assert_eq!(sent, Sent::Failed(Category::Timeout));
    });
}

/// TLS runs inside the tunnel, with the receiver and not with the proxy: a receiver that speaks plain HTTP is no TLS server.
#[test]
fn tls_is_spoken_with_the_receiver() {
    run(async {
        let (receiver, (proxy, heads)) = (receiver().await, proxy().await);
        let sent =
            Sender::new(&through(&format!("http://{proxy}"))).send(attempt(&format!("https://{receiver}/"))).await;
        assert_eq!(sent, Sent::Failed(Category::TlsError));
        assert_eq!(heads.lock().unwrap().len(), 1);
    });
}

/// A kept connection is a tunnel to the same checked address.
#[test]
fn a_tunnel_is_kept_for_the_next_attempt() {
    run(async {
        let (receiver, (proxy, heads)) = (receiver().await, proxy().await);
        let sender = Sender::new(&through(&format!("http://{proxy}")));
        let endpoint = format!("http://{receiver}/");
        for _ in 0..3 {
            let again = Attempt { keep_for: Some(EndpointKey::new("webhook", "p", &endpoint)), ..attempt(&endpoint) };
            assert_eq!(sender.send(again).await, taken());
        }
        assert_eq!(heads.lock().unwrap().len(), 1);
    });
}
