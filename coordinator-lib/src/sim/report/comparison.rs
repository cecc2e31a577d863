//! Several policies over the same seeds, each compared with the first, seed by seed.

use serde::Serialize;

use super::{Estimate, Figures, METRICS, RunReport, Sample};

/// All figures of all policies.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// What was run.
    pub scenario: String,
    /// The seeds, in order.
    pub seeds: Vec<u64>,
    /// Of each policy, in the order in which they were named. The first is what the others are compared with.
    pub policies: Vec<PolicyRow>,
}

/// One policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PolicyRow {
    /// Its name.
    pub policy: String,
    /// Its figures.
    pub metrics: Vec<MetricRow>,
    /// The runs that they are of.
    pub runs: Vec<Figures>,
}

/// One figure of one policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricRow {
    /// Which.
    pub metric: &'static str,
    /// Over seeds.
    pub value: Estimate,
    /// Less the first policy's; none of the first itself.
    pub difference: Option<Difference>,
}

/// How a figure differs from the first policy's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// Over seeds, the two of each seed compared with each other.
    pub paired: Estimate,
    /// The mean over the first policy's mean; none where that is 0.
    pub ratio: Option<f64>,
}

impl Comparison {
    /// Of runs in any order. Each policy must have been run with the same seeds; others are left out.
    pub fn of(scenario: &str, policies: &[String], runs: &[RunReport]) -> Self {
        let of_policy = |policy: &str| {
            let mut of_policy: Vec<&RunReport> = runs.iter().filter(|run| run.policy == policy).collect();
            of_policy.sort_by_key(|run| run.seed);
            of_policy
        };
        let all: Vec<Vec<&RunReport>> = policies.iter().map(|policy| of_policy(policy)).collect();
        let is_shared = |seed: u64| all.iter().all(|runs| runs.iter().any(|run| run.seed == seed));
        let mut seeds: Vec<u64> = all.iter().flatten().map(|run| run.seed).filter(|seed| is_shared(*seed)).collect();
        seeds.sort_unstable();
        seeds.dedup();
        let figures = |runs: &[&RunReport]| -> Vec<Figures> {
            runs.iter().filter(|run| seeds.binary_search(&run.seed).is_ok()).map(|run| run.figures).collect()
        };
        let figures: Vec<Vec<Figures>> = all.iter().map(|runs| figures(runs)).collect();
        let rows = policies.iter().zip(&figures).enumerate().map(|(at, (policy, runs))| {
            let first = figures.first().filter(|_| at > 0);
            PolicyRow { policy: policy.clone(), metrics: metrics(runs, first), runs: runs.clone() }
        });
        Self { scenario: scenario.to_owned(), policies: rows.collect(), seeds }
    }
}

fn metrics(runs: &[Figures], first: Option<&Vec<Figures>>) -> Vec<MetricRow> {
    let row = |metric: &super::Metric| {
        let sample = |runs: &[Figures]| Sample::new(runs.iter().map(metric.of).collect());
        let own = sample(runs);
        let difference = first.map(|first| {
            let first = sample(first);
            let first_mean = first.estimate().mean;
            let ratio = (first_mean != 0.0).then(|| own.estimate().mean / first_mean);
            Difference { paired: own.less(&first).estimate(), ratio }
        });
        MetricRow { metric: metric.name, value: own.estimate(), difference }
    };
    METRICS.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_compared_seed_by_seed() {
        let run = |policy: &str, seed, losses| RunReport {
            seed,
            policy: policy.to_owned(),
            figures: Figures { losses, ..Figures::default() },
        };
        // Seeds differ by much, the policies by little: only the paired difference shows it.
        let runs = [run("b", 2, 51.0), run("a", 1, 10.0), run("a", 2, 50.0), run("b", 1, 11.0), run("a", 3, 0.0)];
        let names = ["a", "b"].map(str::to_owned);
        let comparison = Comparison::of("x", &names, &runs);
        assert_eq!(comparison.seeds, [1, 2]);
        let row = comparison.policies[1].metrics.iter().find(|row| row.metric == "losses").unwrap();
        let difference = row.difference.unwrap();
        assert_eq!((row.value.mean, difference.paired.mean, difference.paired.half_width), (31.0, 1.0, Some(0.0)));
        assert_eq!(difference.ratio, Some(31.0 / 30.0));
        assert!(comparison.policies[0].metrics.iter().all(|row| row.difference.is_none()));
    }
}
