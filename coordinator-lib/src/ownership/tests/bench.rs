//! A machine on the bench: short words for what shells and workers do.

use core::time::Duration;

use idlewild_protocol::{
    Epoch, FinishReason, Generation, JobEvent, JobFailure, JobInput, JobStart, ModelId, PeerId, PeerTerms,
    PlaceOutcome, PlaceReply, PlaceRequest, Plan, PlanReason, PlanRefusal, PlanStep, PlanTerms, RequestId, Sampling,
    Term, TokenId, Unfit, Way,
};

use crate::Now;
use crate::ownership::{
    Input, Limits, LossReason, Output, Preparation, RequestError, RequestMachine, RequestSpec, StandbyNews,
};

pub(super) fn peer(n: u8) -> PeerId {
    PeerId([n; 32])
}

pub(super) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(super) fn spec() -> RequestSpec {
    RequestSpec {
        request: RequestId([7; 16]),
        model: ModelId([1; 32]),
        input: JobInput::Text { prompt: "once upon a time".to_owned() },
        sampling: Sampling::default(),
        max_tokens: 10,
        stop: Vec::new(),
        prompt_tokens_estimate: 4,
        expected_output_tokens: 8,
    }
}

pub(super) fn terms(n: u8, unfit: Option<Unfit>) -> PeerTerms {
    PeerTerms { peer: peer(n), unfit, wait_s: 0.0, service_s: 1.0, loss_s: 0.0, leave_probability: 0.0 }
}

pub(super) const PROMPT: [TokenId; 3] = [TokenId(11), TokenId(12), TokenId(13)];

/// The token that every worker draws for this place.
pub(super) fn token(index: u32) -> TokenId {
    TokenId(100 + index)
}

