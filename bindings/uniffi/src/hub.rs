//! The entry point.

use std::sync::Arc;
use std::time::Duration;

use tidings::proto::address::Network;
use tidings::proto::id::RequestId;
use tidings::proto::webhook::Secret;
use tidings::{After, BeginCall, Durability, NewEvent, Options, Verify};

use crate::call::{Call, CallRequest};
use crate::error::TidingsError;
use crate::stream::Tail;

/// What may be set; everything else is the hub's default.
#[derive(Clone, Debug, uniffi::Record)]
pub struct HubOptions {
    /// Accepts `http` endpoints too: for development.
    #[uniffi(default = false)]
    pub allow_http: bool,
    /// Networks (`127.0.0.0/8`) that may be posted to although they are not public.
    #[uniffi(default = [])]
    pub allow_networks: Vec<String>,
    /// `challenge`, `always` or `address`: what an endpoint shows before its first delivery.
    #[uniffi(default = None)]
    pub verify: Option<String>,
    /// Signs webhooks of routes that bring no secret.
    #[uniffi(default = None)]
    pub default_secret: Option<String>,
}

impl HubOptions {
    fn into_options(self) -> Result<Options, TidingsError> {
        let mut options = Options::default();
        options.address.allow_http = self.allow_http;
        for network in &self.allow_networks {
            let network = Network::parse(network).map_err(|rule| TidingsError::argument("allow_networks", rule))?;
            options.address.allow_networks.push(network);
        }
        if let Some(verify) = &self.verify {
            let unknown = || TidingsError::argument("verify", "challenge, always or address");
            options.verify = Verify::from_text(verify).ok_or_else(unknown)?;
        }
        if let Some(secret) = &self.default_secret {
            let secret = Secret::parse(secret).map_err(|rule| TidingsError::argument("default_secret", rule))?;
            options.default_secret = Some(secret);
        }
        Ok(options)
    }
}

/// One store, and the threads that serve it. Opens at first use.
#[derive(uniffi::Object)]
pub struct Hub {
    hub: tidings::Hub,
}

#[uniffi::export]
impl Hub {
    /// A hub at `memory:`, `sqlite:PATH` or `sqlite:///PATH`.
    #[uniffi::constructor]
    pub fn open(url: &str, options: HubOptions) -> Result<Arc<Self>, TidingsError> {
        let hub = tidings::Hub::with(url, options.into_options()?)?;
        Ok(Arc::new(Self { hub }))
    }

    /// Appends an event and answers its number once it is committed. `payload` is JSON text, kept byte for byte.
    pub async fn append(
        &self,
        scope: String,
        name: String,
        kind: String,
        payload: Vec<u8>,
    ) -> Result<u64, TidingsError> {
        let event = NewEvent { kind, payload: payload.into(), time: now_ms(), identity: None };
        Ok(self.hub.stream(scope, name)?.append(vec![event], Durability::Process).await?)
    }

    /// Closes a stream: its readers end after its last event.
    pub async fn close_stream(&self, scope: String, name: String) -> Result<(), TidingsError> {
        Ok(self.hub.stream(scope, name)?.close(Vec::new(), Durability::Process).await?)
    }

    /// Reads a stream after the event of that number, or from its start, and goes on live.
    pub fn tail(&self, scope: String, name: String, after: Option<u64>) -> Result<Arc<Tail>, TidingsError> {
        let after = after.map_or(After::Earliest, After::Seq);
        Ok(Tail::new(self.hub.stream(scope, name)?.tail(after)?))
    }

    /// The same after a cursor, if its stream belongs to `scope`.
    pub fn resume(&self, scope: &str, cursor: &str) -> Result<Arc<Tail>, TidingsError> {
        Ok(Tail::new(self.hub.resume(scope, cursor)?))
    }

    /// Begins a watched call: its config is on disk when this answers.
    pub async fn begin_call(&self, request: CallRequest) -> Result<Arc<Call>, TidingsError> {
        let id = RequestId::parse(request.request_id.as_bytes())
            .map_err(|rule| TidingsError::argument("request_id", rule))?;
        let types: Vec<&str> = request.route_types.iter().map(String::as_str).collect();
        let begin = BeginCall {
            config: request.config.as_deref().map(str::as_bytes),
            route_types: &types,
            principal: &request.principal,
            session: request.session.as_deref(),
            peer: None,
            open: &[],
            request_id: &id,
            tool: &request.tool,
            timeout: request.timeout_ms.map(Duration::from_millis),
            task: None,
        };
        Ok(Call::new(self.hub.begin_call(begin).await?))
    }

    /// Commits what is buffered and closes the store, within about that time; whether all was done.
    pub fn shut_down(&self, deadline_ms: u64) -> bool {
        self.hub.close(Duration::from_millis(deadline_ms))
    }
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
