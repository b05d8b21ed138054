//! Sends one webhook attempt, as if the endpoint were hostile.
//!
//! The name is looked up inside the deadline, every answer is checked, and the connection goes to a checked address,
//! so that a second lookup cannot change the verdict (DNS rebinding): directly, or through the operator's proxy, which is
//! asked for that address. No redirect is followed, no proxy of the environment is used, one deadline covers the whole exchange, and little of the response is read.

#[cfg(test)]
mod hub_tests;
mod pool;
#[cfg(test)]
mod pool_tests;
mod quiet;
#[cfg(test)]
mod tests;
mod tunnel;
#[cfg(test)]
mod tunnel_tests;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::header::{HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Request, body::Incoming};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tidings_proto::address::{self, EgressProxy, Endpoint, Host};
use tidings_proto::delivery::{Category, EndpointKey};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;

use crate::error::Result;
use crate::options::Options;

use self::pool::{Kept, Pool};
use self::quiet::Quiet;

/// Response head and each read of the body fit into this.
const READ_BUFFER: usize = 16 << 10;
/// At most so many response headers.
const RESPONSE_HEADERS: usize = 64;
/// Of the body so much is read, and thrown away, so that a well-behaved receiver sees its answer taken.
const DRAIN_BYTES: usize = 64 << 10;
/// The longest wait for that.
const DRAIN_TIME: Duration = Duration::from_secs(1);
/// At most so many addresses of one name are tried: a name can have hundreds, and they belong to whoever owns it.
const ADDRESSES: usize = 4;

/// The `content-type` of a body that is not encrypted.
pub(crate) const JSON_MEDIA_TYPE: &str = "application/json";

/// One request to make.
pub(crate) struct Attempt {
    /// As the client wrote it; read and checked anew for every attempt.
    pub(crate) endpoint: String,
    /// Besides host, content-type and content-length.
    pub(crate) headers: Vec<(String, String)>,
    /// Posted; without one it is a `GET`.
    pub(crate) body: Option<Bytes>,
    /// What the body is.
    pub(crate) media_type: &'static str,
    /// The endpoint for whose next attempt the connection is kept. `None`: it is used once.
    pub(crate) keep_for: Option<EndpointKey>,
    /// How much of the answer's body is wanted; one that is longer is no answer.
    pub(crate) keep: usize,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The receiver answered.
    Response {
        status: u16,
        retry_after: Option<String>,
        /// As much as was wanted.
        body: Bytes,
    },
    /// The host's handler took it.
    Confirmed,
    /// There was nobody to hand it to: it goes back.
    NotTaken,
    /// It did not, or must not be asked.
    Failed(Category),
}

pub(crate) type Lookup<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// An open connection.
pub(crate) type Open = Box<dyn Stream>;

pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

pub(crate) type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Open>> + Send + 'a>>;

/// The network: who answers to a name, and how an address is reached. The rules about both are not its business.
pub(crate) trait Net: Send + Sync + 'static {
    fn lookup<'a>(&'a self, name: &'a str, port: u16) -> Lookup<'a>;

    fn connect(&self, to: SocketAddr) -> Connecting<'_> {
        Box::pin(async move {
            let stream = TcpStream::connect(to).await?;
            let _ = stream.set_nodelay(true); // only latency is at stake
            Ok(Box::new(Quiet(stream)) as Open)
        })
    }
}

/// The operating system's network. Its resolver cannot be interrupted: a lookup that is given up holds a thread of the
/// runtime's pool until the system gives it up too.
struct System;

impl Net for System {
    fn lookup<'a>(&'a self, name: &'a str, port: u16) -> Lookup<'a> {
        Box::pin(async move { Ok(tokio::net::lookup_host((name, port)).await?.map(|answer| answer.ip()).collect()) })
    }
}

pub(crate) struct Sender {
    policy: address::Policy,
    proxy: Option<EgressProxy>,
    timeout: Duration,
    net: Box<dyn Net>,
    tls: OnceLock<Option<TlsConnector>>,
    pool: Pool,
}

impl Sender {
    pub(crate) fn new(options: &Options) -> Self {
        Self::with_net(options, Box::new(System))
    }

    pub(crate) fn with_net(options: &Options, net: Box<dyn Net>) -> Self {
        let (policy, timeout) = (options.address.clone(), options.attempt_timeout);
        let pool = Pool::new(options.concurrency, options.endpoint_concurrency);
        let proxy = options.proxy.clone();
        Self { policy, proxy, timeout, net, tls: OnceLock::new(), pool }
    }

