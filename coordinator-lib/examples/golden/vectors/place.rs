//! `place`.

use idlewild_coordinator::cost::{Terms, Work};
use idlewild_coordinator::policy::{HazardAwarePolicy, MigrationLimits, Placement, Policy, ReactiveFastest};
use serde::Deserialize;

use super::Vector;
use super::report::Case;
use super::scene::Scene;

#[derive(Deserialize)]
pub(super) struct PlaceCase {
    id: u64,
    #[serde(flatten)]
    scene: Scene,
    expect: Expect,
}

#[derive(Deserialize)]
struct Expect {
    node: Option<String>,
    cost: Option<f64>,
    costs: Vec<NodeCost>,
    gap_to_second: Option<f64>,
    fastest_node: Option<String>,
}

#[derive(Deserialize)]
struct NodeCost {
    node: String,
    feasible: bool,
    cost: Option<f64>,
}

impl Vector for PlaceCase {
    fn id(&self) -> u64 {
        self.id
    }

    fn check(&self, case: &mut Case<'_>) -> Result<(), String> {
        let log = self.scene.log();
        let fleet = self.scene.fleet(&log);
        let work = Work::fresh(self.scene.request.prompt_tokens, self.scene.request.expected_output_tokens);
        let cells = self.scene.params.integral_steps.ok_or("params has no integral_steps")?;
        let parameters = self.scene.parameters(cells);
        let placement = HazardAwarePolicy::blocking(parameters, MigrationLimits::default()).place(&fleet, &work);
        let fastest = ReactiveFastest { parameters }.place(&fleet, &work);
        case.same("node", &placement.chosen, &self.expect.node.as_deref());
        case.same("fastest_node", &fastest.chosen, &self.expect.fastest_node.as_deref());
        let chosen = placement.chosen_assessment().and_then(|assessment| assessment.terms());
        case.near_or_none("cost", chosen.map(Terms::expected_s), self.expect.cost);
        case.near_or_none("gap_to_second", gap_s(&placement), self.expect.gap_to_second);
        self.check_costs(case, &placement);
        Ok(())
    }
}

impl PlaceCase {
    fn check_costs(&self, case: &mut Case<'_>, placement: &Placement<&str>) {
        case.same("number of nodes", &placement.assessed.len(), &self.expect.costs.len());
        for (got, expect) in placement.assessed.iter().zip(&self.expect.costs) {
            let name = &expect.node;
            case.same("node in order", &got.peer, &name.as_str());
            case.same(format_args!("{name}: feasible"), &got.terms().is_some(), &expect.feasible);
            case.near_or_none(format_args!("{name}: cost"), got.terms().map(Terms::expected_s), expect.cost);
        }
    }
}

/// How much dearer the second best is; none with fewer than two.
fn gap_s(placement: &Placement<&str>) -> Option<f64> {
    let ranked = placement.ranked();
    let mut costs_s = ranked.iter().filter_map(|assessment| assessment.terms()).map(Terms::expected_s);
    let best_s = costs_s.next()?;
    costs_s.next().map(|second_s| second_s - best_s)
}
