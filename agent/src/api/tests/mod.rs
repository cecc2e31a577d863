//! The API over real HTTP and a scripted origin: no network, no engine.

mod answers;
mod connections;
mod refusals;
mod streams;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use idlewild_protocol::{FinishReason, ModelId, ModelInfo, PeerId};
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::server::{Limits, serve};
use super::{Api, ApiKey, Hosts, router};
use crate::driver::{Catalogue, Desk, DeskBack, KnownModel};
use crate::origin::{GenerationEvent, Origins, Records, Submission};

const KEY: &str = "test-key";
const WORKER: PeerId = PeerId([9; 32]);

/// Generous: a busy machine is no failure. What is waited for comes in milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// An API that is served, with its other ends.
struct Served {
    address: SocketAddr,
    client: Client,
    submissions: mpsc::Receiver<Submission>,
    back: DeskBack,
}

impl Served {
    /// With one model, `tiny`.
    async fn start() -> Self {
        Self::start_within(Limits::default()).await
    }

    async fn start_within(limits: Limits) -> Self {
        Self::start_with(limits, 10_000).await
    }

    async fn start_with(limits: Limits, max_body_bytes: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (origins, submissions) = Origins::channel(2);
        let (desk, back) = Desk::pair(Records::default());
        let info = ModelInfo { id: ModelId([1; 32]), name: "tiny".to_owned(), size_bytes: 5, context_tokens: 64 };
        let known = KnownModel { info, other_names: vec!["elsewhere".to_owned()], peers: vec![WORKER], own: false };
        back.catalogue.send_replace(Arc::new(Catalogue { models: vec![known] }));
        let api = Api {
            key: ApiKey::new(KEY).unwrap(),
            hosts: Hosts::new(address.ip(), []),
            origins,
            desk,
            max_body_bytes,
            default_model: None,
        };
        tokio::spawn(serve(listener, router(api), limits, std::future::pending()));
        let client = Client::builder().no_proxy().build().unwrap();
        Self { address, client, submissions, back }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn post(&self, path: &str, body: impl Into<String>) -> RequestBuilder {
        self.client.post(self.url(path)).bearer_auth(KEY).body(body.into())
    }

    /// Sends a request and plays `script` for the submission that comes of it, which is returned.
    async fn play(&mut self, request: RequestBuilder, script: Vec<GenerationEvent>) -> (Response, Submission) {
        let sent = tokio::spawn(request.send());
        let submission = timeout(PATIENCE, self.submissions.recv()).await.unwrap().unwrap();
        for event in script {
            submission.events.send(event).await.unwrap();
        }
        (timeout(PATIENCE, sent).await.unwrap().unwrap().unwrap(), submission)
    }
}

fn hello(more: &Value) -> String {
    let mut body = json!({ "model": "tiny", "messages": [{ "role": "user", "content": "hi" }] });
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body.to_string()
}

/// An answer of two tokens.
fn answer() -> Vec<GenerationEvent> {
    vec![
        GenerationEvent::Placed { worker: WORKER },
        GenerationEvent::Prompt { tokens: 3 },
        GenerationEvent::Text("Good".to_owned()),
        GenerationEvent::Text(" day".to_owned()),
        GenerationEvent::Done { reason: FinishReason::Stop, prompt_tokens: 3, output_tokens: 2 },
    ]
}
