//! The token log: the only truth about a request.

use idlewild_protocol::TokenId;

/// Prompt ids, then every id that was accepted. It only grows, one id at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct TokenLog {
    /// By the first worker's tokenizer; none before it answered.
    prompt: Option<Vec<TokenId>>,
    generated: Vec<TokenId>,
}

/// A token was offered for another place than the next one. Nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("token {offered} was offered where {next} is next")]
pub struct NotNext {
    /// The index it was offered for.
    pub offered: u32,
    /// The index that is next.
    pub next: u32,
}

impl TokenLog {
    /// Ids of the prompt, once a worker has tokenized it.
    pub fn prompt(&self) -> Option<&[TokenId]> {
        self.prompt.as_deref()
    }

    /// Ids of the answer so far.
    pub fn generated(&self) -> &[TokenId] {
        &self.generated
    }

    /// Index of the next token of the answer.
    pub fn next_index(&self) -> u32 {
        u32::try_from(self.generated.len()).unwrap_or(u32::MAX)
    }

    /// Tokens of the prompt; 0 before it is known.
    pub fn prompt_tokens(&self) -> u32 {
        self.prompt.as_ref().map_or(0, |ids| u32::try_from(ids.len()).unwrap_or(u32::MAX))
    }

    /// Tokens of the prompt and of the answer.
    pub fn context_tokens(&self) -> u32 {
        self.prompt_tokens().saturating_add(self.next_index())
    }

    /// Sets the prompt's ids, or compares them with those set before: false where they differ (nothing is changed).
    pub(super) fn settle_prompt(&mut self, ids: Vec<TokenId>) -> bool {
        if let Some(settled) = &self.prompt {
            return *settled == ids;
        }
        self.prompt = Some(ids);
        true
    }

    /// Forgets the prompt's ids, as long as nothing was generated from them. Whether there were any.
    pub(super) fn unsettle_prompt(&mut self) -> bool {
        self.generated.is_empty() && self.prompt.take().is_some()
    }

    /// Appends the token if it is for the next place.
    pub(super) fn accept(&mut self, index: u32, id: TokenId) -> Result<(), NotNext> {
        let next = self.next_index();
        if index != next {
            return Err(NotNext { offered: index, next });
        }
        self.generated.push(id);
        Ok(())
    }
}
