//! `should_migrate`.

use idlewild_coordinator::cost::{PlannedCost, Terms, Work, service_s};
use idlewild_coordinator::policy::{HazardAwarePolicy, Migration, MoveCandidate, MoveDecision, Policy, Running};
use serde::Deserialize;

use super::Vector;
use super::cost::method_name;
use super::report::Case;
use super::scene::Scene;

#[derive(Deserialize)]
pub(super) struct MigrateCase {
    id: u64,
    #[serde(flatten)]
    scene: Scene,
    current: String,
    ctx: u32,
    done: u32,
    hops: u32,
    own_load: f64,
    expect: Expect,
}

#[derive(Deserialize)]
struct Expect {
    migrate: bool,
    dest: Option<String>,
    method: Option<String>,
    cost: Option<f64>,
    service_on_current: Option<f64>,
    stay: Option<Stay>,
    candidates: Vec<Candidate>,
}

#[derive(Deserialize)]
struct Stay {
    #[serde(rename = "T")]
    time: f64,
    #[serde(rename = "L")]
    loss: f64,
}

#[derive(Deserialize)]
struct Candidate {
    node: String,
    feasible: bool,
    /// Of feasible candidates only.
    #[serde(flatten)]
    weighed: Option<Weighed>,
}

#[derive(Deserialize)]
struct Weighed {
    planned_cost: f64,
    method: String,
    #[serde(rename = "T")]
    time: f64,
    #[serde(rename = "L")]
    loss: f64,
    risk_gain: f64,
    time_delta: f64,
    score: f64,
    passes: bool,
}

impl Vector for MigrateCase {
    fn id(&self) -> u64 {
        self.id
    }

    fn check(&self, case: &mut Case<'_>) -> Result<(), String> {
        let log = self.scene.log();
        let fleet = self.scene.fleet(&log);
        let running = self.running();
        let migration = self.policy()?.should_migrate(&fleet, &running);
        let current = fleet.peer(running.current);
        let service = current.map(|peer| service_s(&peer.rates, &running.work));
        case.near_or_none("service_on_current", service, self.expect.service_on_current);
        self.check_decision(case, &migration);
        case.same("number of candidates", &migration.candidates.len(), &self.expect.candidates.len());
        for (got, expect) in migration.candidates.iter().zip(&self.expect.candidates) {
            check_candidate(case, got, expect);
        }
        Ok(())
    }
}

impl MigrateCase {
    fn policy(&self) -> Result<HazardAwarePolicy, String> {
        let params = &self.scene.params;
        let cells = params.integral_steps.ok_or("params has no integral_steps")?;
        let limits = params.limits.ok_or("params has no hysteresis, min_remaining or max_hops")?;
        Ok(HazardAwarePolicy::blocking(self.scene.parameters(cells), limits.limits()))
    }

    fn running(&self) -> Running<&str> {
        let request = &self.scene.request;
        let work = Work::running(request.prompt_tokens, request.expected_output_tokens, self.done);
        Running {
            current: self.current.as_str(),
            work: Work { context_tokens: self.ctx, ..work },
            own_load_s: self.own_load,
            hops: self.hops,
        }
    }

    fn check_decision(&self, case: &mut Case<'_>, migration: &Migration<&str>) {
        let planned = match migration.decision {
            MoveDecision::Move { to, planned } => Some((to, planned)),
            MoveDecision::Stay(_) => None,
        };
        let expect = &self.expect;
        case.same("migrate", &planned.is_some(), &expect.migrate);
        case.same("dest", &planned.map(|(to, _)| to), &expect.dest.as_deref());
        let method = planned.map(|(_, PlannedCost { method, .. })| method_name(method));
        case.same("method", &method, &expect.method.as_deref());
        case.near_or_none("cost", planned.map(|(_, planned)| planned.cost_s), expect.cost);
        let stay = migration.stay.as_ref();
        case.near_or_none("stay T", stay.map(Terms::time_s), expect.stay.as_ref().map(|stay| stay.time));
        case.near_or_none("stay L", stay.map(|terms| terms.loss_s), expect.stay.as_ref().map(|stay| stay.loss));
    }
}

fn check_candidate(case: &mut Case<'_>, got: &MoveCandidate<&str>, expect: &Candidate) {
    let name = &expect.node;
    case.same("candidate in order", &got.peer, &name.as_str());
    case.same(format_args!("{name}: feasible"), &got.misfit.is_none(), &expect.feasible);
    if expect.feasible {
        case.same(format_args!("{name}: has values"), &expect.weighed.is_some(), &true);
    }
    let Some(expect) = &expect.weighed else { return };
    case.same(format_args!("{name}: method"), &method_name(got.planned.method), &expect.method.as_str());
    case.same(format_args!("{name}: passes"), &got.passes, &expect.passes);
    let values = [
        ("planned_cost", got.planned.cost_s, expect.planned_cost),
        ("T", got.terms.time_s(), expect.time),
        ("L", got.terms.loss_s, expect.loss),
        ("risk_gain", got.risk_gain_s, expect.risk_gain),
        ("time_delta", got.time_delta_s, expect.time_delta),
        ("score", got.score_s(), expect.score),
    ];
    for (what, got, expected) in values {
        case.near(format_args!("{name}: {what}"), got, expected);
    }
}
