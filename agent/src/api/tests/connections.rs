//! Clients that hold connections and say nothing, or not enough.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{KEY, PATIENCE, Served, answer, hello};
use crate::api::server::Limits;
use crate::driver::Readiness;

/// The beginning of a request that goes no further.
async fn half_a_head(api: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(api).await.unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-a: ").await.unwrap();
    stream
}

/// Waits until the agent has closed the connection.
async fn until_closed(stream: &mut TcpStream) {
    let closed = async {
        loop {
            match stream.read(&mut [0; 256]).await {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) => return assert_eq!(error.kind(), ErrorKind::ConnectionReset),
            }
        }
    };
    timeout(PATIENCE, closed).await.unwrap();
}

async fn holds_on(served: &Served) {
    served.back.ready.send_replace(Readiness::Ready);
    let ready = served.client.get(served.url("/ready")).send();
    assert_eq!(timeout(PATIENCE, ready).await.unwrap().unwrap().status(), 200);
    let models = served.client.get(served.url("/v1/models")).bearer_auth(KEY).send();
    assert_eq!(timeout(PATIENCE, models).await.unwrap().unwrap().status(), 200);
}

#[tokio::test]
async fn silent_connections_keep_nobody_out_however_many_they_are() {
    let never = Duration::from_hours(1);
    let served = Served::start_within(Limits { connections: 8, head_within: never }).await;
    let mut silent = Vec::new();
    for _ in 0..24 {
        silent.push(half_a_head(served.address).await);
    }
    holds_on(&served).await;
    until_closed(&mut silent[0]).await;
}

#[tokio::test]
async fn an_answer_under_way_keeps_its_place_among_silent_connections() {
    let never = Duration::from_hours(1);
    let mut served = Served::start_within(Limits { connections: 4, head_within: never }).await;
    let sent = tokio::spawn(served.post("/v1/chat/completions", hello(&serde_json::json!({}))).send());
    let submission = timeout(PATIENCE, served.submissions.recv()).await.unwrap().unwrap();
    let mut silent = Vec::new();
    for _ in 0..16 {
        silent.push(half_a_head(served.address).await);
    }
    holds_on(&served).await;
    for event in answer() {
        submission.events.send(event).await.unwrap();
    }
    let response = timeout(PATIENCE, sent).await.unwrap().unwrap().unwrap();
    assert!(response.text().await.unwrap().contains("Good day"));
}

#[tokio::test]
async fn a_head_that_does_not_end_is_not_waited_for() {
    let limits = Limits { connections: 8, head_within: Duration::from_millis(50) };
    let served = Served::start_within(limits).await;
    until_closed(&mut half_a_head(served.address).await).await;
    until_closed(&mut TcpStream::connect(served.address).await.unwrap()).await;
    holds_on(&served).await;
}
