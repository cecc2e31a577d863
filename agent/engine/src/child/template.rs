//! A conversation as the model's own chat template writes it.
//!
//! Templates come with model files, so they are not trusted: each rendering has fuel for a bounded number of
//! instructions, and templates see no files and no clock. `strftime_now` is deliberately absent: templates that test for
//! it fall back to a fixed date, and the prompt must not depend on which machine renders it.

use idlewild_protocol::JobFailure;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, Error, ErrorKind, context};
use serde_json::{Map, Value as Json};

/// Most messages of one conversation.
const MESSAGES_MAX: usize = 4096;

/// Instructions before fuel for messages: a template's macros and branches.
const BASE_FUEL: u64 = 200_000;

/// Instructions for each message.
const MESSAGE_FUEL: u64 = 20_000;

/// A compiled template and the model's special texts that it may name.
#[derive(Debug)]
pub(crate) struct ChatTemplate {
    source: String,
    begin: String,
    end: String,
}

impl ChatTemplate {
    /// Compiles; the error says where the template is wrong.
    pub(crate) fn new(source: &str, begin: &str, end: &str) -> Result<Self, String> {
        let template = Self { source: source.to_owned(), begin: begin.to_owned(), end: end.to_owned() };
        environment(BASE_FUEL).template_from_str(source).map_err(|error| chain(&error))?;
        Ok(template)
    }

    /// The prompt of an OpenAI `messages` array, ready for the assistant's answer.
    pub(crate) fn render(&self, messages_json: &str) -> Result<String, JobFailure> {
        let messages = read_messages(messages_json).map_err(JobFailure::BadInput)?;
        let environment = environment(BASE_FUEL + MESSAGE_FUEL * messages.len() as u64);
        let rendered = environment.template_from_str(&self.source).and_then(|template| {
            template.render(context! {
                messages => Value::from(Serde(&messages)),
                add_generation_prompt => true,
                bos_token => &self.begin,
                eos_token => &self.end,
            })
        });
        rendered.map_err(|error| JobFailure::BadInput(format!("its chat template refuses: {}", chain(&error))))
    }
}

fn environment<'a>(fuel: u64) -> Environment<'a> {
    let mut environment = Environment::new();
    // As chat templates expect. Delimiters stay as they are, so this cannot fail.
    if let Ok(syntax) = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build() {
        environment.set_syntax(syntax);
    }
    environment.set_fuel(Some(fuel));
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment
}

/// An error's text without the template's source.
fn chain(error: &Error) -> String {
    let detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    error.line().map_or(detail.clone(), |line| format!("{detail} (line {line})"))
}

/// Checks each message, and makes its content one string: most templates know no other form.
fn read_messages(json: &str) -> Result<Vec<Map<String, Json>>, String> {
    let messages: Vec<Map<String, Json>> =
        serde_json::from_str(json).map_err(|_| "messages must be an array of objects".to_owned())?;
    if messages.is_empty() {
        return Err("messages is empty".to_owned());
    }
    if messages.len() > MESSAGES_MAX {
        return Err(format!("more than {MESSAGES_MAX} messages"));
    }
    messages.into_iter().enumerate().map(|(at, message)| read_message(at, message)).collect()
}

fn read_message(at: usize, mut message: Map<String, Json>) -> Result<Map<String, Json>, String> {
    let role = message.get("role").and_then(Json::as_str).unwrap_or_default().to_owned();
    if !matches!(role.as_str(), "system" | "user" | "assistant" | "tool") {
        return Err(format!("messages[{at}]: role \"{role}\" is not one of system, user, assistant, tool"));
    }
    let content = read_content(message.get("content"), role == "assistant")
        .map_err(|problem| format!("messages[{at}]: {problem}"))?;
    message.insert("content".to_owned(), Json::String(content));
    Ok(message)
}

fn read_content(content: Option<&Json>, may_lack: bool) -> Result<String, String> {
    match content {
        Some(Json::String(text)) => Ok(text.clone()),
        Some(Json::Array(parts)) => parts.iter().map(read_part).collect(),
        None | Some(Json::Null) if may_lack => Ok(String::new()),
        None | Some(Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_)) => {
            Err("content must be a string or an array of parts".to_owned())
        }
    }
}

