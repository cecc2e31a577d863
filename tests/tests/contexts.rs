//! Prompts go where they fit.

use anyhow::ensure;
use idlewild_tests::agent::FOUND_WITHIN;
use idlewild_tests::{Cluster, FAKE_MODEL, Fake, Verdict, completion, in_lab};

#[test]
fn a_prompt_of_8k_goes_to_the_host_with_32k_and_a_short_one_to_either() -> Verdict {
    in_lab(|lab| {
        let (_, hosts) = lab.home(&["a", "b", "c"])?;
        let fast = Fake { prefill_tps: 50_000.0, decode_tps: 400.0, load_ms: 20 };
        let contexts: [u32; 3] = [4096, 4096, 32_768];
        let cluster = Cluster::new(lab, &hosts, |number, launch| {
            // The small one is much faster: only room can send anything past it.
            let fake = if number == 2 { Fake { prefill_tps: 10_000.0, decode_tps: 50.0, ..fast } } else { fast };
            let launch = launch.fake(fake).set("engine.context_tokens", contexts[number]);
            let launch = launch.set("engine.kv_tokens", contexts[number]);
            Ok(if number == 0 { launch.busy() } else { launch })
        })?;
        let (origin, small, large) = (&cluster.0[0], &cluster.0[1], &cluster.0[2]);
        origin.until_serving(small.peer()?, FOUND_WITHIN)?;
        origin.until_serving(large.peer()?, FOUND_WITHIN)?;
        let words = |count| vec!["word"; count].join(" ");
        for (count, worker) in [(8000, large), (100, small)] {
            let answer = origin.answer(&completion(FAKE_MODEL, &words(count), 20))?;
            ensure!(answer.worker.as_deref() == Some(worker.peer()?), "{count} words: {answer:?}");
            let counted = answer.usage.as_ref().and_then(|usage| usage["prompt_tokens"].as_u64());
            ensure!(counted == Some(count as u64), "{count} words count as {counted:?}");
        }
        let mut too_long = origin.ask(&completion(FAKE_MODEL, &words(40_000), 20))?;
        ensure!(too_long.status() == 400, "status {}", too_long.status());
        let error = too_long.json()?;
        ensure!(error["error"]["code"] == "context_length_exceeded", "{error}");
        ensure!(error["error"]["message"].as_str().is_some_and(|says| says.contains("32768")), "{error}");
        Ok(())
    })
}
