//! Gets a context's KV cache from the peer that holds it into a sequence of ours.
//!
//! ```text
//! plan (pure): which range next --> ContextClient --chunk--> SequenceHandle::import --> engine child
//!      ^ known: ids that we were sent      ^ held: what the sequence holds
//! ```
//!
//! Whatever goes wrong, the sequence goes on from the ids: a pull is never what a request depends on.

mod plan;

use std::time::Duration;

use idlewild_engine::{KvChunk, SequenceHandle};
use idlewild_protocol::{ChunkHeader, ContextOpen, ContextRefusal, PeerId, PullPart};
use idlewild_swarm::{ContextClient, ContextLost, ContextRange, Pulled, Swarm};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info};

use plan::{PullPlan, Range};

use super::contexts::Moved;

/// Times that a stream may break before the rest is made from the ids.
const STREAMS_MAX: u32 = 3;

/// Times in a row that a holder may not hold yet what its origin says it does.
const NOT_YET_MAX: u32 = 40;

/// The same of a holder that computes no more: it will never hold it.
const NEVER_MAX: u32 = 3;

/// A chunk of which nothing comes for so long: its holder is given up, well before an origin gives us up.
const STANDSTILL: Duration = Duration::from_secs(1);

/// Between two streams to a holder that is busy, or cut off.
const AGAIN: Duration = Duration::from_millis(100);

/// Between two such questions: about a token of a slow machine.
const NOT_YET: Duration = Duration::from_millis(25);

/// Bytes of a chunk: exported within a millisecond or two. A holder gives one between two steps, and on a long context a step
/// takes 50 ms: chunks of 1.5 MB filled a quarter of a link of 1 Gbit/s.
const CHUNK_BYTES: u32 = 6_000_000;

/// Positions of a chunk over a link of which nothing is known.
const CHUNK_TOKENS_UNKNOWN: u32 = 64;

/// Seconds that a chunk may take on a slow link: what is under way when the two ends meet is of no use.
const CHUNK_S: f64 = 0.1;

/// Positions of a chunk, whatever their size.
const CHUNK_TOKENS: std::ops::RangeInclusive<u32> = 8..=256;

/// A link that carries fewer tokens a second than this many times what we prefill is helped by prefilling from the other
/// end (policy.md, phi).
pub(super) const SPLIT_BELOW_PHI: f64 = 3.0;

/// What is pulled, from whom, and how fast we could do without.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) swarm: Swarm,
    pub(super) holder: PeerId,
    pub(super) open: ContextOpen,
    pub(super) part: PullPart,
    pub(super) kv_bytes_per_token: u32,
    /// Tokens a second that this peer prefills.
    pub(super) prefill_tps: f64,
    /// Tokens a second that the link carries, if that is known.
    pub(super) kv_tps: Option<f64>,
    /// Counts what comes.
    pub(super) moved: Moved,
}

/// A pull under way. Dropping it ends it; what the sequence then expects is up to the one who dropped it.
#[derive(Debug)]
pub(super) struct Pulling {
    known: watch::Sender<Known>,
    held: watch::Sender<u32>,
    task: AbortOnDropHandle<bool>,
}

impl Pulling {
    /// Begins to pull into `handle`, whose sequence has a slot and was sent `known` ids. With `is_once` it ends when what
    /// there was at the start has come; else it goes on as the holder decodes.
    pub(super) fn start(source: Source, handle: SequenceHandle, known: u32, is_once: bool) -> Self {
        let (known, known_seen) =
            watch::channel(Known { positions: positions(known), is_final: is_once, is_urgent: false });
        let (held, held_seen) = watch::channel(0);
        let pull = Pull { source, handle, known: known_seen, held: held_seen };
        Self { known, held, task: AbortOnDropHandle::new(tokio::spawn(pull.run())) }
    }

    /// So many ids were sent by now.
    pub(super) fn known(&self, ids: u32) {
        self.known.send_modify(|known| known.positions = positions(ids));
    }

    /// The hand-over is near, and every token counts; or it is not any more.
    pub(super) fn hurry(&self, is_urgent: bool) {
        self.known.send_modify(|known| known.is_urgent = is_urgent);
    }

    /// No more ids will come: it ends when what there is has come.
    pub(super) fn finish(&self) {
        self.known.send_modify(|known| known.is_final = true);
    }

    /// The sequence holds so many positions.
    pub(super) fn held(&self, tokens: u32) {
        self.held.send_replace(tokens);
    }

    /// Waits until nothing more will be pulled; whether the whole has come, and is on its way into the sequence. May be
    /// dropped and called again until it has answered.
    pub(super) async fn finished(&mut self) -> bool {
        // A task that panicked pulls nothing more either.
        (&mut self.task).await.unwrap_or(false)
    }
}

/// What there is to pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    positions: u32,
    /// No more will come.
    is_final: bool,
    /// The hand-over is near.
    is_urgent: bool,
}

/// Positions that the holder has when it has told so many ids: the last one is evaluated with the next step.
fn positions(ids: u32) -> u32 {
    ids.saturating_sub(1)
}

/// Positions of a chunk.
fn chunk_tokens(source: &Source) -> u32 {
    let by_bytes = CHUNK_BYTES / source.kv_bytes_per_token.max(1);
    let by_time = source.kv_tps.map_or(CHUNK_TOKENS_UNKNOWN, |tps| (tps * CHUNK_S) as u32);
    by_bytes.min(by_time).clamp(*CHUNK_TOKENS.start(), *CHUNK_TOKENS.end())
}

struct Pull {
    source: Source,
    handle: SequenceHandle,
    known: watch::Receiver<Known>,
    held: watch::Receiver<u32>,
}

/// Why a stream was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// All has come.
    Done,
    /// It broke; another may do better.
    Broken,
    /// The holder will not, or the engine is gone.
    Over,
}

