//! Gets a context's KV cache from the peer that holds it into a sequence of ours.
//!
//! ```text
//! plan (pure): which range next --> ContextClient --chunk--> SequenceHandle::import --> engine child
//!      ^ known: ids that we were sent      ^ held: what the sequence holds
//! ```
//!
//! Whatever goes wrong, the sequence goes on from the ids: a pull is never what a request depends on.

mod expecting;
mod pace;
mod plan;
mod pulling;
mod sizes;
mod source;

use std::time::Duration;

use idlewild_engine::{KvChunk, SequenceHandle};
use idlewild_protocol::{ChunkHeader, ContextRefusal, PullPart};
use idlewild_swarm::{ContextClient, ContextLost, ContextRange, OpenError, PULLS_MAX, Pulled};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::{debug, info};

use expecting::Expecting;
use pace::Pace;
use plan::{PullPlan, Range};
use sizes::Sizes;

pub(super) use pulling::{Progress, Pulling};
pub(super) use source::Source;

/// Times that a stream may break before the rest is made from the ids.
const STREAMS_MAX: u32 = 3;

/// Times in a row that a holder which computes no more may not hold what its origin says it does: it will never hold it.
const NEVER_MAX: u32 = 3;

/// Between two streams to a holder that is busy, or cut off.
const AGAIN: Duration = Duration::from_millis(100);

/// Positions behind a holder's up to which a pull keeps up with it.
const FEEDS_TOKENS: u32 = 48;

/// Between two questions for what a holder does not hold yet: about a token of a slow machine.
const NOT_YET: Duration = Duration::from_millis(25);

/// Between two signs of life to whoever waits, as long as the holder is in its time: origins give up after 3.5 s of silence.
const SIGN: Duration = Duration::from_secs(1);

/// A link that carries fewer tokens a second than this many times what we prefill is helped by prefilling from the other
/// end (policy.md, phi).
pub(super) const SPLIT_BELOW_PHI: f64 = 3.0;

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

struct Pull {
    source: Source,
    handle: SequenceHandle,
    expecting: Expecting,
    known: watch::Receiver<Known>,
    held: watch::Receiver<u32>,
    pace: Pace,
    sizes: Sizes,
    signs: watch::Sender<u64>,
    /// When the last of them was given.
    signed: Instant,
    /// Bytes that came on streams before this one.
    received_before: u64,
}

