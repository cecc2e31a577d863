//! A rogue at work: as an honest worker, but for its manner.

use std::time::Duration;

use anyhow::{Context, Result};
use idlewild_engine::{EngineJob, EngineStream, SequenceEvent, SequenceHandle};
use idlewild_protocol::{Epoch, JobEvent, JobRequest, JobStart, RequestId};
use idlewild_swarm::JobServer;
use tokio::sync::watch;
use tokio::time::timeout;

use super::life::{Life, Presence};
use super::looks::CAUSE;
use super::{Manner, Seen};

/// Tokens that it says before it floods.
const TOKENS_BEFORE_FLOOD: u32 = 20;

/// Runs a job to its end, however it ends.
pub(super) async fn work(life: Life, line: JobServer, start: JobStart) {
    let request = start.request;
    // Whatever goes wrong, its origin finds out as of any worker.
    run(&life, line, start).await.ok();
    life.forget(request);
    life.see(Seen::Left(request));
}

async fn run(life: &Life, mut line: JobServer, start: JobStart) -> Result<()> {
    let (request, epoch) = (start.request, start.epoch);
    let JobStart { model, input, sampling, max_tokens, stop, .. } = start;
    let mut stream = life.engine.submit(EngineJob { model, input, sampling, max_tokens, stop }).await?;
    let handle = stream.handle();
    life.keep(request, handle.clone());
    let mut presence = life.presence.clone();
    loop {
        tokio::select! {
            word = line.next() => obey(life, &handle, &word?)?,
            event = stream.next() => {
                let Some(event) = event else { return Ok(()) };
                let is_last = event.is_last();
                let index = if let SequenceEvent::Token { index, .. } = &event { Some(*index) } else { None };
                if let Some(event) = event_of(epoch, event) {
                    line.send(event).await?;
                }
                if is_last {
                    return Ok(());
                }
                if life.manner() == Manner::FloodsEvents && index.is_some_and(|index| index >= TOKENS_BEFORE_FLOOD) {
                    return flood(line, |count| JobEvent::Prefilled { epoch, done: count, total: u32::MAX }).await;
                }
            }
            notice_ms = is_gone(&mut presence) => {
                let notice_ms = notice_ms?;
                return leave(life, (line, stream), request, epoch, notice_ms).await;
            }
        }
    }
}

/// Waits until its owner is back; says for how long it holds its contexts then.
async fn is_gone(presence: &mut watch::Receiver<Presence>) -> Result<u32> {
    loop {
        if let Presence::Gone { notice_ms } = *presence.borrow_and_update() {
            return Ok(notice_ms);
        }
        presence.changed().await?;
    }
}

fn obey(life: &Life, handle: &SequenceHandle, word: &JobRequest) -> Result<()> {
    match word {
        JobRequest::StopAfter { index } => handle.stop_after(*index)?,
        JobRequest::GoOn => handle.go_on()?,
        JobRequest::Offer { to } => life.see(Seen::Offered(*to)),
        JobRequest::Cancel => anyhow::bail!("cancelled"),
        // Of no worker's business.
        JobRequest::Start(_)
        | JobRequest::Prepare(_)
        | JobRequest::Forward { .. }
        | JobRequest::Keep { .. }
        | JobRequest::CatchUp
        | JobRequest::TakeOver { .. } => {}
    }
    Ok(())
}

/// What it says of what its engine does; nothing of what only standbys have to say.
fn event_of(epoch: Epoch, event: SequenceEvent) -> Option<JobEvent> {
    Some(match event {
        SequenceEvent::Accepted { prompt } => JobEvent::Accepted { epoch, prompt },
        SequenceEvent::Prefilled { done, total } => JobEvent::Prefilled { epoch, done, total },
        SequenceEvent::Token { index, id, text } => JobEvent::Token { epoch, index, id, text },
        SequenceEvent::Finished { reason, text } => JobEvent::Finished { epoch, reason, text },
        SequenceEvent::Failed(failure) => JobEvent::Failed { epoch, failure: failure.clipped() },
        SequenceEvent::Held { .. }
        | SequenceEvent::ImportRefused { .. }
        | SequenceEvent::ExtendRefused { .. }
        | SequenceEvent::TakeOverRefused { .. } => return None,
    })
}

/// Says goodbye, and keeps the context for the notice, or until the stream is closed.
async fn leave(
    life: &Life,
    (mut line, stream): (JobServer, EngineStream),
    request: RequestId,
    epoch: Epoch,
    notice_ms: u32,
) -> Result<()> {
    let handle = stream.handle();
    handle.pause(true)?;
    line.send(JobEvent::Leaving { epoch, cause: CAUSE, notice_ms }).await?;
    let linger = async {
        loop {
            obey(life, &handle, &line.next().await.context("the stream ends")?)?;
        }
    };
    let lingered: Result<Result<()>, _> = timeout(Duration::from_millis(u64::from(notice_ms)), linger).await;
    life.forget(request);
    lingered.unwrap_or(Ok(()))
}

/// Gets ready for nothing, and says so to nobody: its origin closes the stream. One that floods says for ever that it holds a
/// token.
pub(super) async fn stand_by(life: Life, mut line: JobServer, start: JobStart) {
    let epoch = start.epoch;
    if life.manner() == Manner::FloodsEvents {
        let held = |_| JobEvent::Held { epoch, tokens: 1, pulled_tokens: 0, pulled_bytes: 0 };
        flood(line, held).await.ok();
    } else {
        while line.next().await.is_ok() {}
    }
    life.see(Seen::Left(start.request));
}

/// Says one thing after the other as fast as they are taken, and hears nothing, until the stream is closed.
async fn flood(mut line: JobServer, event: impl Fn(u32) -> JobEvent) -> Result<()> {
    let mut count = 0_u32;
    loop {
        line.send(event(count)).await?;
        count = count.saturating_add(1);
    }
}
