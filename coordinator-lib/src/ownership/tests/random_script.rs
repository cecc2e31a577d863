//! Whatever a machine hears, in whatever order: the log stays sound, and the request ends.

use core::time::Duration;

use idlewild_protocol::{
    DepartureCause, Epoch, FinishReason, JobEvent, JobFailure, JobInput, PeerId, PlanStep, TokenId, Unfit, Way,
};
use proptest::prelude::*;

use super::bench::{Bench, PROMPT, ms, peer, proposal, token};
use crate::ownership::{Input, LossReason, Output, Preparation, StandbyNews};

/// Something that a shell may say to the machine, sound or not.
#[derive(Debug, Clone)]
enum Act {
    Wait(u64),
    Place(u8),
    Nowhere(Unfit),
    /// Of the live epoch, give or take one.
    Event(i32, Words),
    Lost(i32),
    /// Of the live epoch, give or take one, and a generation that may be old.
    Propose(i32, u64, u8, u8),
    /// Of the latest preparation, give or take one.
    Standby(i32, StandbyNews),
}

#[derive(Debug, Clone)]
enum Words {
    Accepted,
    OtherPrompt,
    Prefilled(u32),
    /// For the next index, give or take.
    Token(i32),
    Finished,
    Failed(u8),
    Leaving,
}

fn words() -> impl Strategy<Value = Words> {
    prop_oneof![
        8 => Just(Words::Accepted),
        1 => Just(Words::OtherPrompt),
        2 => (0_u32..3).prop_map(Words::Prefilled),
        20 => prop_oneof![8 => Just(0), 1 => -2..3].prop_map(Words::Token),
        1 => Just(Words::Finished),
        2 => (0_u8..6).prop_map(Words::Failed),
        1 => Just(Words::Leaving),
    ]
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let near_live = || prop_oneof![8 => Just(0), 1 => -1..2];
    let act = prop_oneof![
        3 => (0_u64..5000).prop_map(Act::Wait),
        6 => (1_u8..6).prop_map(Act::Place),
        1 => prop_oneof![Just(Unfit::Leaving), Just(Unfit::JustFailed), Just(Unfit::Unreachable)].prop_map(Act::Nowhere),
        20 => (near_live(), words()).prop_map(|(epoch, words)| Act::Event(epoch, words)),
        2 => near_live().prop_map(Act::Lost),
        10 => (near_live(), 0_u64..60, 0_u8..7, 1_u8..6).prop_map(|(e, g, step, n)| Act::Propose(e, g, step, n)),
        6 => (near_live(), standby_news()).prop_map(|(preparation, news)| Act::Standby(preparation, news)),
    ];
    proptest::collection::vec(act, 1..120)
}

fn standby_news() -> impl Strategy<Value = StandbyNews> {
    prop_oneof![
        8 => (0_u32..12).prop_map(|held_tokens| StandbyNews::Progress { held_tokens }),
        1 => (0_u8..6).prop_map(|n| StandbyNews::Failed(failure(n))),
        1 => Just(StandbyNews::Leaving(DepartureCause::Sleep)),
        1 => Just(StandbyNews::Lost(LossReason::Closed)),
    ]
}

fn step(n: u8, destination: PeerId) -> PlanStep {
    match n {
        0 => PlanStep::Prepare { destination, way: Way::Ids },
        1 => PlanStep::Hold { destination },
        2 => PlanStep::Pause { destination },
        3 => PlanStep::Abort { destination },
        4 => PlanStep::Release { destination },
        5 => PlanStep::Replace { worker: destination, fallback: None },
        _ => PlanStep::Commit { destination, way: Way::Ids },
    }
}

fn failure(n: u8) -> JobFailure {
    match n {
        0 => JobFailure::Model("corrupt".to_owned()),
        1 => JobFailure::PromptTooLong { prompt_tokens: 9, context_tokens: 8 },
        2 => JobFailure::BadInput("role".to_owned()),
        3 => JobFailure::Busy,
        4 => JobFailure::Engine("signal 9".to_owned()),
        _ => JobFailure::Leaving,
    }
}

/// The machine and what is known of it from its outputs alone.
struct Watched {
    bench: Bench,
    /// Outputs that were looked at.
    seen: usize,
    epoch: Epoch,
    texts: u32,
    ended: bool,
    preparation: Preparation,
    /// The destination has no open stream that is not the epoch's.
    released: bool,
    /// Ids of the answer that the destination was sent.
    forwarded: u32,
}

