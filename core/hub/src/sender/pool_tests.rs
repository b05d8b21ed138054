//! Connections that are kept: who shares them, and what that does not weaken.

use super::tests::{HANG, LOCAL, attempt, options, resolving, run, server};
use super::*;
use std::sync::atomic::Ordering;
use tidings_proto::address::{Network, Policy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn kept_for(endpoint: &str, n: u8) -> Attempt {
    Attempt { keep_for: Some(EndpointKey([n; 32])), ..attempt(endpoint) }
}

/// Answers each request of a connection; hangs up after `most` of them.
async fn keeping(mut stream: TcpStream, most: usize) {
    let mut buffer = [0; 4_096];
    for _ in 0..most {
        if !stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {
            return;
        }
        let _ = stream.write_all(b"HTTP/1.1 204 x\r\n\r\n").await;
    }
}

fn status(sent: &Sent) -> u16 {
    match sent {
        Sent::Response { status, .. } => *status,
        other => panic!("answered, not {other:?}"),
    }
}

#[test]
fn one_connection_serves_the_attempts_at_one_endpoint() {
    run(async {
        let (address, connections) = server(|stream| keeping(stream, 100)).await;
        let endpoint = format!("http://{address}/");
        let sender = Sender::new(&options(HANG));
        for _ in 0..5 {
            assert_eq!(status(&sender.send(kept_for(&endpoint, 1)).await), 204);
        }
        assert_eq!(connections.load(Ordering::SeqCst), 1);
        sender.send(kept_for(&endpoint, 2)).await;
        assert_eq!(connections.load(Ordering::SeqCst), 2, "another principal has another connection");
        sender.send(attempt(&endpoint)).await;
        sender.send(attempt(&endpoint)).await;
        assert_eq!(connections.load(Ordering::SeqCst), 4, "a challenge is asked on a connection of its own");
    });
}

/// A receiver that closes after each answer, whatever it promised, costs a connection and no delivery.
#[test]
fn a_connection_that_was_closed_meanwhile_is_opened_anew() {
    run(async {
        let (address, connections) = server(|stream| keeping(stream, 1)).await;
        let endpoint = format!("http://{address}/");
        let sender = Sender::new(&options(HANG));
        for n in 1..=5 {
            assert_eq!(status(&sender.send(kept_for(&endpoint, 1)).await), 204);
            assert_eq!(connections.load(Ordering::SeqCst), n);
        }
    });
}

/// The name leads elsewhere by now. What is open leads where it was checked to lead; a new connection is checked anew.
#[test]
fn a_name_that_moves_to_a_denied_address_is_not_followed() {
    run(async {
        let (address, connections) = server(|stream| keeping(stream, 2)).await;
        let port: u16 = address.rsplit(':').next().unwrap().parse().unwrap();
        let policy = Policy {
            allow_http: true,
            allow_ports: vec![port],
            allow_networks: vec![Network::parse("127.0.0.1/32").unwrap()],
            ..Policy::default()
        };
        let private: IpAddr = "127.0.0.2".parse().unwrap();
        let (sender, lookups) = resolving(HANG, policy, vec![Ok(vec![LOCAL]), Ok(vec![private])]);
        let endpoint = format!("http://hooks.example:{port}/");
        assert_eq!(status(&sender.send(kept_for(&endpoint, 1)).await), 204);
        assert_eq!(status(&sender.send(kept_for(&endpoint, 1)).await), 204);
        assert_eq!((lookups.load(Ordering::SeqCst), connections.load(Ordering::SeqCst)), (1, 1));
        // The receiver has closed it: the next one is looked up, and denied.
        let third = sender.send(kept_for(&endpoint, 1)).await;
        assert_eq!(third, Sent::Failed(Category::Denied));
        assert_eq!((lookups.load(Ordering::SeqCst), connections.load(Ordering::SeqCst)), (2, 1));
    });
}

/// A body that is cut off or too long leaves nothing behind that the next request could read.
#[test]
fn a_connection_with_something_left_in_it_is_not_kept() {
    run(async {
        let (address, connections) = server(|mut stream: TcpStream| async move {
            let mut buffer = [0; 4_096];
            let _ = stream.read(&mut buffer).await;
            let _ = stream.write_all(b"HTTP/1.1 200 x\r\ncontent-length: 1000000\r\n\r\n").await;
            while stream.write_all(&[b'x'; 1_024]).await.is_ok() {}
        })
        .await;
        let endpoint = format!("http://{address}/");
        let sender = Sender::new(&options(HANG));
        for n in 1..=2 {
            assert_eq!(status(&sender.send(kept_for(&endpoint, 1)).await), 200);
            assert_eq!(connections.load(Ordering::SeqCst), n);
        }
    });
}