pub(super) struct Bench {
    pub(super) machine: RequestMachine,
    pub(super) now: Now,
    /// Outputs that no expectation has taken yet.
    pub(super) said: Vec<Output>,
    question: Option<PlaceRequest>,
    proposals: u64,
    preparation: Preparation,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::with(spec(), Limits::default())
    }

    pub(super) fn with(spec: RequestSpec, limits: Limits) -> Self {
        let machine = RequestMachine::new(ms(0), spec, limits);
        let mut bench =
            Self { machine, now: ms(0), said: Vec::new(), question: None, proposals: 0, preparation: Preparation(0) };
        bench.collect();
        bench
    }

    /// One that runs on peer 1, has accepted and written `tokens` tokens; what it said until then is taken.
    pub(super) fn running(tokens: u32) -> Self {
        let mut bench = Self::new();
        bench.place_on(1);
        bench.accept(1);
        bench.tokens(1, 0..tokens);
        bench.said.clear();
        bench
    }

    fn collect(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            if let Output::AskPlacement(question) | Output::PlaceAlone(question) = &output {
                self.question = Some(question.clone());
            }
            if let Output::Prepare { preparation, .. } = &output {
                self.preparation = *preparation;
            }
            self.said.push(output);
        }
    }

    pub(super) fn hear(&mut self, input: Input) {
        self.machine.handle(self.now, input);
        self.collect();
    }

    /// Lets time pass, ticking whenever the machine wants it.
    pub(super) fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.machine.poll_timeout().filter(|due| *due <= end) {
            self.now = due.max(self.now);
            self.hear(Input::Tick);
        }
        self.now = end;
    }

    /// The latest question that has not been answered.
    pub(super) fn question(&self) -> PlaceRequest {
        self.question.clone().unwrap()
    }

    pub(super) fn has_question(&self) -> bool {
        self.question.is_some()
    }

    pub(super) fn reply(&mut self, outcome: PlaceOutcome, terms: Vec<PeerTerms>) {
        let question = self.question.take().unwrap();
        let (request, attempt) = (question.request, question.attempt);
        self.hear(Input::Placed(PlaceReply { request, attempt, term: Term(1), outcome, terms }));
    }

    pub(super) fn place_on(&mut self, n: u8) {
        self.reply(PlaceOutcome::Run { worker: peer(n), fallback: None }, vec![terms(n, None)]);
    }

    pub(super) fn nowhere(&mut self, why: &[(u8, Unfit)]) {
        self.reply(PlaceOutcome::Nowhere, why.iter().map(|(n, unfit)| terms(*n, Some(*unfit))).collect());
    }

    pub(super) fn event(&mut self, epoch: u32, event: JobEvent) {
        self.hear(Input::Event { epoch: Epoch(epoch), event });
    }

    pub(super) fn accept(&mut self, epoch: u32) {
        self.event(epoch, JobEvent::Accepted { epoch: Epoch(epoch), prompt: PROMPT.to_vec() });
    }

    pub(super) fn token(&mut self, epoch: u32, index: u32) {
        self.event(epoch, JobEvent::Token { epoch: Epoch(epoch), index, id: token(index), text: format!("{index} ") });
    }

    pub(super) fn tokens(&mut self, epoch: u32, indices: core::ops::Range<u32>) {
        for index in indices {
            self.token(epoch, index);
        }
    }

    pub(super) fn finish(&mut self, epoch: u32, text: &str) {
        let (epoch, reason, text) = (Epoch(epoch), FinishReason::Stop, text.to_owned());
        self.event(epoch.0, JobEvent::Finished { epoch, reason, text });
    }

    pub(super) fn fail(&mut self, epoch: u32, failure: JobFailure) {
        self.event(epoch, JobEvent::Failed { epoch: Epoch(epoch), failure });
    }

    pub(super) fn lose(&mut self, epoch: u32) {
        self.hear(Input::Lost { epoch: Epoch(epoch), why: LossReason::Closed });
    }

    pub(super) fn take(&mut self) -> Vec<Output> {
        core::mem::take(&mut self.said)
    }

    /// All text for the client so far.
    pub(super) fn text(&self) -> String {
        self.said
            .iter()
            .filter_map(|output| if let Output::Text { text, .. } = output { Some(text.as_str()) } else { None })
            .collect()
    }

    /// The latest start.
    pub(super) fn start(&self) -> (PeerId, JobStart) {
        let starts = self.said.iter().rev();
        let mut starts =
            starts.filter_map(|o| if let Output::Start { worker, start } = o { Some((worker, start)) } else { None });
        let (worker, start) = starts.next().unwrap();
        (*worker, (**start).clone())
    }

    pub(super) fn error(&self) -> RequestError {
        let errors = self.said.iter();
        let mut errors = errors.filter_map(|o| if let Output::Failed(error) = o { Some(error.clone()) } else { None });
        errors.next().unwrap()
    }

    /// A coordinator's proposal for `epoch`, later than any before.
    pub(super) fn propose(&mut self, epoch: u32, step: PlanStep) {
        self.proposals += 1;
        self.hear(Input::Proposed(proposal(1, self.proposals, epoch, step)));
    }

    /// What the stream of the latest preparation brings.
    pub(super) fn standby(&mut self, news: StandbyNews) {
        let preparation = self.preparation;
        self.hear(Input::Standby { preparation, news });
    }

    /// Lets peer `n` prepare and catch up.
    pub(super) fn prepared(&mut self, epoch: u32, n: u8) {
        self.propose(epoch, PlanStep::Prepare { destination: peer(n), way: Way::Ids });
        self.catch_up();
    }

    /// The destination has all that the log has.
    pub(super) fn catch_up(&mut self) {
        let held_tokens = self.machine.log().context_tokens();
        self.standby(StandbyNews::Progress { held_tokens });
    }

    /// Why the latest proposal was refused, if it was; what else was said is taken.
    pub(super) fn refusal(&mut self) -> Option<PlanRefusal> {
        let said = self.take();
        said.iter().rev().find_map(|o| if let Output::Refused { why, .. } = o { Some(*why) } else { None })
    }
}

pub(super) fn proposal(term: u64, number: u64, epoch: u32, step: PlanStep) -> Plan {
    Plan {
        generation: Generation { term: Term(term), number },
        request: spec().request,
        epoch: Epoch(epoch),
        step,
        terms: PlanTerms::unweighed(PlanReason::PreparationPays),
    }
}
