//! What the election says, in its order, while a vote is on its way to the disk. Pure: the shell writes, and says how it went.
//!
//! A vote that is not on the disk is not given: after a crash this peer could vote twice in one round. The driver does not
//! wait for the disk meanwhile, since the owner may be coming back.

use std::collections::VecDeque;

use idlewild_coordinator::election::Output;
use idlewild_protocol::{ElectionMessage, PeerId, Term};

/// Words that wait behind a vote. More are dropped: they are no more than words that the network lost.
const WAITING_MAX: usize = 1024;

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Write this, and say whether it is written. Nothing else comes before.
    Keep(Term, Option<PeerId>),
    /// Say this.
    Send(PeerId, ElectionMessage),
    /// Who leads has changed.
    Leader(Term, Option<PeerId>),
}

/// The outputs that were not carried out yet.
#[derive(Debug, Default)]
pub(super) struct Votes {
    waiting: VecDeque<Output>,
    is_keeping: bool,
    /// The last vote did not get to the disk.
    is_lost: bool,
}

impl Votes {
    /// Takes an output in.
    pub(super) fn push(&mut self, output: Output) {
        if self.waiting.len() < WAITING_MAX || !matches!(output, Output::Send { .. }) {
            self.waiting.push_back(output);
        }
    }

    /// The next step; none while a vote is being written, or where nothing is left.
    pub(super) fn next(&mut self) -> Option<Step> {
        while !self.is_keeping {
            match self.waiting.pop_front()? {
                Output::Persist { term, voted_for } => {
                    (self.is_keeping, self.is_lost) = (true, false);
                    return Some(Step::Keep(term, voted_for));
                }
                Output::Send { message, .. } if self.is_lost && gives_a_vote(message) => {}
                Output::Send { to, message } => return Some(Step::Send(to, message)),
                Output::Leader { term, leader } => return Some(Step::Leader(term, leader)),
            }
        }
        None
    }

    /// The vote is written, or is not.
    pub(super) fn kept(&mut self, is_kept: bool) {
        (self.is_keeping, self.is_lost) = (false, !is_kept);
    }
}

/// A candidacy is a vote for oneself.
fn gives_a_vote(message: ElectionMessage) -> bool {
    match message {
        ElectionMessage::RequestVote(_) | ElectionMessage::Vote { granted: true, .. } => true,
        ElectionMessage::Vote { granted: false, .. }
        | ElectionMessage::Beat { .. }
        | ElectionMessage::HandOver { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERM: Term = Term(7);
    const THEM: PeerId = PeerId([1; 32]);

    fn vote(granted: bool) -> ElectionMessage {
        ElectionMessage::Vote { term: TERM, granted }
    }

    fn of(outputs: impl IntoIterator<Item = Output>) -> Votes {
        let mut votes = Votes::default();
        outputs.into_iter().for_each(|output| votes.push(output));
        votes
    }

    fn send(message: ElectionMessage) -> Output {
        Output::Send { to: THEM, message }
    }

    const KEEP: Output = Output::Persist { term: TERM, voted_for: Some(THEM) };

    #[test]
    fn nothing_that_follows_a_vote_is_said_before_it_is_kept() {
        let mut votes = of([send(vote(false)), KEEP, send(vote(true)), Output::Leader { term: TERM, leader: None }]);
        assert_eq!(votes.next(), Some(Step::Send(THEM, vote(false))));
        assert_eq!(votes.next(), Some(Step::Keep(TERM, Some(THEM))));
        assert_eq!(votes.next(), None);
        votes.push(send(vote(false)));
        assert_eq!(votes.next(), None, "in their order");
        votes.kept(true);
        assert_eq!(votes.next(), Some(Step::Send(THEM, vote(true))));
        assert_eq!(votes.next(), Some(Step::Leader(TERM, None)));
        assert_eq!(votes.next(), Some(Step::Send(THEM, vote(false))));
        assert_eq!(votes.next(), None);
    }

    #[test]
    fn a_vote_that_is_not_kept_is_not_given_and_the_rest_is_said() {
        let mut votes = of([KEEP, send(vote(true)), send(vote(false)), KEEP, send(vote(true))]);
        votes.next();
        votes.kept(false);
        assert_eq!(votes.next(), Some(Step::Send(THEM, vote(false))));
        assert_eq!(votes.next(), Some(Step::Keep(TERM, Some(THEM))));
        votes.kept(true);
        assert_eq!(votes.next(), Some(Step::Send(THEM, vote(true))), "the next one is");
    }

    #[test]
    fn a_disk_that_hangs_makes_no_heap_of_words() {
        let mut votes = of(std::iter::once(KEEP).chain(std::iter::repeat_n(send(vote(false)), 5000)));
        votes.push(Output::Leader { term: TERM, leader: Some(THEM) });
        votes.next();
        votes.kept(true);
        let steps: Vec<Step> = std::iter::from_fn(|| votes.next()).collect();
        assert_eq!(steps.len(), WAITING_MAX);
        assert_eq!(steps.last(), Some(&Step::Leader(TERM, Some(THEM))), "who leads is never dropped");
    }
}
