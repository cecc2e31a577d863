//! What an origin says before there is a sequence to hear it: while a model is loaded. Folded, so that it takes no more room
//! than a context, however much is said.

use idlewild_protocol::{JobFailure, JobRequest, MAX_FORWARD_TOKENS, TokenId};

/// The last of each kind of word, and all ids.
#[derive(Debug)]
pub(super) struct Early {
    ids_max: usize,
    /// Place of the first id, and the ids in order.
    forwarded: Option<(u32, Vec<TokenId>)>,
    offer: Option<JobRequest>,
    keep: Option<JobRequest>,
    catch_up: Option<JobRequest>,
    stop: Option<JobRequest>,
    take_over: Option<JobRequest>,
}

impl Early {
    /// For contexts of at most so many tokens.
    pub(super) fn new(context_tokens_max: u32) -> Self {
        Self {
            ids_max: context_tokens_max as usize,
            forwarded: None,
            offer: None,
            keep: None,
            catch_up: None,
            stop: None,
            take_over: None,
        }
    }

    /// Takes a word in. Ids that do not follow, or more than any context has, are of no origin that keeps to the rules.
    pub(super) fn hear(&mut self, word: JobRequest) -> Result<(), JobFailure> {
        match word {
            JobRequest::Forward { from_index, ids } => return self.forward(from_index, ids),
            JobRequest::Offer { .. } => self.offer = Some(word),
            JobRequest::Keep { .. } => {
                self.keep = Some(word);
                self.catch_up = None;
            }
            JobRequest::CatchUp => self.catch_up = Some(word),
            JobRequest::StopAfter { .. } | JobRequest::GoOn => self.stop = Some(word),
            JobRequest::TakeOver { .. } => self.take_over = Some(word),
            // Said once, or not here.
            JobRequest::Start(_) | JobRequest::Prepare(_) | JobRequest::Cancel => {}
        }
        Ok(())
    }

    fn forward(&mut self, from_index: u32, mut ids: Vec<TokenId>) -> Result<(), JobFailure> {
        let (first, known) = self.forwarded.get_or_insert_with(|| (from_index, Vec::new()));
        let follows = usize::try_from(from_index.saturating_sub(*first)).is_ok_and(|at| at == known.len());
        if !follows || from_index < *first || known.len() + ids.len() > self.ids_max {
            return Err(JobFailure::BadInput(format!("the ids from {from_index} on do not follow")));
        }
        known.append(&mut ids);
        Ok(())
    }

    /// What there is to obey, in an order that means the same.
    pub(super) fn into_words(self) -> Vec<JobRequest> {
        let Self { forwarded, offer, keep, catch_up, stop, take_over, .. } = self;
        let (first, ids) = forwarded.unwrap_or_default();
        let mut from_index = first;
        let mut words = Vec::new();
        for ids in ids.chunks(MAX_FORWARD_TOKENS) {
            words.push(JobRequest::Forward { from_index, ids: ids.to_vec() });
            from_index = from_index.saturating_add(u32::try_from(ids.len()).unwrap_or(u32::MAX));
        }
        words.extend([offer, keep, catch_up, take_over, stop].into_iter().flatten());
        words
    }
}

#[cfg(test)]
mod tests {
    use idlewild_protocol::Epoch;

    use super::*;

    fn forward(from_index: u32, count: u32) -> JobRequest {
        JobRequest::Forward { from_index, ids: (from_index..from_index + count).map(TokenId).collect() }
    }

    #[test]
    fn much_that_is_said_becomes_little_that_means_the_same() {
        let mut early = Early::new(1000);
        for at in 0..500 {
            early.hear(forward(7 + at, 1)).unwrap();
            early.hear(JobRequest::Keep { warm: at % 2 == 0 }).unwrap();
        }
        early.hear(JobRequest::TakeOver { epoch: Epoch(3), from_index: 507 }).unwrap();
        let take_over = JobRequest::TakeOver { epoch: Epoch(3), from_index: 507 };
        assert_eq!(early.into_words(), [forward(7, 500), JobRequest::Keep { warm: false }, take_over]);
    }

    #[test]
    fn ids_that_do_not_follow_or_fit_no_context_are_refused() {
        let mut early = Early::new(10);
        early.hear(forward(3, 4)).unwrap();
        for wrong in [forward(6, 1), forward(8, 1), forward(2, 1), forward(7, 7)] {
            assert!(early.hear(wrong).is_err());
        }
        early.hear(forward(7, 6)).unwrap();
    }
}