/// Why a stream was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// All has come.
    Done,
    /// The holder closed it while nothing was owed.
    Idle,
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
        let mut plan = PullPlan::new(self.source.part, self.sizes.tokens(), known).within(self.source.waiting_max());
        let mut broken = 0;
        while broken < STREAMS_MAX {
            left = self.pull_on_a_stream(&mut plan).await;
            if left == Left::Idle {
                left = self.wait_for_work(&mut plan).await;
            }
            debug!(?left, part = ?plan.part(), "pull");
            match left {
                Left::Done | Left::Over => break,
                Left::Idle => {}
                Left::Broken => {
                    broken += 1;
                    plan.ask_again();
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
        self.expecting.expect(None);
        left == Left::Done && plan.part() == PullPart::Whole
    }

    /// Without a stream, until there is something to ask for (idle no more), or nothing ever will be.
    async fn wait_for_work(&mut self, plan: &mut PullPlan) -> Left {
        self.expecting.expect(plan.expect());
        loop {
            let (all, held) = (*self.known.borrow_and_update(), *self.held.borrow_and_update());
            if self.heed(plan, all, held) {
                return Left::Done;
            }
            if plan.has_next(all.positions, held) {
                return Left::Idle;
            }
            let changed = tokio::select! {
                changed = self.known.changed() => changed,
                changed = self.held.changed() => changed,
            };
            if changed.is_err() {
                return Left::Over;
            }
        }
    }

    /// Goes by what is known now; whether all is done.
    fn heed(&mut self, plan: &mut PullPlan, all: Known, held: u32) -> bool {
        if all.is_final {
            // Whoever waits for the first token has less patience with a holder than a standby.
            self.pace.hasten(Instant::now());
        } else if all.is_urgent {
            plan.follow(all.positions);
        }
        // What the last chunk leaves is worth one more where no other follows.
        plan.hurry(all.is_urgent || all.is_final);
        is_done(plan, all, held)
    }

    /// Pulls on one stream until it is of no use any more.
    async fn pull_on_a_stream(&mut self, plan: &mut PullPlan) -> Left {
        self.expecting.expect(plan.expect());
        // What has brought nothing yet wins no time by being opened again.
        if self.received_before > 0 {
            self.pace.begin_anew(Instant::now(), self.received_before);
        }
        let holder = self.source.holder.short();
        match self.open().await {
            Ok(mut client) => {
                let left = self.converse(plan, &mut client).await;
                self.received_before += client.received_bytes();
                left
            }
            Err(OpenError::TimedOut) => {
                info!(holder, "the KV cache cannot be pulled: its stream takes too long to open; the ids make it");
                Left::Over
            }
            Err(error) => {
                info!(holder, %error, "the KV cache cannot be pulled");
                Left::Broken
            }
        }
    }

    async fn open(&self) -> Result<ContextClient, OpenError> {
        let opening = self.source.swarm.open_context(self.source.holder, self.source.open);
        let until = self.pace.opens_until(Instant::now());
        timeout_at(until, opening).await.unwrap_or(Err(OpenError::TimedOut))
    }

    async fn converse(&mut self, plan: &mut PullPlan, client: &mut ContextClient) -> Left {
        let mut not_yet = 0;
        loop {
            let (all, held) = (*self.known.borrow_and_update(), *self.held.borrow_and_update());
            let known = all.positions;
            if self.heed(plan, all, held) {
                return Left::Done;
            }
            if !self.ask(plan, client, (known, held)) {
                return self.lost(end_of(client).await);
            }
            self.expecting.expect(plan.expect());
            let deadline = self.pace.until();
            let look = deadline.map_or(self.signed, |until| until.min(self.signed + SIGN));
            let answer = tokio::select! {
                answer = client.next() => answer,
                () = sleep_until(look), if deadline.is_some() => {
                    let (now, received) = (Instant::now(), self.received(client));
                    if deadline.is_some_and(|until| until <= now) && !self.pace.is_kept(now, received) {
                        info!(holder = %self.source.holder.short(), "a KV cache comes too slowly; the ids make the rest");
                        return Left::Over;
                    }
                    self.show_life(now);
                    continue;
                }
                changed = self.known.changed() => if changed.is_ok() { continue } else { return Left::Over },
                changed = self.held.changed() => if changed.is_ok() { continue } else { return Left::Over },
            };
            let (range, taken) = match answer {
                Ok(answer) => self.take(answer, plan).await,
                Err(ContextLost::Closed) if client.under_way() == 0 => return Left::Idle,
                Err(lost) => return self.lost(lost),
            };
            match taken {
                Taken::Chunk => {
                    not_yet = 0;
                    plan.came(range);
                    let now = Instant::now();
                    // Of what is left little can come: a feed is as slow as its source. Who is far behind has to make way.
                    if plan.part() == PullPart::Whole && plan.lacks(known) <= FEEDS_TOKENS {
                        self.pace.begin_anew(now, self.received(client));
                        client.forget_rate();
                    }
                    self.show_life(now);
                    self.judge(plan, client, known);
                }
                // It has not read the prompt that far. Its time runs on: it has to, by as much as any other has to bring.
                Taken::NotYet if not_yet < NEVER_MAX || !all.is_final => {
                    not_yet += 1;
                    plan.put_off(range);
                    tokio::time::sleep(NOT_YET).await;
                }
                Taken::NotYet if all.is_final && plan.turn_to_the_front(held) => not_yet = 0,
                Taken::NotYet | Taken::Nothing => return Left::Over,
            }
        }
    }

    /// Asks for what is next, as far as the stream takes it: the plan forgets what is under way when it is split, the stream
    /// does not. Whether the stream still takes anything.
    fn ask(&mut self, plan: &mut PullPlan, client: &mut ContextClient, (known, held): (u32, u32)) -> bool {
        let now = Instant::now();
        while client.under_way() < PULLS_MAX
            && let Some(Range { from, to }) = plan.next(known, held)
        {
            if client.under_way() == 0 {
                self.sizes.asked(now);
            }
            if client.pull(from, to).is_err() {
                return false;
            }
        }
        if client.under_way() > 0 {
            self.pace.owe(now, self.received(client));
        } else {
            self.pace.rest();
        }
        true
    }

    /// Bytes that have come in all.
    fn received(&self, client: &ContextClient) -> u64 {
        self.received_before + client.received_bytes()
    }

    /// Whoever waits hears that it is worth it.
    fn show_life(&mut self, now: Instant) {
        if now >= self.signed + SIGN {
            self.signed = now;
            self.signs.send_modify(|count| *count += 1);
        }
    }

    /// A stream that ended. What a holder refuses as a whole it would refuse again, unless it was only busy.
    fn lost(&self, lost: ContextLost) -> Left {
        let holder = self.source.holder.short();
        if let ContextLost::Refused(refusal) = lost
            && refusal != ContextRefusal::Busy
        {
            info!(holder, %refusal, "the KV cache is not given; the ids make it");
            return Left::Over;
        }
        info!(holder, %lost, "the stream of a KV cache broke");
        Left::Broken
    }

    async fn take(&mut self, answer: Pulled, plan: &mut PullPlan) -> (Range, Taken) {
        match answer {
            Pulled::Chunk { header: ChunkHeader { from, to, .. }, bytes } => {
                self.source.moved.add(bytes.len());
                self.sizes.came(Instant::now(), to.saturating_sub(from));
                plan.resize(self.sizes.tokens());
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

    /// A link that is too slow for all of it gets help from the other end. Where the pull keeps up with its holder, the rate is
    /// that of the holder's steps, and nothing is known of the link.
    fn judge(&self, plan: &mut PullPlan, client: &ContextClient, known: u32) {
        if plan.part() == PullPart::Rest || self.sizes.grows() {
            return;
        }
        let tps = client.bytes_per_s().map(|rate| rate as f64 / f64::from(self.source.kv_bytes_per_token.max(1)));
        let is_behind = plan.lacks(known) > FEEDS_TOKENS;
        if is_behind && tps.is_some_and(|tps| tps < SPLIT_BELOW_PHI * self.source.prefill_tps) {
            plan.split(known);
        }
    }
}

/// Why a stream has ended. What was answered before is asked for again.
async fn end_of(client: &mut ContextClient) -> ContextLost {
    loop {
        if let Err(lost) = client.next().await {
            return lost;
        }
    }
}

/// Whether all has come that will, and that is worth a chunk. A rest that is had waits for what comes with the hand-over.
fn is_done(plan: &mut PullPlan, known: Known, held: u32) -> bool {
    let Known { positions, is_final, is_urgent } = known;
    match plan.part() {
        // What little is missing then is sooner made than pulled from the other end.
        PullPart::Rest if is_urgent && is_final => true,
        PullPart::Whole => is_final && !plan.is_waiting() && plan.lacks(positions) == 0,
        PullPart::Rest => plan.is_round_over(held) && !plan.next_round(positions, held) && is_final,
    }
}
