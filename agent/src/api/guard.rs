//! Who may talk to the API: holders of the key, through a name that is ours, from no web page of another origin.
//!
//! The `Host` check stops DNS rebinding: a page on `evil.example` that resolves to 127.0.0.1 still sends
//! `Host: evil.example`. The `Origin` check stops plain cross-origin posts, which need no preflight.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::middleware::Next;
use axum::response::Response;

use super::room::Place;
use super::{Api, ApiError};

/// The key that clients show. Kept as a hash, and compared as one: equal time whatever differs.
#[derive(Clone)]
pub struct ApiKey(blake3::Hash);

/// A key without a character would let everybody in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the API key is empty; delete the api-key file to have a new one generated")]
pub struct EmptyKey;

impl ApiKey {
    /// The key with this text.
    pub fn new(text: &str) -> Result<Self, EmptyKey> {
        if text.trim().is_empty() { Err(EmptyKey) } else { Ok(Self(blake3::hash(text.trim().as_bytes()))) }
    }

    fn admits(&self, shown: &str) -> bool {
        blake3::hash(shown.trim().as_bytes()) == self.0
    }
}

impl std::fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApiKey(..)")
    }
}

/// Which `Host` headers name this agent.
#[derive(Debug, Clone)]
pub struct Hosts {
    bound: IpAddr,
    names: Arc<[String]>,
}

impl Hosts {
    /// Loopback names and addresses, the address that the API is bound to (any address where it is bound to all), and
    /// further `names`.
    pub fn new(bound: IpAddr, names: impl IntoIterator<Item = String>) -> Self {
        Self { bound, names: names.into_iter().map(|name| name.to_ascii_lowercase()).collect() }
    }

    /// Whether `authority` (`host` or `host:port`) is ours.
    fn include(&self, authority: &str) -> bool {
        let Some(host) = host_of(authority).map(str::to_ascii_lowercase) else { return false };
        if let Ok(address) = host.parse::<IpAddr>() {
            return address.is_loopback() || address == self.bound || self.bound.is_unspecified();
        }
        host == "localhost" || host.ends_with(".localhost") || self.names.contains(&host)
    }
}

/// The host in `host`, `host:port`, `[v6]` or `[v6]:port`; none in anything else, such as what holds a user's name.
fn host_of(authority: &str) -> Option<&str> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let is_port = |rest: &str| rest.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()));
    ((rest.is_empty() || is_port(rest)) && !host.contains(['@', '/'])).then_some(host)
}

/// Lets a request through, or answers 403 or 401.
pub(super) async fn check(State(api): State<Api>, request: Request, next: Next) -> Result<Response, ApiError> {
    check_host(&api.hosts, request.headers(), request.uri())?;
    check_origin(&api.hosts, request.headers())?;
    if !shown_key(request.headers()).is_some_and(|shown| api.key.admits(shown)) {
        return Err(ApiError::unauthorised());
    }
    if let Some(place) = request.extensions().get::<Arc<Place>>() {
        place.is_known();
    }
    Ok(next.run(request).await)
}

fn check_host(hosts: &Hosts, headers: &HeaderMap, uri: &Uri) -> Result<(), ApiError> {
    let authority = uri
        .authority()
        .map(axum::http::uri::Authority::as_str)
        .or_else(|| headers.get(header::HOST).and_then(|v| v.to_str().ok()));
    let is_one = headers.get_all(header::HOST).iter().count() <= 1;
    if is_one && authority.is_some_and(|authority| hosts.include(authority)) {
        return Ok(());
    }
    let message = "the Host header does not name this agent; use localhost or the address that it listens on";
    Err(ApiError::forbidden("host_not_allowed", message))
}

/// A browser sends one `Origin` with every cross-origin request and every post; other programs send none.
fn check_origin(hosts: &Hosts, headers: &HeaderMap) -> Result<(), ApiError> {
    let is_ours = |origin: &HeaderValue| {
        origin.to_str().ok().and_then(|o| o.split_once("://")).is_some_and(|(_, host)| hosts.include(host))
    };
    if headers.get_all(header::ORIGIN).iter().all(is_ours) {
        return Ok(());
    }
    Err(ApiError::forbidden("origin_not_allowed", "web pages of other origins may not use this API"))
}

fn shown_key(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, key) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_agent_pass_the_host_check() {
        let hosts = Hosts::new("10.1.2.3".parse().unwrap(), ["Nest.lan".to_owned()]);
        for ours in
            ["localhost", "localhost:14353", "127.0.0.1:1", "127.9.9.9", "[::1]:14353", "10.1.2.3:14353", "nest.lan:1"]
        {
            assert!(hosts.include(ours), "{ours}");
        }
        for other in [
            "evil.example",
            "evil.example:14353",
            "10.1.2.4",
            "localhost.evil.example",
            "",
            "[fe80::1]:1",
            "localhost:x@evil.example",
            "x@localhost",
            "x@a.localhost",
            "localhost:1:2",
            "[::1]x",
            "[::1",
            "localhost/x",
        ] {
            assert!(!hosts.include(other), "{other}");
        }
    }

    #[test]
    fn an_agent_bound_to_all_addresses_is_known_by_any_address_but_no_other_name() {
        let hosts = Hosts::new("0.0.0.0".parse().unwrap(), []);
        assert!(hosts.include("192.168.7.7:14353"));
        assert!(!hosts.include("evil.example"));
    }

    #[test]
    fn an_empty_key_is_refused() {
        assert_eq!(ApiKey::new(" \n").err(), Some(EmptyKey));
        assert!(ApiKey::new("k").unwrap().admits("k"));
        assert!(!ApiKey::new("k").unwrap().admits("kk"));
    }
}