impl Watched {
    fn new() -> Self {
        Self {
            bench: Bench::new(),
            seen: 0,
            epoch: Epoch(0),
            texts: 0,
            ended: false,
            preparation: Preparation(0),
            released: true,
            forwarded: 0,
        }
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Wait(time) => self.bench.wait(ms(*time)),
            Act::Place(n) if self.bench.has_question() => self.bench.place_on(*n),
            Act::Nowhere(why) if self.bench.has_question() => self.bench.nowhere(&[(1, *why)]),
            Act::Place(_) | Act::Nowhere(_) => {}
            Act::Event(delta, words) => {
                let epoch = Epoch(self.epoch.0.saturating_add_signed(*delta));
                let event = self.event(epoch, words);
                self.bench.hear(Input::Event { epoch, event });
            }
            Act::Lost(delta) => {
                let epoch = Epoch(self.epoch.0.saturating_add_signed(*delta));
                self.bench.hear(Input::Lost { epoch, why: LossReason::Silent });
            }
            Act::Propose(delta, number, n, destination) => {
                let epoch = self.epoch.0.saturating_add_signed(*delta);
                let step = step(*n, peer(*destination));
                self.bench.hear(Input::Proposed(proposal(1, *number, epoch, step)));
            }
            Act::Standby(delta, news) => {
                let preparation = Preparation(self.preparation.0.saturating_add_signed(*delta));
                self.bench.hear(Input::Standby { preparation, news: news.clone() });
            }
        }
        self.look();
    }

    fn event(&self, epoch: Epoch, words: &Words) -> JobEvent {
        match words {
            Words::Accepted => JobEvent::Accepted { epoch, prompt: PROMPT.to_vec() },
            Words::OtherPrompt => JobEvent::Accepted { epoch, prompt: vec![TokenId(1)] },
            Words::Prefilled(done) => JobEvent::Prefilled { epoch, done: *done, total: 3 },
            Words::Token(delta) => {
                let index = self.bench.machine.log().next_index().saturating_add_signed(*delta);
                JobEvent::Token { epoch, index, id: token(index), text: index.to_string() }
            }
            Words::Finished => JobEvent::Finished { epoch, reason: FinishReason::Stop, text: String::new() },
            Words::Failed(n) => JobEvent::Failed { epoch, failure: failure(*n) },
            Words::Leaving => JobEvent::Leaving { epoch, cause: DepartureCause::Sleep, notice_ms: 500 },
        }
    }

    /// Checks every new output against those before.
    fn look(&mut self) {
        for output in &self.bench.said[self.seen..] {
            assert!(!self.ended, "{output:?} after the end");
            match output {
                Output::Start { start, .. } => {
                    assert!(start.epoch > self.epoch, "the epoch rises");
                    self.epoch = start.epoch;
                    if let JobInput::Tokens { generated, .. } = &start.input {
                        assert_eq!(generated.len() as u32, self.texts, "a start carries what was sent");
                    } else {
                        assert_eq!(self.texts, 0);
                    }
                }
                Output::Text { index, .. } => {
                    assert_eq!(*index, self.texts, "no gap, no double");
                    self.texts += 1;
                }
                Output::Done { output_tokens, .. } => {
                    assert_eq!(*output_tokens, self.texts);
                    self.ended = true;
                }
                Output::Failed(_) => self.ended = true,
                Output::Prepare { preparation, context, .. } => {
                    assert!(self.released && *preparation > self.preparation, "one at a time, each with its own name");
                    assert_eq!(context.epoch, Epoch(0), "never a live epoch");
                    (self.preparation, self.released, self.forwarded) = (*preparation, false, self.texts);
                }
                Output::Forward { preparation, from_index, ids, .. } => {
                    assert!(!self.released && *preparation == self.preparation);
                    assert_eq!(*from_index, self.forwarded, "no gap, no double on the way to the destination");
                    self.forwarded += ids.len() as u32;
                }
                Output::TakeOver { preparation, epoch, from_index, .. } => {
                    assert!(!self.released && *preparation == self.preparation && *epoch > self.epoch);
                    assert_eq!((*from_index, self.forwarded), (self.texts, self.texts), "it has all that came before");
                    (self.epoch, self.released) = (*epoch, true);
                }
                Output::Release { preparation, .. } => {
                    assert!(!self.released && *preparation == self.preparation);
                    self.released = true;
                }
                Output::AskPlacement(_)
                | Output::PlaceAlone(_)
                | Output::Cancel { .. }
                | Output::StopAfter { .. }
                | Output::GoOn { .. }
                | Output::Keep { .. }
                | Output::Refused { .. }
                | Output::Standby(_)
                | Output::Prompt { .. }
                | Output::Moved { .. } => {}
            }
        }
        self.seen = self.bench.said.len();
        assert_eq!(self.ended, self.bench.machine.is_over());
        assert_eq!(self.bench.machine.poll_timeout().is_none(), self.ended, "it waits for something until it ends");
        let expected: Vec<TokenId> = (0..self.texts).map(token).collect();
        assert_eq!(self.bench.machine.log().generated(), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn whatever_it_hears_the_log_stays_sound_and_the_request_ends(acts in acts()) {
        let mut watched = Watched::new();
        for act in &acts {
            watched.act(act);
        }
        // Nobody answers any more: it must come to an end by itself.
        watched.bench.wait(Duration::from_mins(40));
        watched.look();
        prop_assert!(watched.ended && watched.released);
    }
}
