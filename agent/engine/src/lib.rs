//! The engine: a child process around llama.cpp, and the agent's handle to it.
//!
//! ```text
//! Engine (handle) -> supervisor ==frames over a pipe==> child: reader -> batching loop -> model (llama.cpp or the fake)
//!    ^ streams, stats, notices <==================== events <---------------'
//! ```
//!
//! A process of its own, because llama.cpp may crash on a damaged model, because memory must be back the moment that the
//! owner returns (a kill does that, a destructor does not), and because the owner's programs come first: the child runs
//! at the lowest priority. The agent survives any death of the child; sequences fail and are placed again elsewhere.
//!
//! Continuation is exact by construction: the draw of token n depends on (seed, n) only, penalties on the ids so far, and
//! the text of token n on the ids and stop texts only. So a sequence that goes on from ids ([`JobInput::Tokens`]) emits
//! what the undisturbed one would have, as far as the arithmetic gives the same logits.
//!
//! So a sequence may move. [`Engine::prepare`] makes a standby, which holds what it is told, by ids or by chunks of another
//! engine's KV cache, until it takes over; [`SequenceHandle`] stops the source after an index and takes its chunks.
//! [`Engine::halt`] ends all computing in the middle of a step and leaves every context where it is, to be taken.
//!
//! Deliberately absent: sockets, peers, requests and their epochs (the worker knows them), model downloads.
//!
//! [`JobInput::Tokens`]: idlewild_protocol::JobInput::Tokens

mod blob;
mod child;
mod config;
mod cpu;
mod error;
mod handle;
mod job;
mod messages;
mod parent;
mod report;

pub use child::{Courtesy, child_main, piece_s};
pub use config::{Backend, DoublesAt, EngineConfig, FakeRates, KvType, MAX_SLOTS, ModelFile};
pub use cpu::{MissingCpuFeature, check_cpu};
pub use error::{EngineError, LoadFailure};
pub use handle::{ExportError, KvChunk, SequenceError, SequenceHandle, WAITING_CHUNKS_BYTES_MAX};
pub use job::{EngineJob, EngineStream, SequenceEvent};
pub use parent::Engine;
pub use report::{EngineNotice, EnginePhase, EngineStats, LoadedModel};
