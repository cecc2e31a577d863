//! From a job to ids and text state, or to the reason why it cannot run here.

use idlewild_protocol::{FinishReason, JobFailure, JobInput, TokenId};

use super::model::Model;
use super::text::TextStream;
use crate::EngineJob;

/// A job that fits the model.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// Prompt, then the ids that were generated elsewhere.
    pub(crate) ids: Vec<TokenId>,
    /// How many of them are the prompt.
    pub(crate) prompt_len: usize,
    /// Has seen the generated ids.
    pub(crate) text: TextStream,
    /// Whether nothing is left to generate, and why.
    pub(crate) complete: Option<FinishReason>,
}

impl Prepared {
    pub(crate) fn generated(&self) -> &[TokenId] {
        &self.ids[self.prompt_len..]
    }
}

/// Reads a job's input with the model's tokenizer and template, and checks that it fits.
pub(crate) fn prepare(model: &dyn Model, job: &EngineJob) -> Result<Prepared, JobFailure> {
    let (ids, prompt_len) = match &job.input {
        JobInput::Chat { messages_json } => prompt_only(chat_ids(model, messages_json)?),
        JobInput::Text { prompt } => prompt_only(text_ids(model, prompt)?),
        JobInput::Tokens { prompt, generated } => ([&prompt[..], generated].concat(), prompt.len()),
    };
    let facts = model.facts();
    if let Some(id) = ids.iter().find(|id| id.0 >= facts.vocabulary) {
        return Err(JobFailure::BadInput(format!("token {id} is not in its vocabulary of {}", facts.vocabulary)));
    }
    if prompt_len == 0 {
        return Err(JobFailure::BadInput("the prompt is empty".to_owned()));
    }
    let context_tokens = facts.context_tokens;
    if prompt_len >= context_tokens as usize || ids.len() > context_tokens as usize {
        return Err(JobFailure::PromptTooLong { prompt_tokens: ids.len() as u32, context_tokens });
    }
    let (text, complete) = replay(model, job, &ids[prompt_len..], ids.len() >= context_tokens as usize);
    Ok(Prepared { ids, prompt_len, text, complete })
}

fn prompt_only(ids: Vec<TokenId>) -> (Vec<TokenId>, usize) {
    let prompt_len = ids.len();
    (ids, prompt_len)
}

fn chat_ids(model: &dyn Model, messages_json: &str) -> Result<Vec<TokenId>, JobFailure> {
    let template = model.template().map_err(|why| JobFailure::BadInput(why.to_owned()))?;
    text_ids(model, &template.render(messages_json)?)
}

/// The text's ids, begun with the model's begin token unless the text itself does. Everyone waits while a text is read,
/// so one that cannot fit whatever its words are is refused unread, with the least number of tokens that it may have.
fn text_ids(model: &dyn Model, text: &str) -> Result<Vec<TokenId>, JobFailure> {
    let facts = model.facts();
    let least_tokens = text.len() / facts.longest_token_bytes;
    if least_tokens >= facts.context_tokens as usize {
        let prompt_tokens = u32::try_from(least_tokens).unwrap_or(u32::MAX);
        return Err(JobFailure::PromptTooLong { prompt_tokens, context_tokens: facts.context_tokens });
    }
    let mut ids = model.tokenize(text);
    if let Some(begin) = model.begin()
        && ids.first() != Some(&begin)
    {
        ids.insert(0, begin);
    }
    Ok(ids)
}

/// The text state after the ids that exist, and whether they are the whole answer already.
fn replay(
    model: &dyn Model,
    job: &EngineJob,
    generated: &[TokenId],
    is_full: bool,
) -> (TextStream, Option<FinishReason>) {
    let mut text = TextStream::new(&job.stop);
    let mut piece = Vec::new();
    for id in generated {
        piece.clear();
        model.piece(*id, &mut piece);
        text.push(&piece);
    }
    let complete = completion(model, &text, generated, job.max_tokens as usize, is_full);
    (text, complete)
}

/// Whether the ids that exist are the whole answer, and why.
pub(crate) fn completion(
    model: &dyn Model,
    text: &TextStream,
    generated: &[TokenId],
    max_tokens: usize,
    is_full: bool,
) -> Option<FinishReason> {
    if text.is_stopped() || generated.last().is_some_and(|id| model.is_end(*id)) {
        return Some(FinishReason::Stop);
    }
    (is_full || generated.len() >= max_tokens).then_some(FinishReason::Length)
}