    /// Makes one attempt; always answers within the attempt's deadline.
    pub(crate) async fn send(&self, attempt: Attempt) -> Sent {
        let start = Instant::now();
        let keep = attempt.keep;
        let exchange = async {
            let (head, mut rest) = self.exchange(attempt).await?;
            // What somebody waits to read has to come within the deadline, the rest does not matter.
            let body = if keep > 0 { rest.read(keep).await? } else { Bytes::new() };
            Ok((Sent::Response { status: head.status, retry_after: head.retry_after, body }, rest))
        };
        match timeout(self.timeout, exchange).await {
            Ok(Ok((sent, rest))) => {
                // The verdict stands, whatever the body does, and also when it has no time left.
                let left = self.timeout.saturating_sub(start.elapsed());
                if let Ok(Some((key, kept))) = timeout(left.min(DRAIN_TIME), rest.drain()).await {
                    self.pool.put(key, kept);
                }
                sent
            }
            Ok(Err(category)) => Sent::Failed(category),
            Err(_) => Sent::Failed(Category::Timeout),
        }
    }

    /// Closes connections that nobody has used for too long.
    pub(crate) fn sweep(&self) {
        self.pool.sweep();
    }

    async fn exchange(&self, attempt: Attempt) -> Result<(Head, Rest), Category> {
        let endpoint = Endpoint::parse(&attempt.endpoint, &self.policy).map_err(|_| Category::Denied)?;
        let key = attempt.keep_for;
        let request = request(&endpoint, attempt)?;
        if let Some(kept) = key.and_then(|key| self.pool.take(key)) {
            // The other side may have closed it at this moment: a new connection tells. It may also have taken the request;
            // then it sees the same id twice, as after any lost answer.
            match converse(kept, request.clone(), key).await {
                Err(Category::ConnectionRefused) => {}
                done => return done,
            }
        }
        let stream = self.connect(&endpoint).await?;
        if !endpoint.is_tls() {
            return converse(open(stream).await?, request, key).await;
        }
        let tls = self.tls().ok_or(Category::TlsError)?;
        let name = server_name(&endpoint).ok_or(Category::TlsError)?;
        let stream = tls.connect(name, stream).await.map_err(|error| failure(&error, Category::TlsError))?;
        converse(open(stream).await?, request, key).await
    }

    /// Connects to one of the addresses that the endpoint's host has right now, after all of them were checked. Several
    /// addresses share the time, so that one that does not answer leaves some for the next.
    async fn connect(&self, endpoint: &Endpoint) -> Result<Open, Category> {
        let start = Instant::now();
        let mut answers: Vec<IpAddr> = match endpoint.host() {
            Host::Ip(ip) => vec![*ip],
            Host::Name(name) => self.net.lookup(name, endpoint.port()).await.map_err(|_| Category::DnsError)?,
        };
        if answers.is_empty() {
            return Err(Category::DnsError);
        }
        endpoint.check_answers(&answers, &self.policy).map_err(|_| Category::Denied)?;
        answers.truncate(ADDRESSES);
        let mut category = Category::ConnectionRefused;
        let mut left = u32::try_from(answers.len()).unwrap_or(u32::MAX);
        for ip in answers {
            let share = self.timeout.saturating_sub(start.elapsed()) / left.max(1);
            left -= 1;
            match timeout_at(Instant::now() + share, self.reach(SocketAddr::new(ip, endpoint.port()))).await {
                Ok(Ok(stream)) => return Ok(stream),
                // Another address would meet the same proxy.
                Ok(Err(Category::ProxyError)) => return Err(Category::ProxyError),
                Ok(Err(failed)) => category = failed,
                Err(_) => category = Category::Timeout,
            }
        }
        Err(category)
    }

    /// A connection to a checked address.
    async fn reach(&self, target: SocketAddr) -> Result<Open, Category> {
        match &self.proxy {
            Some(proxy) => tunnel::open(proxy, &*self.net, target).await,
            None => self.net.connect(target).await.map_err(|error| failure(&error, Category::ConnectionRefused)),
        }
    }

