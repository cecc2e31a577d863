//! How a job comes to hold its context: what is pulled, what is waited for, and when it draws.

use idlewild_protocol::JobEvent;
use tokio::time::Instant;
use tracing::info;

use super::{End, Job, told};
use crate::worker::pull::Pulling;
use crate::worker::standing::{LAST_TOKENS, Role, SHORT_TOKENS};

impl Job<'_> {
    /// The sequence has its slot: chunks can come.
    pub(super) fn begin_to_pull(&mut self) -> Result<(), End> {
        let Some(pull) = self.pull.take() else { return self.begin_to_work() };
        let source = self.worker.pull_source(self.whose, pull, self.sent.all());
        let is_once = self.role != Role::StandsBy;
        let Some(source) = source else {
            self.withdraw_expectation();
            return self.begin_to_work();
        };
        self.pulling = Some(Pulling::start(source, self.stream.handle(), self.sent.all(), is_once));
        Ok(())
    }

    /// Whatever has not come is made from the ids.
    pub(super) fn stop_pulling(&mut self) {
        (self.pull, self.pull_until) = (None, None);
        if self.pulling.take().is_some() {
            self.withdraw_expectation();
        }
    }

    /// Tokens that it was sent and does not hold.
    pub(super) fn lag(&self) -> u32 {
        self.sent.all().saturating_sub(self.held)
    }

    /// It is the worker now. What is worth waiting for is waited for: where it lacks much, all that is pulled; where it lacks
    /// little, the last feed, which a holder that stands still sends sooner than it can be made. The rest it makes.
    pub(super) fn take_over(&mut self, from_index: u32) -> Result<(), End> {
        self.role = Role::GetsReady { from_index };
        let lag = self.lag();
        // One that has no slot yet holds nothing, and gets its slot as a worker or a successor.
        let is_pulling = self.pulling.is_some() || (self.pull.is_some() && lag > SHORT_TOKENS);
        let is_short = lag <= SHORT_TOKENS || !self.has_slot;
        if lag == LAST_TOKENS || (is_short && !is_pulling) {
            return self.begin_to_work();
        }
        told(self.stream.handle().get_ready())?;
        match &self.pulling {
            Some(pulling) => {
                pulling.finish();
                if is_short {
                    pulling.hurry(true);
                    let prefill_tps = self.worker.engine().prefill_tps;
                    let patience = self.worker.patience.with_last_feed(lag, prefill_tps);
                    if pulling.round_trip() >= patience {
                        return self.begin_to_work();
                    }
                    self.pull_until = Some(Instant::now() + patience);
                }
            }
            None if self.pull.is_some() => {}
            None => self.withdraw_expectation(),
        }
        Ok(())
    }

    pub(super) fn hurry(&self, is_urgent: bool) {
        if let Some(pulling) = &self.pulling {
            pulling.hurry(is_urgent);
        }
    }

    /// Whatever it does not hold it makes itself. A sequence that is gone expects nothing.
    fn withdraw_expectation(&self) {
        self.stream.handle().expect(None).ok();
    }

    /// The KV cache comes, or its holder is not yet that far: that may take longer than an origin bears silence.
    pub(super) async fn show_life(&mut self) -> Result<(), End> {
        match self.role {
            Role::GetsReady { .. } => {
                let (done, total) = (self.held, self.sent.all());
                self.say(JobEvent::Prefilled { epoch: *self.at, done, total }).await
            }
            Role::StandsBy => {
                let (tokens, pulled_tokens) = (self.held, self.pulled);
                let pulled_bytes = u64::from(pulled_tokens) * u64::from(self.kv_bytes_per_token);
                self.say(JobEvent::Held { epoch: *self.at, tokens, pulled_tokens, pulled_bytes }).await
            }
            Role::Works => Ok(()),
        }
    }

    /// Where all has come, the sequence says in a moment that it holds it; else nothing is left to wait for.
    pub(super) fn have_pulled(&mut self, is_all: bool) -> Result<(), End> {
        self.pulling = None;
        if !is_all {
            self.pull_until = None;
        }
        self.look_whether_ready()
    }

    /// A worker that gets ready draws once it holds nearly all, and nothing more is pulled that is worth waiting for.
    pub(super) fn look_whether_ready(&mut self) -> Result<(), End> {
        let is_coming = self.pulling.is_some() || self.pull.is_some() || self.pull_until.is_some();
        let is_ready = self.lag() <= if is_coming { LAST_TOKENS } else { SHORT_TOKENS };
        if is_ready { self.begin_to_work() } else { Ok(()) }
    }

    /// A worker that was getting ready draws.
    pub(super) fn begin_to_work(&mut self) -> Result<(), End> {
        let Role::GetsReady { from_index } = self.role else { return Ok(()) };
        info!(request = %self.whose.1, from_index, lag = self.lag(), pulled = self.pulled, "begins to draw");
        self.stop_pulling();
        self.role = Role::Works;
        self.standstill.begins(Instant::now(), from_index);
        told(self.stream.handle().take_over(from_index))
    }
}
