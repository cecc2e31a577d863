//! The two ways to a child, a process behind a pipe or a thread, as one pair of queues.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use idlewild_protocol::{FRAME_HEADER_BYTES, Message, frame, frame_len};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};

use crate::messages::{EngineCommand, EngineEvent};

/// Where the engine's loop runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In a child process.
    Process,
    /// On a thread of this one.
    Thread,
}

/// Commands on their way. The supervisor keeps room for the cancellation of every sequence, so it never waits.
pub(super) const COMMANDS_MAX: usize = 512;

/// Events on their way; a child that is ahead of the supervisor waits.
const EVENTS_MAX: usize = 256;

/// What comes from a child.
#[derive(Debug)]
pub(super) enum LinkEvent {
    Event(EngineEvent),
    /// It is gone, and its memory with it. The last event.
    Exited(String),
}

/// A child that runs. Dropping it kills a process at once, and ends a thread after its present step.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) commands: mpsc::Sender<EngineCommand>,
    pub(super) events: mpsc::Receiver<LinkEvent>,
    pub(super) pid: Option<u32>,
    kill: Option<oneshot::Sender<()>>,
}

impl Link {
    /// Takes charge of a process that was just started with pipes.
    pub(super) fn to_process(mut child: Child) -> io::Result<Self> {
        let closed = || io::Error::other("the child has no pipes");
        let stdin = child.stdin.take().ok_or_else(closed)?;
        let stdout = child.stdout.take().ok_or_else(closed)?;
        let pid = child.id();
        let (commands, outgoing) = mpsc::channel(COMMANDS_MAX);
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let (kill, killed) = oneshot::channel();
        tokio::spawn(write_commands(stdin, outgoing));
        tokio::spawn(attend(child, stdout, sender, killed));
        Ok(Self { commands, events, pid, kill: Some(kill) })
    }

    /// Runs the same loop on a thread.
    pub(super) fn to_thread() -> io::Result<Self> {
        let (commands, incoming) = mpsc::channel(COMMANDS_MAX);
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        thread::Builder::new().name("engine".to_owned()).spawn(move || {
            let emit = |event| sender.blocking_send(LinkEvent::Event(event)).is_ok();
            let how = match catch_unwind(AssertUnwindSafe(|| crate::child::run(incoming, emit))) {
                Ok(()) => "its thread ended",
                Err(_) => "its thread panicked",
            };
            let _ = sender.blocking_send(LinkEvent::Exited(how.to_owned()));
        })?;
        Ok(Self { commands, events, pid: None, kill: None })
    }

    /// Kills the child and waits until it is gone.
    pub(super) async fn kill(self) {
        let Self { commands, mut events, kill, .. } = self;
        drop(commands);
        if let Some(kill) = kill {
            let _ = kill.send(());
        }
        while let Some(LinkEvent::Event(_)) = events.recv().await {}
    }
}

async fn write_commands(mut stdin: ChildStdin, mut commands: mpsc::Receiver<EngineCommand>) {
    while let Some(command) = commands.recv().await {
        // The supervisor has checked that it can be encoded; a child that does not read is about to be seen as dead.
        let Ok(bytes) = frame(&command) else { continue };
        if stdin.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// Reads what the child says until it dies, is to be killed, or says nonsense; then sees to it that it is gone.
async fn attend(
    mut child: Child,
    stdout: ChildStdout,
    events: mpsc::Sender<LinkEvent>,
    mut killed: oneshot::Receiver<()>,
) {
    // One read a token: without a buffer each frame takes two, and a third that finds nothing.
    let mut stdout = BufReader::new(stdout);
    let mut nonsense = None;
    loop {
        let event = tokio::select! {
            _ = &mut killed => break,
            event = read_event(&mut stdout) => event,
        };
        match event {
            Ok(event) => {
                if events.send(LinkEvent::Event(event)).await.is_err() {
                    break;
                }
            }
            Err(error) => {
                nonsense = (error.kind() != io::ErrorKind::UnexpectedEof).then(|| error.to_string());
                break;
            }
        }
    }
    // It may be dead already.
    let _ = child.start_kill();
    let how = match child.wait().await {
        Ok(status) => nonsense.unwrap_or_else(|| status.to_string()),
        Err(error) => error.to_string(),
    };
    let _ = events.send(LinkEvent::Exited(how)).await;
}

async fn read_event(stdout: &mut BufReader<ChildStdout>) -> io::Result<EngineEvent> {
    let mut header = [0; FRAME_HEADER_BYTES];
    stdout.read_exact(&mut header).await?;
    let mut body = vec![0; frame_len::<EngineEvent>(header).map_err(io::Error::other)?];
    stdout.read_exact(&mut body).await?;
    EngineEvent::from_bytes(&body).map_err(io::Error::other)
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