    /// TLS with the platform's roots, made at the first `https` attempt: a host without certificates can still do
    /// everything else.
    fn tls(&self) -> Option<&TlsConnector> {
        let tls = self.tls.get_or_init(|| {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let verifier = match rustls_platform_verifier::Verifier::new(Arc::clone(&provider)) {
                Ok(verifier) => Arc::new(verifier),
                Err(error) => {
                    tracing::error!(%error, "no TLS roots on this platform: https webhooks fail (install ca-certificates)");
                    return None;
                }
            };
            let config = rustls::ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .ok()?
                .dangerous() // the platform's own verifier, which rustls does not ship
                .with_custom_certificate_verifier(verifier)
                .with_no_client_auth();
            Some(TlsConnector::from(Arc::new(config)))
        });
        tls.as_ref()
    }
}

fn server_name(endpoint: &Endpoint) -> Option<ServerName<'static>> {
    match endpoint.host() {
        Host::Ip(ip) => Some(ServerName::IpAddress((*ip).into())),
        Host::Name(name) => ServerName::try_from(name.clone()).ok(),
    }
}

fn request(endpoint: &Endpoint, attempt: Attempt) -> Result<Request<Full<Bytes>>, Category> {
    let mut request = match &attempt.body {
        Some(_) => Request::post(endpoint.path_and_query()).header(hyper::header::CONTENT_TYPE, attempt.media_type),
        None => Request::get(endpoint.path_and_query()),
    };
    request = request
        .header(hyper::header::HOST, endpoint.host_header())
        .header(hyper::header::USER_AGENT, concat!("tidings/", env!("CARGO_PKG_VERSION")));
    for (name, value) in &attempt.headers {
        // Checked when the config came; what is no header can only be one of a store that somebody wrote into.
        let name = HeaderName::try_from(name.as_str()).map_err(|_| Category::ProtocolError)?;
        let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| Category::ProtocolError)?;
        value.set_sensitive(true);
        request = request.header(name, value);
    }
    request.body(Full::new(attempt.body.unwrap_or_default())).map_err(|_| Category::ProtocolError)
}

/// HTTP over an open connection.
async fn open<S>(stream: S) -> Result<Kept, Category>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (client, connection) = hyper::client::conn::http1::Builder::new()
        .max_buf_size(READ_BUFFER)
        .max_headers(RESPONSE_HEADERS)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|_| Category::ProtocolError)?;
    Ok(Kept { client, _connection: AbortOnDrop(tokio::spawn(connection).abort_handle()), born: Instant::now() })
}

/// One request and the head of its response.
async fn converse(
    mut kept: Kept,
    request: Request<Full<Bytes>>,
    key: Option<EndpointKey>,
) -> Result<(Head, Rest), Category> {
    let response = kept.client.send_request(request).await.map_err(|error| {
        // hyper tells a head that is too large apart by its text only, unless its server is compiled in as well.
        match error.is_parse() {
            true if error.to_string().contains("too large") => Category::ResponseTooLarge,
            true => Category::ProtocolError,
            false => Category::ConnectionRefused,
        }
    })?;
    let status = response.status().as_u16();
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::to_owned);
    Ok((Head { status, retry_after }, Rest { body: response.into_body(), kept, key }))
}

/// What decides about an attempt.
struct Head {
    status: u16,
    retry_after: Option<String>,
}

/// What is left of an exchange once its verdict is known.
struct Rest {
    body: Incoming,
    kept: Kept,
    key: Option<EndpointKey>,
}

impl Rest {
    /// The whole body, of at most `most` bytes.
    async fn read(&mut self, most: usize) -> Result<Bytes, Category> {
        let mut all = BytesMut::new();
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|_| Category::ConnectionRefused)?;
            let data = frame.data_ref().map_or(&[][..], |data| &data[..]);
            if all.len() + data.len() > most {
                return Err(Category::ResponseTooLarge);
            }
            all.extend_from_slice(data);
        }
        Ok(all.freeze())
    }

    /// Reads the rest of the body, so that a well-behaved receiver sees its answer taken, and answers the connection where
    /// it can carry another request.
    async fn drain(mut self) -> Option<(EndpointKey, Kept)> {
        let mut read = 0;
        while let Some(frame) = self.body.frame().await {
            read += frame.ok()?.data_ref().map_or(0, Bytes::len);
            if read > DRAIN_BYTES {
                return None;
            }
        }
        self.kept.client.ready().await.ok()?;
        Some((self.key?, self.kept))
    }
}

/// Ends the connection's task with the exchange, also when the deadline cuts it.
struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn failure(error: &io::Error, otherwise: Category) -> Category {
    match error.kind() {
        io::ErrorKind::TimedOut => Category::Timeout,
        _ => otherwise,
    }
}
