//! A peer with more models than its digest has room for: each of them is served, by itself and for others.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use idlewild_tests::lab::real_model;
use idlewild_tests::{Agent, Cluster, Lab, Verdict, completion, in_lab};

/// Models of the worker; a digest states four.
const MODELS: usize = 6;

/// The worker's models are known at the origin within this.
const KNOWN_WITHIN: Duration = Duration::from_secs(10);

fn name(number: usize) -> String {
    format!("model-{number}")
}

/// The same weights under several hashes: what follows the last tensor is not read.
fn variant(lab: &Lab, model: &Path, number: usize) -> Result<PathBuf> {
    let path = lab.files().join("variant.gguf");
    fs::copy(model, &path).context("copy the model")?;
    let mut file = fs::OpenOptions::new().append(true).open(&path).context("open the copy")?;
    file.write_all(&vec![0; 32 * number]).context("lengthen the copy")?;
    Ok(path)
}

/// Asks twice for each, so that every one is asked for after others have taken its place in the digest.
fn ask_for_all(agent: &Agent) -> Result<()> {
    for round in 1..=2 {
        for number in 1..=MODELS {
            let answer = agent.answer(&completion(&name(number), "1 2 3", 2));
            let answer = answer.with_context(|| format!("{} in round {round}", name(number)))?;
            ensure!(answer.finish.is_some(), "{answer:?}");
        }
    }
    Ok(())
}

#[test]
fn every_model_of_a_peer_with_many_is_served_here_and_for_others() -> Verdict {
    let Some(model) = real_model()? else { return Ok(()) };
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "b"])?;
        let cluster = Cluster::new(lab, &hosts, |number, launch| {
            if number == 0 {
                return Ok(launch.busy());
            }
            for number in 1..=MODELS {
                launch.import(&variant(lab, &model, number)?, &name(number))?;
            }
            Ok(launch)
        })?;
        let (origin, worker) = (&cluster.0[0], &cluster.0[1]);
        origin.until_serving(worker.peer()?, KNOWN_WITHIN)?;
        let all = |status: &idlewild_tests::agent::Status| {
            let known = status.of(worker.peer().ok()?)?.models.len();
            (known == MODELS).then_some(())
        };
        origin.until(KNOWN_WITHIN, "all models of the worker", all)?;
        ask_for_all(origin)?;
        ask_for_all(worker)
    })
}
