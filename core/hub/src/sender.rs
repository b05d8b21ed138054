//! Sends one webhook attempt, as if the endpoint were hostile.
//!
//! The name is looked up inside the deadline, every answer is checked, and the connection goes to a checked address,
//! so that a second lookup cannot change the verdict (DNS rebinding). No redirect is followed, no proxy of the
//! environment is used, one deadline covers the whole exchange, and little of the response is read.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tidings_proto::address::{self, Endpoint, Host};
use tidings_proto::delivery::Category;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::error::Result;
use crate::options::Options;

/// Response head and each read of the body fit into this.
const READ_BUFFER: usize = 16 << 10;
/// At most so many response headers.
const RESPONSE_HEADERS: usize = 64;
/// Of the body so much is read, and thrown away, so that a well-behaved receiver sees its answer taken.
const DRAIN_BYTES: usize = 64 << 10;
/// The longest wait for that.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// One request to make.
pub(crate) struct Attempt {
    /// As the client wrote it; read and checked anew for every attempt.
    pub(crate) endpoint: String,
    /// Besides host, content-type and content-length.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The receiver answered.
    Response { status: u16, retry_after: Option<String> },
    /// It did not, or must not be asked.
    Failed(Category),
}

pub(crate) struct Sender {
    policy: address::Policy,
    timeout: Duration,
    tls: OnceLock<Option<TlsConnector>>,
}

impl Sender {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        Ok(Self { policy: options.address.clone(), timeout: options.attempt_timeout, tls: OnceLock::new() })
    }

    /// Makes one attempt; always answers within the attempt's deadline.
    pub(crate) async fn send(&self, attempt: Attempt) -> Sent {
        match tokio::time::timeout(self.timeout, self.exchange(attempt)).await {
            Ok(Ok(sent)) => sent,
            Ok(Err(category)) => Sent::Failed(category),
            Err(_) => Sent::Failed(Category::Timeout),
        }
    }

    async fn exchange(&self, attempt: Attempt) -> Result<Sent, Category> {
        let endpoint = Endpoint::parse(&attempt.endpoint, &self.policy).map_err(|_| Category::Denied)?;
        let stream = self.connect(&endpoint).await?;
        let request = request(&endpoint, attempt)?;
        if !endpoint.is_tls() {
            return converse(stream, request).await;
        }
        let tls = self.tls().ok_or(Category::TlsError)?;
        let name = server_name(&endpoint).ok_or(Category::TlsError)?;
        let stream = tls.connect(name, stream).await.map_err(|error| failure(&error, Category::TlsError))?;
        converse(stream, request).await
    }

    /// Connects to one of the addresses that the endpoint's host has right now, after all of them were checked.
    async fn connect(&self, endpoint: &Endpoint) -> Result<TcpStream, Category> {
        let answers: Vec<IpAddr> = match endpoint.host() {
            Host::Ip(ip) => vec![*ip],
            Host::Name(name) => tokio::net::lookup_host((name.as_str(), endpoint.port()))
                .await
                .map_err(|_| Category::DnsError)?
                .map(|answer| answer.ip())
                .collect(),
        };
        endpoint.check_answers(&answers, &self.policy).map_err(|_| Category::Denied)?;
        let mut refused = Category::ConnectionRefused;
        for ip in answers {
            match TcpStream::connect(SocketAddr::new(ip, endpoint.port())).await {
                Ok(stream) => {
                    let _ = stream.set_nodelay(true); // only latency is at stake
                    return Ok(stream);
                }
                Err(error) => refused = failure(&error, Category::ConnectionRefused),
            }
        }
        Err(refused)
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
    let mut request = Request::post(endpoint.path_and_query())
        .header(hyper::header::HOST, endpoint.host_header())
        .header(hyper::header::CONTENT_TYPE, "application/json")
        .header(hyper::header::USER_AGENT, concat!("tidings/", env!("CARGO_PKG_VERSION")));
    for (name, value) in &attempt.headers {
        // Checked when the config came; what is no header can only be one of a store that somebody wrote into.
        let name = HeaderName::try_from(name.as_str()).map_err(|_| Category::ProtocolError)?;
        let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| Category::ProtocolError)?;
        value.set_sensitive(true);
        request = request.header(name, value);
    }
    request.body(Full::new(attempt.body)).map_err(|_| Category::ProtocolError)
}

/// One request and the head of its response over an open connection.
async fn converse<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Sent, Category>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut client, connection) = hyper::client::conn::http1::Builder::new()
        .max_buf_size(READ_BUFFER)
        .max_headers(RESPONSE_HEADERS)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|_| Category::ProtocolError)?;
    let connection = tokio::spawn(connection);
    let _guard = AbortOnDrop(connection.abort_handle());
    let response = client
        .send_request(request)
        .await
        .map_err(|error| if error.is_parse() { Category::ProtocolError } else { Category::ConnectionRefused })?;
    let status = response.status().as_u16();
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let _ = tokio::time::timeout(DRAIN_TIME, drain(response)).await; // the verdict stands, whatever the body does
    Ok(Sent::Response { status, retry_after })
}

async fn drain(response: Response<Incoming>) {
    let mut body = response.into_body();
    let mut read = 0;
    while let Some(Ok(frame)) = body.frame().await {
        read += frame.data_ref().map_or(0, Bytes::len);
        if read > DRAIN_BYTES {
            return;
        }
    }
}

/// Ends the connection's task with the exchange, also when the deadline cuts it.
struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn failure(error: &std::io::Error, otherwise: Category) -> Category {
    match error.kind() {
        std::io::ErrorKind::TimedOut => Category::Timeout,
        _ => otherwise,
    }
}
