//! A rogue that is asked for a context.

use anyhow::{Context, Result};
use idlewild_protocol::ContextOpen;
use idlewild_swarm::{ContextRange, ContextServer};

use super::life::Life;
use super::{Manner, Seen};

/// Answers until the stream ends, or its manner ends it.
pub(super) async fn serve(life: Life, mut context: ContextServer, open: ContextOpen) {
    // Whatever goes wrong, the stream ends, and whoever pulls finds out.
    answer(&life, &mut context, open).await.ok();
}

async fn answer(life: &Life, context: &mut ContextServer, open: ContextOpen) -> Result<()> {
    loop {
        let range = context.next().await?;
        life.see(Seen::Pulled(range));
        match life.manner() {
            Manner::Honest | Manner::FloodsEvents => give(life, context, open, range).await?,
            Manner::NeverAnswers => {
                // Takes what else is asked for, too, until whoever asks gives up.
                while let Ok(range) = context.next().await {
                    life.see(Seen::Pulled(range));
                }
                return Ok(());
            }
            Manner::Refuses(why) => context.refuse(why).await?,
            Manner::HangsUp => return Ok(()),
            Manner::Slowly(late) => {
                tokio::time::sleep(late).await;
                give(life, context, open, range).await?;
            }
            Manner::OtherRange => give(life, context, open, other(range)).await?,
        }
    }
}

/// Of as many positions, and not these.
fn other(ContextRange { from, to }: ContextRange) -> ContextRange {
    if from == 0 { ContextRange { from: 1, to: to + 1 } } else { ContextRange { from: from - 1, to: to - 1 } }
}

/// Sends the positions of `range` in answer to the oldest pull, whatever that was for.
async fn give(life: &Life, context: &mut ContextServer, open: ContextOpen, range: ContextRange) -> Result<()> {
    let handle = life.holds(open.request).context("no such context")?;
    match handle.export(range.from, range.to).await {
        Ok(bytes) => context.send(bytes).await?,
        Err(idlewild_engine::ExportError::NotHeld) => {
            context.refuse(idlewild_protocol::ContextRefusal::NotHeld).await?;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
