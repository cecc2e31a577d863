//! The two ways to a child, a process behind a pipe or a thread, as one pair of queues.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use idlewild_protocol::{FRAME_HEADER_BYTES, Message, frame, frame_len};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot, watch};

use super::commands::IN_FLIGHT_MAX;
use super::streams::SEQUENCES_MAX;
use crate::blob::Parcel;
use crate::child::Halt;
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
const COMMANDS_MAX: usize = 512;

/// Room for a load, an unload and a configuration besides every sequence's submission and cancellation, and the commands
/// to sequences that are in flight.
const _: () = assert!(COMMANDS_MAX > 3 * SEQUENCES_MAX + IN_FLIGHT_MAX);

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
    pub(super) fn to_process(mut child: Child, halted: watch::Receiver<bool>) -> io::Result<Self> {
        let closed = || io::Error::other("the child has no pipes");
        let stdin = child.stdin.take().ok_or_else(closed)?;
        let stdout = child.stdout.take().ok_or_else(closed)?;
        let pid = child.id();
        let (commands, outgoing) = mpsc::channel(COMMANDS_MAX);
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let (kill, killed) = oneshot::channel();
        tokio::spawn(write_commands(stdin, outgoing, halted));
        tokio::spawn(attend(child, stdout, sender, killed));
        Ok(Self { commands, events, pid, kill: Some(kill) })
    }

    /// Runs the same loop on a thread.
    pub(super) fn to_thread(mut halted: watch::Receiver<bool>) -> io::Result<Self> {
        let (commands, incoming) = mpsc::channel(COMMANDS_MAX);
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let halt = Arc::new(Halt::default());
        if *halted.borrow_and_update() {
            halt.set(true);
        }
        tokio::spawn(pass_on_halts(Arc::clone(&halt), commands.downgrade(), halted));
        thread::Builder::new().name("engine".to_owned()).spawn(move || {
            let emit = |event| sender.blocking_send(LinkEvent::Event(event)).is_ok();
            let how = match catch_unwind(AssertUnwindSafe(|| crate::child::run(incoming, &halt, emit))) {
                Ok(()) => "its thread ended",
                Err(_) => "its thread panicked",
            };
            let _ = sender.blocking_send(LinkEvent::Exited(how.to_owned()));
        })?;
        Ok(Self { commands, events, pid: None, kill: None })
    }

    /// Whether one more command leaves room for every cancellation.
    pub(super) fn has_room(&self) -> bool {
        self.commands.capacity() > SEQUENCES_MAX + 1
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

/// Writes commands, and ahead of all that wait whether the child is to halt. So a halt waits for one chunk at most.
async fn write_commands(
    mut stdin: ChildStdin,
    mut commands: mpsc::Receiver<EngineCommand>,
    mut halted: watch::Receiver<bool>,
) {
    if *halted.borrow_and_update() && write(&mut stdin, &EngineCommand::Halt(true)).await.is_err() {
        return;
    }
    loop {
        let command = tokio::select! {
            biased;
            Ok(()) = halted.changed() => EngineCommand::Halt(*halted.borrow_and_update()),
            command = commands.recv() => match command {
                Some(command) => command,
                None => return,
            },
        };
        if write(&mut stdin, &command).await.is_err() {
            return;
        }
    }
}

async fn write(stdin: &mut ChildStdin, command: &EngineCommand) -> io::Result<()> {
    // The supervisor has checked that it can be encoded; a child that does not read is about to be seen as dead.
    let Ok(bytes) = frame(command) else { return Ok(()) };
    stdin.write_all(&bytes).await?;
    if let Some(blob) = command.blob() {
        stdin.write_all(blob.as_bytes()).await?;
    }
    Ok(())
}

/// The same for a thread, which has no pipe: the flag is set here, and the command wakes a loop that sleeps.
async fn pass_on_halts(halt: Arc<Halt>, commands: mpsc::WeakSender<EngineCommand>, mut halted: watch::Receiver<bool>) {
    while halted.changed().await.is_ok() {
        let on = *halted.borrow_and_update();
        halt.set(on);
        let Some(commands) = commands.upgrade() else { return };
        // One that is full wakes the loop as well.
        let _ = commands.try_send(EngineCommand::Halt(on));
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
    let mut event = EngineEvent::from_bytes(&body).map_err(io::Error::other)?;
    if let Some(blob) = event.blob_mut() {
        // Neither zeroed first nor grown: one more byte than announced, since a full vector is doubled to look for the end.
        let mut bytes = Vec::with_capacity(blob.announced() + 1);
        stdout.take(blob.announced() as u64).read_to_end(&mut bytes).await?;
        if !blob.fill(bytes) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(event)
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
