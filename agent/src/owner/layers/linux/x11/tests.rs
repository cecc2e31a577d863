//! An X server in a few lines, without SYNC: what is made of its answers, and of answers that are none.

use std::collections::VecDeque;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};

use super::*;
use crate::owner::sighting::LayerKind;

const SAVER: &str = "MIT-SCREEN-SAVER";
const SAVER_OPCODE: u8 = 140;
const QUERY_EXTENSION: u8 = 98;
const GET_INPUT_FOCUS: u8 = 43;

/// Serves one client. `idle_ms` are the answers to how long there was no input; the last is given again and again.
async fn serve(listener: UnixListener, mut idle_ms: VecDeque<u32>) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut hello = [0; 12];
    stream.read_exact(&mut hello).await.unwrap();
    // Success, version 11.0, 8 words behind the header; and in them no vendor, no formats, no screens.
    stream.write_all(&[1, 0, 11, 0, 0, 0, 8, 0]).await.unwrap();
    stream.write_all(&[0; 32]).await.unwrap();
    let mut sequence: u16 = 0;
    while let Some(request) = request(&mut stream).await {
        sequence += 1;
        let mut reply = [0; 32];
        reply[0] = 1;
        reply[2..4].copy_from_slice(&sequence.to_ne_bytes());
        match request[0] {
            QUERY_EXTENSION => {
                let is_there = request[8..].starts_with(SAVER.as_bytes());
                (reply[8], reply[9], reply[10]) = (u8::from(is_there), SAVER_OPCODE, 90);
            }
            SAVER_OPCODE => {
                let idle = if idle_ms.len() > 1 { idle_ms.pop_front() } else { idle_ms.front().copied() };
                reply[16..20].copy_from_slice(&idle.unwrap().to_ne_bytes());
            }
            other => assert_eq!(other, GET_INPUT_FOCUS),
        }
        stream.write_all(&reply).await.unwrap();
    }
}

async fn request(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 4];
    stream.read_exact(&mut bytes).await.ok()?;
    let words = u16::from_ne_bytes([bytes[2], bytes[3]]);
    bytes.resize(usize::from(words) * 4, 0);
    stream.read_exact(&mut bytes[4..]).await.ok()?;
    Some(bytes)
}

fn outlet(alarm: Duration) -> (Outlet, mpsc::Receiver<(LayerKind, Sighting)>) {
    let (sightings, seen) = mpsc::channel(8);
    let (_, logins) = watch::channel(Logins::Unknown);
    (Outlet { kind: LayerKind::X11, alarm, sightings, logins }, seen)
}

#[tokio::test]
async fn a_server_without_counters_is_asked_for_its_screen_saver() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("X7");
    let server = tokio::spawn(serve(UnixListener::bind(&socket).unwrap(), VecDeque::from([0, 90, 95, 3, 90])));
    let mut x = XConnection::open(&socket, None).await.unwrap();
    assert!(idle_counter(&mut x).await.unwrap().is_none());
    let (out, mut seen) = outlet(Duration::from_millis(80));
    let layer = tokio::spawn(async move { follow_saver(&mut x, &out).await });
    for is_quiet in [false, true, false, true] {
        let (_, sighting) = seen.recv().await.unwrap();
        assert_eq!(matches!(sighting, Sighting::Quiet { .. }), is_quiet, "{sighting:?}");
    }
    server.abort();
    let ended = layer.await.unwrap();
    assert!(matches!(ended, Err(Trouble::Blind(_))), "{ended:?}");
}

#[tokio::test]
async fn answers_that_are_none_are_blindness_and_cost_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    for (number, answer) in [vec![0; 8], vec![9; 64], vec![1, 0, 11, 0, 0, 0, 0, 0], vec![]].into_iter().enumerate() {
        let socket = dir.path().join(format!("X{number}"));
        let listener = UnixListener::bind(&socket).unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.read_exact(&mut [0; 12]).await.unwrap();
            stream.write_all(&answer).await.unwrap();
        });
        let opened = XConnection::open(&socket, None).await;
        assert!(matches!(opened, Err(Trouble::Blind(_))), "{opened:?}");
        server.await.unwrap();
    }
    let nobody = XConnection::open(&dir.path().join("X99"), None).await;
    assert!(matches!(nobody, Err(Trouble::Absent(_))), "{nobody:?}");
}

#[test]
fn only_a_display_of_this_machine_has_a_number() {
    for (display, expected) in [
        (":0", Some(0)),
        (":12.1", Some(12)),
        ("unix:3", Some(3)),
        ("localhost:10.0", None),
        ("desk:0", None),
        ("", None),
        (":x", None),
    ] {
        assert_eq!(local_number(display), expected, "{display:?}");
    }
}

#[test]
fn counters_keep_their_value_in_two_halves() {
    for ms in [0, 1, 999, 180_000, i64::from(u32::MAX) + 7] {
        assert_eq!(duration(int64(ms)), Duration::from_millis(u64::try_from(ms).unwrap()));
    }
    assert_eq!(duration(int64(-5)), Duration::ZERO);
}