fn read_part(part: &Json) -> Result<&str, String> {
    let kind = part.get("type").and_then(Json::as_str).unwrap_or_default();
    if kind != "text" {
        return Err(format!("content parts of type \"{kind}\" are not supported, only text"));
    }
    part.get("text").and_then(Json::as_str).ok_or_else(|| "a content part of type text has no text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHATML: &str = "{% for message in messages %}\
        {{ '<|im_start|>' + message['role'] + '\\n' + message['content'].strip() + '<|im_end|>' + '\\n' }}\
        {% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

    fn render(template: &str, messages: &str) -> Result<String, String> {
        match ChatTemplate::new(template, "<s>", "</s>")?.render(messages) {
            Ok(text) => Ok(text),
            Err(JobFailure::BadInput(why)) => Err(why),
            Err(other) => Err(format!("unexpected: {other:?}")),
        }
    }

    #[test]
    fn strings_and_text_parts_read_the_same() {
        let expected = "<|im_start|>user\nhi there<|im_end|>\n<|im_start|>assistant\n";
        for messages in [
            r#"[{"role":"user","content":" hi there "}]"#,
            r#"[{"role":"user","content":[{"type":"text","text":"hi "},{"type":"text","text":"there"}]}]"#,
        ] {
            assert_eq!(render(CHATML, messages).as_deref(), Ok(expected), "{messages}");
        }
    }

    #[test]
    fn an_assistant_may_have_no_content() {
        let messages =
            r#"[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]}]"#;
        let template = "{% for m in messages %}{{ m.role }}:{{ m.content }}:{{ m.tool_calls | length if m.tool_calls else 0 }};{% endfor %}";
        assert_eq!(render(template, messages).as_deref(), Ok("user:a:0;assistant::1;"));
    }

    #[test]
    fn bad_input_says_what_is_wrong_and_where() {
        let cases = [
            ("nonsense", "array of objects"),
            ("[]", "empty"),
            ("[1]", "array of objects"),
            (r#"[{"role":"wizard","content":"x"}]"#, "messages[0]: role \"wizard\""),
            (r#"[{"content":"x"}]"#, "messages[0]: role \"\""),
            (r#"[{"role":"user","content":"x"},{"role":"user"}]"#, "messages[1]: content must be"),
            (r#"[{"role":"user","content":[{"type":"image_url"}]}]"#, "type \"image_url\""),
            (r#"[{"role":"user","content":[{"type":"text"}]}]"#, "has no text"),
        ];
        for (messages, expected) in cases {
            let why = render(CHATML, messages).unwrap_err();
            assert!(why.contains(expected), "{messages}: {why}");
        }
    }

    #[test]
    fn a_template_may_refuse_in_its_own_words() {
        let template = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}ok";
        let why = render(template, r#"[{"role":"system","content":"x"}]"#).unwrap_err();
        assert!(why.contains("no system role"), "{why}");
        assert_eq!(render(template, r#"[{"role":"user","content":"x"}]"#).as_deref(), Ok("ok"));
    }

    #[test]
    fn templates_know_the_special_texts_and_python_methods() {
        let template = "{{ bos_token }}{{ messages[0]['content'].split(' ')[1].upper() }}{{ eos_token }}\
            {% set ns = namespace(n=0) %}{% for m in messages[0:] %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}\
            {{ strftime_now is defined }}";
        assert_eq!(render(template, r#"[{"role":"user","content":"a b"}]"#).as_deref(), Ok("<s>B</s>1False"));
    }

    #[test]
    fn a_template_that_loops_for_long_is_stopped() {
        let template = "{% for a in range(100000) %}{% for b in range(100000) %}{{ a }}{% endfor %}{% endfor %}";
        assert!(render(template, r#"[{"role":"user","content":"x"}]"#).unwrap_err().contains("refuses"));
    }

    #[test]
    fn a_broken_template_is_refused_when_it_is_read() {
        assert!(ChatTemplate::new("{% for %}", "", "").unwrap_err().contains("line 1"));
    }
}
