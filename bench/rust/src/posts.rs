//! The floor of a sender of webhooks in Rust: hyper on one thread, signed posts in a loop on connections that stay open.
//! Nothing is kept, nothing checked but the status.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::rt::TokioIo;
use tidings::proto::webhook::{Secret, sign};
use tokio::net::TcpStream;

use crate::Result;

/// Posts `count` bodies over so many connections.
pub fn hyper(port: u16, secret: &str, body: &str, count: usize, connections: usize) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let left = Arc::new(AtomicUsize::new(count));
    let secret: Arc<[Secret]> = Arc::new([Secret::parse(secret).map_err(|fault| fault.to_string())?]);
    let body = Bytes::copy_from_slice(body.as_bytes());
    runtime.block_on(async {
        let tasks: Vec<_> = (0..connections)
            .map(|_| tokio::spawn(connection(port, Arc::clone(&secret), body.clone(), Arc::clone(&left))))
            .collect();
        for task in tasks {
            task.await??;
        }
        Ok(())
    })
}

async fn connection(port: u16, secret: Arc<[Secret]>, body: Bytes, left: Arc<AtomicUsize>) -> Result<()> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    while let Ok(n) = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) {
        let id = format!("msg_{n}");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
        let request = Request::post("/hook")
            .header("host", format!("127.0.0.1:{port}"))
            .header("content-type", "application/json")
            .header("webhook-id", &id)
            .header("webhook-timestamp", now)
            .header("webhook-signature", sign(&secret, &id, now.cast_signed(), &body))
            .body(Full::new(body.clone()))?;
        sender.ready().await?;
        let response = sender.send_request(request).await?;
        if response.status() != 200 {
            return Err(format!("the sink answered {}", response.status()).into());
        }
        response.into_body().collect().await?;
    }
    Ok(())
}
