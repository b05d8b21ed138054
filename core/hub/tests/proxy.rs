//! Everything that goes to an endpoint leaves through the operator's proxy: deliveries, challenges, well-known documents.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::support::{FaultStore, Receiver, Reply, Request, begin, config, local, over, wait};
use tidings::proto::address::EgressProxy;
use tidings::proto::delivery::EndpointState;
use tidings::proto::webhook::{challenge_answer, receiver_document_json};
use tidings::store::{DeliveryState, Store};
use tidings::{Options, Verify};

/// A `CONNECT` proxy that wants `user:secret`, and whom it was asked for.
fn proxy() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address").to_string();
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&asked);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let kept = Arc::clone(&kept);
            std::thread::spawn(move || tunnel(client, &kept));
        }
    });
    (address, asked)
}

fn tunnel(mut client: TcpStream, asked: &Mutex<Vec<String>>) -> Option<()> {
    let mut reader = BufReader::new(client.try_clone().ok()?);
    let (mut head, mut line) = (String::new(), String::new());
    while reader.read_line(&mut line).ok()? > 2 {
        head.push_str(&line);
        line.clear();
    }
    // RFC 7617: base64 of "user:secret".
    if !head.contains("Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n") {
        return client.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").ok();
    }
    let target = head.strip_prefix("CONNECT ")?.split(' ').next()?.to_owned();
    let mut server = TcpStream::connect(&target).ok()?;
    asked.lock().expect("asked").push(target);
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").ok()?;
    let (mut back, mut out) = (server.try_clone().ok()?, client.try_clone().ok()?);
    std::thread::spawn(move || {
        _ = std::io::copy(&mut back, &mut out);
        _ = out.shutdown(std::net::Shutdown::Write);
    });
    // Nothing was read beyond the head: the client waits for the answer first.
    _ = std::io::copy(&mut client, &mut server);
    server.shutdown(std::net::Shutdown::Write).ok()
}

fn through(proxy: &str) -> Options {
    let mut options = local();
    options.verify = Verify::Always;
    options.proxy = Some(EgressProxy::parse(proxy).expect("a proxy"));
    options
}

fn answer(body: &str) -> Reply {
    Reply::Raw(format!("HTTP/1.1 200 x\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes())
}

#[test]
fn challenges_documents_and_deliveries_go_through_it() {
    let echo = |request: &Request, _| challenge_answer(&request.body).map_or(Reply::OK, |echo| answer(&echo));
    let documented = |request: &Request, _| match request.line.starts_with("GET /.well-known/") {
        true => answer(&receiver_document_json(["/hook"])),
        false if challenge_answer(&request.body).is_some() => Reply::Status(404, ""),
        false => Reply::OK,
    };
    for (receiver, count) in [(Receiver::start(echo), 2), (Receiver::start(documented), 3)] {
        let (store, (proxy, asked)) = (FaultStore::new(), proxy());
        let hub = over(&store, through(&format!("http://user:secret@{proxy}")));
        let call = begin(&hub, &config(&receiver.endpoint, &["completed"])).expect("accepted");
        wait(call.complete(b"{}")).expect("ended");
        store.wait_deliveries(&[DeliveryState::Delivered]);
        assert_eq!(receiver.requests().len(), count);
        let target = receiver.endpoint.strip_prefix("http://").expect("http").split('/').next().expect("a host");
        assert_eq!(*asked.lock().expect("asked"), vec![target.to_owned(); count]);
        assert_eq!(receiver.connections(), count, "none of them around it");
    }
}

/// A proxy that refuses is the operator's trouble: no endpoint is thought worse of for it, and the client is told no more
/// than of a closed port.
#[test]
fn a_proxy_that_refuses_is_not_the_endpoints_fault() {
    let (store, (proxy, asked)) = (FaultStore::new(), proxy());
    let receiver = Receiver::ok();
    let mut options = through(&format!("http://user:wrong@{proxy}"));
    options.verify = Verify::Address;
    let hub = over(&store, options);
    let call = begin(&hub, &config(&receiver.endpoint, &["completed"])).expect("accepted");
    wait(call.complete(b"{}")).expect("ended");
    let failed = store.wait_for(|inner| {
        let all = inner.deliveries(None, None, Some(DeliveryState::Retrying), 1).expect("reads");
        all.into_iter().next()
    });
    assert_eq!(failed.last_error.as_deref(), Some("proxy_error"));
    let endpoint = store.inner().endpoints(None, 1).expect("reads").remove(0);
    assert_eq!((endpoint.standing.state, endpoint.standing.health.failures), (EndpointState::Verified, 0));
    assert_eq!((receiver.connections(), asked.lock().expect("asked").len()), (0, 0));
}