/// What became of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    Chunk,
    NotYet,
    Nothing,
}

impl Pull {
    /// Whether the whole has come: a rest leaves to the sequence what is sooner made.
    async fn run(mut self) -> bool {
        let mut left = Left::Broken;
        let known = self.known.borrow().positions;
        let mut plan = PullPlan::new(self.source.part, chunk_tokens(&self.source), known);
        for _ in 0..STREAMS_MAX {
            left = self.converse(&mut plan).await;
            debug!(?left, part = ?plan.part(), "pull");
            if left != Left::Broken {
                break;
            }
            plan.ask_again();
            tokio::time::sleep(AGAIN).await;
        }
        // A sequence that is gone expects nothing.
        self.handle.expect(None).ok();
        left == Left::Done && plan.part() == PullPart::Whole
    }

    /// Pulls on one stream until it is of no use any more.
    async fn converse(&mut self, plan: &mut PullPlan) -> Left {
        self.expect(plan);
        let mut client = match self.source.swarm.open_context(self.source.holder, self.source.open).await {
            Ok(client) => client,
            Err(error) => {
                info!(holder = %self.source.holder.short(), %error, "the KV cache cannot be pulled");
                return Left::Broken;
            }
        };
        let mut not_yet = 0;
        loop {
            let (all, held) = (*self.known.borrow_and_update(), *self.held.borrow_and_update());
            let known = all.positions;
            // What the last chunk leaves is worth one more where no other follows.
            plan.hurry(all.is_urgent || all.is_final);
            if is_done(plan, all, held) {
                return Left::Done;
            }
            while let Some(Range { from, to }) = plan.next(known, held) {
                if client.pull(from, to).is_err() {
                    return Left::Broken;
                }
            }
            self.expect(plan);
            let before = client.received_bytes();
            let answer = tokio::select! {
                answer = client.next(), if plan.is_waiting() => answer,
                () = tokio::time::sleep(STANDSTILL), if plan.is_waiting() => {
                    if self.is_too_slow(client.received_bytes() - before) {
                        info!(holder = %self.source.holder.short(), "a KV cache comes too slowly; the ids make the rest");
                        return Left::Over;
                    }
                    continue;
                }
                changed = self.known.changed() => if changed.is_ok() { continue } else { return Left::Over },
                changed = self.held.changed() => if changed.is_ok() { continue } else { return Left::Over },
            };
            let (range, taken) = match answer {
                Ok(answer) => self.take(answer).await,
                Err(lost) => {
                    info!(holder = %self.source.holder.short(), %lost, "the stream of a KV cache broke");
                    let is_final = matches!(lost, ContextLost::Refused(why) if why != ContextRefusal::Busy);
                    return if is_final { Left::Over } else { Left::Broken };
                }
            };
            match taken {
                Taken::Chunk => {
                    not_yet = 0;
                    plan.came(range);
                    self.judge(plan, &client, known);
                }
                Taken::NotYet if not_yet < if all.is_final { NEVER_MAX } else { NOT_YET_MAX } => {
                    not_yet += 1;
                    plan.put_off(range);
                    tokio::time::sleep(NOT_YET).await;
                }
                Taken::NotYet | Taken::Nothing => return Left::Over,
            }
        }
    }

    /// Whether what came in [`STANDSTILL`] is less than a quarter of what prefilling would have made.
    fn is_too_slow(&self, bytes: u64) -> bool {
        let made = self.source.prefill_tps * STANDSTILL.as_secs_f64() * f64::from(self.source.kv_bytes_per_token);
        (bytes as f64) < made / 4.0
    }

    fn expect(&self, plan: &PullPlan) {
        // A sequence that is gone expects nothing; one whose engine is that busy is told again with the next chunk.
        self.handle.expect(plan.expect()).ok();
    }

    async fn take(&self, answer: Pulled) -> (Range, Taken) {
        match answer {
            Pulled::Chunk { header: ChunkHeader { from, to, .. }, bytes } => {
                self.source.moved.add(bytes.len());
                let imported = self.handle.import(KvChunk { from, to, bytes }).await;
                (Range { from, to }, if imported.is_ok() { Taken::Chunk } else { Taken::Nothing })
            }
            Pulled::Refused { range: ContextRange { from, to }, refusal } => {
                let is_early = matches!(refusal, ContextRefusal::NotHeld | ContextRefusal::Busy);
                if !is_early {
                    info!(holder = %self.source.holder.short(), from, to, %refusal, "a part of a KV cache does not come");
                }
                (Range { from, to }, if is_early { Taken::NotYet } else { Taken::Nothing })
            }
        }
    }

    /// A link that is too slow for all of it gets help from the other end.
    fn judge(&self, plan: &mut PullPlan, client: &ContextClient, known: u32) {
        if plan.part() == PullPart::Rest {
            return;
        }
        let tps = client.bytes_per_s().map(|rate| rate as f64 / f64::from(self.source.kv_bytes_per_token.max(1)));
        let is_behind = plan.lacks(known) > 0;
        if is_behind && tps.is_some_and(|tps| tps < SPLIT_BELOW_PHI * self.source.prefill_tps) {
            plan.split(known);
        }
    }
}

/// Whether all has come that will, and that is worth a chunk.
fn is_done(plan: &mut PullPlan, known: Known, held: u32) -> bool {
    let Known { positions, is_final, is_urgent } = known;
    match plan.part() {
        // What little is missing then is sooner made than pulled from the other end.
        PullPart::Rest if is_urgent => true,
        PullPart::Whole => is_final && !plan.is_waiting() && plan.lacks(positions) == 0,
        PullPart::Rest => plan.is_round_over(held) && !plan.next_round(positions, held),
    }
}
