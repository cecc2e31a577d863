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
                #[cfg(unix)]
                in_own_session(&mut command);
                let child = command.spawn();
                // A child that nobody waits for any more is killed by its drop.
                let _ = reply.send(child);
            }
        })?;
        Ok(Self { requests })
    }

    /// Starts a child, in a session of its own.
    pub(super) async fn spawn(&self) -> io::Result<Child> {
        let (reply, child) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts children is gone");
        self.requests.try_send(reply).map_err(|_| gone())?;
        child.await.unwrap_or_else(|_| Err(gone()))
    }
}

/// The terminal's Ctrl-C is for the agent, which says goodbye first; and a session of its own is what the child can put last
/// among all others (see `child::priority`).
#[cfg(unix)]
#[expect(unsafe_code, reason = "nothing safe makes a session between fork and exec, and a leader of a group cannot")]
fn in_own_session(command: &mut Command) {
    // SAFETY: what runs between fork and exec is one system call, which neither allocates nor locks.
    unsafe { command.pre_exec(|| rustix::process::setsid().map(drop).map_err(io::Error::from)) };
}
