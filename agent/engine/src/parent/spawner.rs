//! The thread that starts children.
//!
//! The kernel kills a child with `PR_SET_PDEATHSIG` when the *thread* that started it ends, and threads of a runtime may
//! end before the runtime does. So children are started by a thread that lives as long as their supervisor.

use std::io;
use std::process::Stdio;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::EngineConfig;

type Reply = oneshot::Sender<io::Result<Child>>;

/// Starts children of one program.
#[derive(Debug)]
pub(super) struct Spawner {
    requests: SyncSender<Reply>,
}

impl Spawner {
    /// Must be called inside a tokio runtime.
    pub(super) fn new(config: &EngineConfig) -> io::Result<Self> {
        let (requests, incoming) = sync_channel::<Reply>(1);
        let (program, arguments) = (config.program.clone(), config.arguments.clone());
        let runtime = Handle::current();
        thread::Builder::new().name("engine-spawner".to_owned()).spawn(move || {
            let _inside = runtime.enter();
            while let Ok(reply) = incoming.recv() {
                let mut command = Command::new(&program);
                command.args(&arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
                // A crash is told by how the child ends; a debugger at its side would only hold its death up.
                command.env("GGML_NO_BACKTRACE", "1");
                // A group of its own: the terminal's Ctrl-C is for the agent, which says goodbye first.
                #[cfg(unix)]
                command.process_group(0);
                let child = command.spawn();
                // A child that nobody waits for any more is killed by its drop.
                let _ = reply.send(child);
            }
        })?;
        Ok(Self { requests })
    }

    pub(super) async fn spawn(&self) -> io::Result<Child> {
        let (reply, child) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts children is gone");
        self.requests.try_send(reply).map_err(|_| gone())?;
        child.await.unwrap_or_else(|_| Err(gone()))
    }
}
