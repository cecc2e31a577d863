//! What a program on a host is to its agent: plain HTTP requests and streamed answers, from inside the namespace.
//!
//! Calls block, so that tests read from top to bottom; the sockets live on a runtime whose one thread was started inside
//! the host's namespace and therefore stays there.

mod answer;
mod ask;
mod stream;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use reqwest::Method;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::Host;
pub use answer::{Answer, Piece};
pub use ask::{FAKE_MODEL, REAL_MODEL, chat, completion};
pub use stream::Stream;

/// No answer of the API may take longer to begin; well over the 2 s in which it must say that nobody can serve.
const REPLY_WITHIN: Duration = Duration::from_mins(1);

/// Connecting to an agent on the same host.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// A client of one agent's API.
pub struct Client {
    /// None only while it is dropped.
    runtime: Option<Runtime>,
    http: reqwest::Client,
    api: SocketAddr,
    key: Option<String>,
}

/// A whole HTTP answer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// The body, or null where it is not JSON.
    pub json: Value,
    /// The body.
    pub text: String,
    /// Headers, names in lower case.
    headers: reqwest::header::HeaderMap,
}

impl Reply {
    /// A header's text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// What its error says; empty where it is none of OpenAI's form.
    pub fn message(&self) -> &str {
        self.json["error"]["message"].as_str().unwrap_or_default()
    }

    /// The error's code for programs; empty where there is none.
    pub fn code(&self) -> &str {
        self.json["error"]["code"].as_str().unwrap_or_default()
    }

    /// Itself, if it was a success.
    pub fn successful(self) -> Result<Self> {
        ensure!((200..300).contains(&self.status), "status {}: {}", self.status, self.text);
        Ok(self)
    }
}

impl Client {
    /// A client on `host` of the API at `api`, with this key or none.
    pub fn new(host: &Host, api: SocketAddr, key: Option<&str>) -> Result<Self> {
        let runtime = host
            .enter(|| tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build())?
            .context("start the client's runtime")?;
        // Connections are not kept: an agent that was frozen or killed must not spoil the next request.
        let builder = reqwest::Client::builder().pool_max_idle_per_host(0).no_proxy().connect_timeout(CONNECT_WITHIN);
        let http = builder.build().context("make an HTTP client")?;
        Ok(Self { runtime: Some(runtime), http, api, key: key.map(str::to_owned) })
    }

    /// Asks for a route of the API.
    pub fn get(&self, path: &str) -> Result<Reply> {
        self.exchange(Method::GET, path, None)
    }

    /// Posts JSON.
    pub fn post(&self, path: &str, body: &Value) -> Result<Reply> {
        self.exchange(Method::POST, path, Some(body.to_string()))
    }

    /// Posts any text as if it were JSON.
    pub fn post_text(&self, path: &str, body: &str) -> Result<Reply> {
        self.exchange(Method::POST, path, Some(body.to_owned()))
    }

    /// Posts a generation whose body says `"stream": true`, and gives the stream once the headers are there.
    pub fn stream(&self, path: &str, body: &Value) -> Result<Stream> {
        let request = self.request(Method::POST, path, Some(body.to_string()));
        Stream::open(self.runtime()?, request)
    }

    /// Streams an answer to its end.
    pub fn answer(&self, path: &str, body: &Value) -> Result<Answer> {
        self.stream(path, body)?.finish()
    }

    fn exchange(&self, method: Method, path: &str, body: Option<String>) -> Result<Reply> {
        let request = self.request(method, path, body).timeout(REPLY_WITHIN);
        let task = self.runtime()?.spawn(async move {
            let response = request.send().await?;
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            let text = response.text().await?;
            let json = serde_json::from_str(&text).unwrap_or(Value::Null);
            Ok::<_, reqwest::Error>(Reply { status, json, text, headers })
        });
        let reply = futures::executor::block_on(task).context("the client's task failed")?;
        reply.with_context(|| format!("{path} at {}", self.api))
    }

    fn request(&self, method: Method, path: &str, body: Option<String>) -> reqwest::RequestBuilder {
        let mut request = self.http.request(method, format!("http://{}{path}", self.api));
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        match body {
            Some(body) => request.header("content-type", "application/json").body(body),
            None => request,
        }
    }

    fn runtime(&self) -> Result<&Runtime> {
        match &self.runtime {
            Some(runtime) => Ok(runtime),
            None => bail!("the client is closed"),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
