//! What a client asked for.

use idlewild_protocol::{JobInput, JobStart, ModelId, RequestId, Sampling};

use crate::ownership::TokenLog;
use idlewild_protocol::Epoch;

/// One request as its origin took it from a client. Written once, by the API.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestSpec {
    /// Drawn at random by the origin.
    pub request: RequestId,
    /// The model.
    pub model: ModelId,
    /// A conversation or a text, as the client gave it.
    pub input: JobInput,
    /// How to draw tokens; its seed is settled before it comes here, so that a second worker draws the same.
    pub sampling: Sampling,
    /// Most tokens of output.
    pub max_tokens: u32,
    /// Texts that end the answer.
    pub stop: Vec<String>,
    /// Tokens of the prompt, guessed where no tokenizer was at hand.
    pub prompt_tokens_estimate: u32,
    /// Tokens of output to expect in total.
    pub expected_output_tokens: u32,
}

impl RequestSpec {
    /// What a destination is told to prepare: of epoch 0, which is never live, so that nothing it might say too early
    /// counts.
    pub(super) fn context(&self, log: &TokenLog) -> JobStart {
        self.start(Epoch(0), log)
    }

    /// What a worker is told. A prompt that some worker has tokenized already goes out as ids, with all that followed.
    pub(super) fn start(&self, epoch: Epoch, log: &TokenLog) -> JobStart {
        let input = match log.prompt() {
            Some(prompt) => JobInput::Tokens { prompt: prompt.to_vec(), generated: log.generated().to_vec() },
            None => self.input.clone(),
        };
        JobStart {
            request: self.request,
            epoch,
            model: self.model,
            input,
            sampling: self.sampling,
            max_tokens: self.max_tokens,
            stop: self.stop.clone(),
            pull: None,
        }
    }
}
