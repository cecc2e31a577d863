//! Real clients of OpenAI's API, and requests as others form them, against a real model one hop away.

use anyhow::{Context, Result, ensure};
use idlewild_tests::lab::{python, real_model};
use idlewild_tests::{Cluster, REAL_MODEL, Verdict, in_lab};
use serde_json::{Value, json};

#[test]
fn openai_python_and_requests_of_other_clients_are_served() -> Verdict {
    let (Some(model), Some(python)) = (real_model()?, python()?) else { return Ok(()) };
    in_lab(|lab| {
        let cluster = Cluster::of_real_workers(lab, &["a", "b"], &model)?;
        let origin = &cluster.0[0];
        let driver = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/openai_driver.py");
        let output = origin
            .host()
            .command(&python)
            .arg(driver)
            .env("OPENAI_BASE_URL", format!("http://{}/v1", origin.api()?))
            .env("OPENAI_API_KEY", origin.key()?)
            .env("MODEL", REAL_MODEL)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .output()
            .context("run the client")?;
        let (said, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "the client failed after\n{said}\n{error}");
        sessions_of_other_clients(&cluster)
    })
}

/// Bodies as other clients form them: their extra fields must not be in the way.
fn sessions_of_other_clients(cluster: &Cluster) -> Result<()> {
    let question = json!([{ "role": "user", "content": "Name a colour." }]);
    for (client, extra) in [
        (
            "Open WebUI",
            json!({ "stream": true, "stream_options": { "include_usage": true }, "chat_id": "c", "metadata": {} }),
        ),
        (
            "LangChain",
            json!({ "stream": true, "n": 1, "temperature": 0.7, "logprobs": false, "user": "u", "parallel_tool_calls": true }),
        ),
        (
            "Continue",
            json!({ "stream": true, "stop": ["<|im_end|>", "\n\n\n"], "top_p": 0.9, "tools": [], "tool_choice": "auto" }),
        ),
        ("a plain script", json!({ "stream": true, "top_k": 40, "min_p": 0.05, "repeat_penalty": 1.1, "seed": -1 })),
    ] {
        let mut body = json!({ "model": REAL_MODEL, "messages": question, "max_tokens": 12 });
        merge(&mut body, extra);
        let answer = cluster.0[0].answer(&body).with_context(|| client.to_owned())?;
        ensure!(
            !answer.text().is_empty() && answer.worker.as_deref() == Some(cluster.0[1].peer()?),
            "{client}: {answer:?}"
        );
        body["stream"] = Value::Bool(false);
        if let Some(fields) = body.as_object_mut() {
            fields.remove("stream_options");
        }
        let whole = cluster.0[0].client()?.post("/v1/chat/completions", &body)?.successful()?;
        let text = whole.json["choices"][0]["message"]["content"].as_str().unwrap_or_default();
        ensure!(!text.is_empty() && whole.json["object"] == "chat.completion", "{client}: {}", whole.text);
    }
    Ok(())
}

fn merge(body: &mut Value, extra: Value) {
    if let (Some(body), Value::Object(extra)) = (body.as_object_mut(), extra) {
        body.extend(extra);
    }
}
