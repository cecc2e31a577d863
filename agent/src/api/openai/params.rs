//! The parameters that chat completions and completions share, checked against their ranges.

use std::ops::RangeInclusive;

use idlewild_protocol::Sampling;
use serde::Deserialize;
use serde_json::{Map, Number, Value};

use crate::api::ApiError;

/// Stop texts a request may have, and the bytes of each: what a job's start may carry.
const MAX_STOP_TEXTS: usize = 16;
const MAX_STOP_BYTES: usize = 256;

/// OpenAI's default.
const DEFAULT_TEMPERATURE: f32 = 1.0;

/// Cuts the tail that makes small models ramble at temperature 1; OpenAI has no such knob, so that clients cannot set
/// one they are used to. `min_p: 0` turns it off.
const DEFAULT_MIN_P: f32 = 0.05;

/// As a client sends them. Absent and null are the same.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Params {
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
    n: Option<i64>,
    best_of: Option<i64>,
    max_tokens: Option<i64>,
    max_completion_tokens: Option<i64>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    top_k: Option<i64>,
    min_p: Option<f64>,
    presence_penalty: Option<f64>,
    frequency_penalty: Option<f64>,
    repeat_penalty: Option<f64>,
    seed: Option<Number>,
    stop: Option<Stop>,
    logprobs: Option<Value>,
    logit_bias: Option<Map<String, Value>>,
}

/// What a client wants of a stream besides the answer.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct StreamOptions {
    /// One more chunk, without choices, that counts the tokens.
    pub(super) include_usage: Option<bool>,
}

/// One text or several.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Stop {
    One(String),
    Several(Vec<String>),
}

impl Params {
    /// Refuses what would change the answer's meaning if it were ignored.
    pub(super) fn refuse_unsupported(&self) -> Result<(), ApiError> {
        if self.n.is_some_and(|n| n != 1) {
            return Err(unsupported("n", "only one answer a request is supported: `n` must be 1"));
        }
        if self.best_of.is_some_and(|n| n != 1) {
            return Err(unsupported("best_of", "`best_of` must be 1"));
        }
        let wants_logprobs =
            self.logprobs.as_ref().is_some_and(|value| !matches!(value, Value::Null | Value::Bool(false)));
        if wants_logprobs {
            return Err(unsupported("logprobs", "log probabilities are not supported"));
        }
        if self.logit_bias.as_ref().is_some_and(|bias| !bias.is_empty()) {
            return Err(unsupported("logit_bias", "`logit_bias` is not supported"));
        }
        Ok(())
    }

    /// How to draw tokens. A request without a seed gets one, so that a moved generation draws as it would have.
    pub(super) fn sampling(&self) -> Result<Sampling, ApiError> {
        let top_p = ranged("top_p", self.top_p, 0.0..=1.0, 1.0)?;
        let top_k = match self.top_k {
            None | Some(-1) => 0,
            Some(k) => u32::try_from(k).map_err(|_| out_of_range("top_k", "0 (all tokens) or more"))?,
        };
        Ok(Sampling {
            temperature: ranged("temperature", self.temperature, 0.0..=2.0, DEFAULT_TEMPERATURE)?,
            top_k,
            top_p,
            min_p: ranged("min_p", self.min_p, 0.0..=1.0, DEFAULT_MIN_P)?,
            repeat_penalty: ranged("repeat_penalty", self.repeat_penalty, 0.01..=10.0, 1.0)?,
            frequency_penalty: ranged("frequency_penalty", self.frequency_penalty, -2.0..=2.0, 0.0)?,
            presence_penalty: ranged("presence_penalty", self.presence_penalty, -2.0..=2.0, 0.0)?,
            seed: self.seed()?,
            ..Sampling::default()
        })
    }

    fn seed(&self) -> Result<u64, ApiError> {
        let Some(seed) = &self.seed else { return Ok(rand::random()) };
        seed.as_u64()
            .or_else(|| seed.as_i64().map(i64::cast_unsigned))
            .ok_or_else(|| out_of_range("seed", "a 64-bit integer"))
    }

    /// Most tokens of output, `default` where the client does not say.
    pub(super) fn max_tokens(&self, default: u32) -> Result<u32, ApiError> {
        let (param, value) = match (self.max_completion_tokens, self.max_tokens) {
            (Some(value), _) => ("max_completion_tokens", value),
            (None, Some(value)) => ("max_tokens", value),
            (None, None) => return Ok(default),
        };
        if value < 1 {
            return Err(out_of_range(param, "1 or more"));
        }
        Ok(u32::try_from(value).unwrap_or(u32::MAX))
    }

    /// Texts that end the answer. An empty one can never be met and is left out.
    pub(super) fn stop(&self) -> Result<Vec<String>, ApiError> {
        let texts = match &self.stop {
            None => Vec::new(),
            Some(Stop::One(text)) => vec![text.clone()],
            Some(Stop::Several(texts)) => texts.clone(),
        };
        let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        if texts.len() > MAX_STOP_TEXTS || texts.iter().any(|text| text.len() > MAX_STOP_BYTES) {
            return Err(out_of_range("stop", "at most 16 texts of at most 256 bytes each"));
        }
        Ok(texts)
    }
}

/// The value of a number parameter, or an error that names its range.
fn ranged(param: &'static str, value: Option<f64>, range: RangeInclusive<f64>, default: f32) -> Result<f32, ApiError> {
    match value {
        None => Ok(default),
        Some(value) if range.contains(&value) => Ok(value as f32),
        Some(_) => Err(out_of_range(param, &format!("between {} and {}", range.start(), range.end()))),
    }
}

fn out_of_range(param: &'static str, allowed: &str) -> ApiError {
    ApiError::bad_request(Some("invalid_value"), Some(param), format!("`{param}` must be {allowed}"))
}

/// A field that is known, cannot be honoured, and must not be ignored.
pub(super) fn unsupported(param: &'static str, message: impl Into<String>) -> ApiError {
    ApiError::bad_request(Some("unsupported_parameter"), Some(param), message)
}
