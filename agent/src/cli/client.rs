//! The agent's HTTP, from the command line's side.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Exit;
use super::failure::Failure;
use crate::api::wire::{ErrorReply, code};
use crate::config::Paths;
use crate::store::{DataLock, FileError, read_running, read_secret};

/// How long a connection to this machine's own agent may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the answer to a question may take; generations have no such limit.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest answer that is taken in whole.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// What to do where files cannot be read.
pub(super) const OTHERS_DIRECTORY: &str =
    "do these directories belong to another user? then name one of your own: --home DIR, or IDLEWILD_HOME";

/// Talks to the agent of one user's directories.
#[derive(Debug, Clone)]
pub(super) struct Client {
    http: reqwest::Client,
    base: String,
    key: String,
}

impl Client {
    /// Finds the agent; fails if none says where it listens, or if that or its key cannot be read.
    pub(super) fn new(paths: &Paths) -> Result<Self, Failure> {
        let running = read_running(paths).map_err(unusable)?.ok_or_else(|| silent(paths))?;
        let key = read_secret(&paths.api_key_file(), "start the agent again for a new key")
            .map_err(unusable)?
            .ok_or_else(|| keyless(paths))?;
        Self::at(running.api, key.trim().to_owned())
    }

    /// The agent whose API listens at `api`.
    pub(super) fn at(api: SocketAddr, key: String) -> Result<Self, Failure> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .build()
            .map_err(|e| Failure::new(Exit::Failed, anyhow::Error::new(e)))?;
        Ok(Self { http, base: format!("http://{}", reachable(api)), key })
    }

    /// Asks and takes the answer in.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let request = self.request(Method::GET, path).timeout(ANSWER_TIMEOUT);
        read(self.send(request).await?).await
    }

    /// Says something and takes the answer in.
    pub(super) async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Failure> {
        let request = self.request(Method::POST, path).timeout(ANSWER_TIMEOUT).json(body);
        read(self.send(request).await?).await
    }

    /// Says something and gives the answer as it comes.
    pub(super) async fn stream(&self, path: &str, body: &impl Serialize) -> Result<Response, Failure> {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base)).bearer_auth(&self.key)
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let response = request.send().await.map_err(|e| lost(&e))?;
        if response.status().is_success() { Ok(response) } else { Err(refused(response).await) }
    }
}

/// An address that listens everywhere is reached on this machine.
fn reachable(api: SocketAddr) -> SocketAddr {
    let ip = match api.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        IpAddr::V4(_) | IpAddr::V6(_) => api.ip(),
    };
    SocketAddr::new(ip, api.port())
}

/// A file is there, or may be, and is of no use.
fn unusable(error: FileError) -> Failure {
    let is_read = matches!(error, FileError::Read { .. });
    let failure = Failure::new(Exit::State, error);
    if is_read { failure.hint(OTHERS_DIRECTORY) } else { failure }
}

/// Nobody says where it listens.
fn silent(paths: &Paths) -> Failure {
    match DataLock::holder(paths) {
        None => no_agent(),
        Some(pid) => Failure::words(
            Exit::NoAgent,
            format!("no agent answers yet: the idlewild process {pid} uses {}", paths.data.display()),
        )
        .hint("it starts, stops or does something else: try again in a moment"),
    }
}

/// An agent wrote where it listens, and its key is not there.
fn keyless(paths: &Paths) -> Failure {
    if !DataLock::is_held(paths) {
        return no_agent();
    }
    let file = paths.api_key_file();
    Failure::words(Exit::State, format!("the agent runs, but the file of its key is gone ({})", file.display()))
        .hint("for a new key restart it: `idlewild down`, then `idlewild up`")
}

fn no_agent() -> Failure {
    Failure::words(Exit::NoAgent, "no agent is running").hint("start it with `idlewild up`")
}

/// The connection failed: there is no agent, or it went away.
pub(super) fn lost(error: &reqwest::Error) -> Failure {
    if error.is_connect() {
        return no_agent();
    }
    if error.is_timeout() {
        return Failure::words(Exit::Failed, "the agent does not answer").hint("see its log; `idlewild down` stops it");
    }
    Failure::words(Exit::Failed, "the connection to the agent broke").hint("is it still running? `idlewild status`")
}

async fn refused(response: Response) -> Failure {
    let status = response.status();
    let body = take(response).await.unwrap_or_default();
    serde_json::from_slice::<ErrorReply>(&body).map_or_else(
        |_| {
            Failure::words(Exit::Failed, format!("the agent answered {status}"))
                .hint(if status == StatusCode::NOT_FOUND { "is it another version?" } else { "see its log" })
        },
        |reply| failure_of(&reply),
    )
}

/// The failure that an error of the API means.
pub(super) fn failure_of(reply: &ErrorReply) -> Failure {
    let failure = |exit| Failure::words(exit, &reply.error.message);
    match reply.error.code.as_deref() {
        // Its message says what to do.
        Some(code::NO_PEER) => failure(Exit::NoPeer),
        Some(code::MODEL_NOT_FOUND) => failure(Exit::NotFound).hint("`idlewild models list` shows what there is"),
        Some(code::CONTEXT_LENGTH | code::UNKNOWN_REQUEST | code::UNKNOWN_PEER) => failure(Exit::NotFound),
        Some(code::INVALID_VALUE) => failure(Exit::Usage),
        Some(code::BAD_KEY) => failure(Exit::State)
            .hint("the agent was started with another key; restart it (`idlewild down`, `idlewild up`)"),
        Some(_) | None => failure(Exit::Failed),
    }
}

async fn read<T: DeserializeOwned>(response: Response) -> Result<T, Failure> {
    let body = take(response).await?;
    serde_json::from_slice(&body).map_err(|e| {
        Failure::new(Exit::Failed, anyhow::Error::new(e).context("the agent's answer is not understood"))
            .hint("is it another version? restart it")
    })
}

async fn take(mut response: Response) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|e| lost(&e))? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_ANSWER_BYTES {
            return Err(Failure::words(Exit::Failed, "the agent's answer is longer than 16 MiB"));
        }
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_listens_everywhere_is_reached_on_this_machine() {
        for (api, expected) in [
            ("0.0.0.0:1", "127.0.0.1:1"),
            ("[::]:2", "[::1]:2"),
            ("127.0.0.1:3", "127.0.0.1:3"),
            ("192.168.1.2:4", "192.168.1.2:4"),
        ] {
            assert_eq!(reachable(api.parse().unwrap()).to_string(), expected);
        }
    }

    #[test]
    fn an_error_s_code_decides_how_the_command_ends() {
        for (code, expected) in [
            (Some("no_peer"), Exit::NoPeer),
            (Some("model_not_found"), Exit::NotFound),
            (Some("context_length_exceeded"), Exit::NotFound),
            (Some("unknown_request"), Exit::NotFound),
            (Some("unknown_peer"), Exit::NotFound),
            (Some("cannot_move"), Exit::Failed),
            (Some("invalid_value"), Exit::Usage),
            (Some("invalid_api_key"), Exit::State),
            (Some("something_else"), Exit::Failed),
            (None, Exit::Failed),
        ] {
            let text = serde_json::json!({"error": {"message": "m", "type": "t", "code": code}}).to_string();
            assert_eq!(failure_of(&serde_json::from_str(&text).unwrap()).exit(), expected, "{code:?}");
        }
    }
}
