//! A connection through the operator's proxy: one `CONNECT` to an address that was checked before.

use std::net::{IpAddr, SocketAddr};

use tidings_proto::address::{EgressProxy, Host, MAX_PROXY_ANSWER_BYTES, connect_answer};
use tidings_proto::delivery::Category;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Net, Open};

/// What the receiver sends begins after this.
const END_OF_HEAD: &[u8] = b"\r\n\r\n";

/// The tunnel to `target`. The proxy's own address is the operator's word and may be private.
pub(super) async fn open(proxy: &EgressProxy, net: &dyn Net, target: SocketAddr) -> Result<Open, Category> {
    let mut stream = reach(proxy, net).await.ok_or(Category::ProxyError)?;
    stream.write_all(&proxy.connect_request(target)).await.map_err(|_| Category::ProxyError)?;
    let mut head = Vec::with_capacity(256);
    // Byte by byte, from the kernel's buffer: what follows the head is the receiver's, and must stay in the stream.
    while !head.ends_with(END_OF_HEAD) {
        if head.len() == MAX_PROXY_ANSWER_BYTES {
            return Err(Category::ProxyError);
        }
        head.push(stream.read_u8().await.map_err(|_| Category::ProxyError)?);
    }
    connect_answer(&head).map(|()| stream)
}

async fn reach(proxy: &EgressProxy, net: &dyn Net) -> Option<Open> {
    let answers: Vec<IpAddr> = match proxy.host() {
        Host::Ip(ip) => vec![*ip],
        Host::Name(name) => net.lookup(name, proxy.port()).await.ok()?,
    };
    for ip in answers {
        if let Ok(stream) = net.connect(SocketAddr::new(ip, proxy.port())).await {
            return Some(stream);
        }
    }
    None
}
