//! OpenAI's routes: chat completions, completions, models.
//!
//! ```text
//! body --> chat | text (what to answer) + params (how) --> Question --> origin --> sse (chunks) | whole (one reply)
//! ```
//!
//! Fields that this API does not know are ignored, as OpenAI's servers do; fields that it knows, cannot honour, and that
//! change what the answer *means* are refused, since half-obeying them breaks clients later and less clearly.

mod chat;
mod messages;
mod models;
mod params;
mod question;
mod reply;
mod sse;
mod text;
mod whole;

pub(super) use chat::chat_completions;
pub(super) use models::{list_models, show_model};
pub(super) use text::completions;
