//! Moving a request by hand, as a person would, and what the origin tells of it afterwards.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::{Agent, Explanation};
use crate::within;

/// How long a handed-over request may take to show where it is.
const SEEN_WITHIN: Duration = Duration::from_mins(1);

impl Agent {
    /// `idlewild move`: asks this origin to have a request of its own moved to `peer` by `way`; `more` are further words.
    pub fn move_request(&self, request: &str, peer: &str, way: &str, more: &[&str]) -> Result<()> {
        let words = [&["move", request, "--to", peer, "--way", way], more].concat();
        let output = self.launch().command(&words)?.output().context("run idlewild move")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "idlewild {words:?} says {}: {said}", output.status);
        Ok(())
    }

    /// Has the agent itself begin a request, or prepare for one that was placed elsewhere, so that the model is in its memory;
    /// nobody reads the answer.
    pub fn load_model(&self, question: &serde_json::Value, deadline: Duration) -> Result<()> {
        let mut stream = self.ask(question)?;
        stream.read_pieces(1)?;
        let request = stream.request()?.to_owned();
        let story = self.explain(&request)?;
        let place = story.assignments.last().context("a worker")?.worker.clone();
        if place != self.peer()? {
            self.move_request(&request, self.peer()?, "ids", &["--prepare-only"])?;
        }
        self.until(deadline, "the model in memory", |status| status.engine.model.clone()).map(drop)
    }

    /// Waits until a request's standby lacks at most `lag_tokens` of its context.
    pub fn until_standby(&self, request: &str, lag_tokens: u32, deadline: Duration) -> Result<()> {
        let looked = within(deadline, "a standby that keeps up", || {
            Ok(self.explain(request)?.standby.filter(|standby| standby.lag_tokens <= lag_tokens))
        });
        looked.map(drop)
    }

    /// Waits until a request runs on `peer`, or has ended; gives its story.
    pub fn until_moved(&self, request: &str, peer: &str) -> Result<Explanation> {
        let looked = within(SEEN_WITHIN, "the request on its new worker", || {
            let story = self.explain(request)?;
            let is_there = story.assignments.last().is_some_and(|last| last.worker == peer);
            Ok((is_there || story.finish.is_some() || story.error.is_some()).then_some(story))
        });
        looked.map(|(story, _)| story).with_context(|| format!("story: {:#?}", self.explain(request)))
    }
}
