//! `cost_components` and `migration_cost`.

use idlewild_coordinator::cost::{
    CostParameters, Method, Situation, Terms, Work, crossover_tokens, planned_cost, recompute_s, service_s, terms,
    transfer_s, wait_s,
};
use idlewild_coordinator::hazard::HazardLog;
use idlewild_coordinator::policy::Fleet;
use serde::Deserialize;

use super::Vector;
use super::hazard::source_name;
use super::report::Case;
use super::scene::{Rates, Scene};

#[derive(Deserialize)]
pub(super) struct ComponentsCase {
    id: u64,
    #[serde(flatten)]
    scene: Scene,
    done: u32,
    ctx: u32,
    own_node: Option<String>,
    own_load: f64,
    expect: Vec<Components>,
}

#[derive(Deserialize)]
struct Components {
    node: String,
    wait: f64,
    service: f64,
    #[serde(rename = "T")]
    time: f64,
    #[serde(rename = "L16")]
    loss_16: f64,
    #[serde(rename = "L32")]
    loss_32: f64,
    integral16: f64,
    integral32: f64,
    #[serde(rename = "E16")]
    expected_16: f64,
    #[serde(rename = "E32")]
    expected_32: f64,
    age: f64,
    curve: String,
    fallback: Option<String>,
    #[serde(rename = "fail_prob_T")]
    fail_prob: f64,
}

impl Vector for ComponentsCase {
    fn id(&self) -> u64 {
        self.id
    }

    fn check(&self, case: &mut Case<'_>) -> Result<(), String> {
        let log = self.scene.log();
        let fleet = self.scene.fleet(&log);
        case.same("number of nodes", &fleet.peers.len(), &self.expect.len());
        let mut asked = self.scene.unfitted_log();
        self.expect.iter().try_for_each(|expect| self.check_node(case, &fleet, &mut asked, expect))
    }
}

impl ComponentsCase {
    /// `asked` is fitted by the first question put to it. The vectors' source names the curve after the loss and before
    /// `fail_prob_T`; a loss over no time asks nothing, so that a first node with T = 0 has no curve of its own yet.
    fn check_node(
        &self,
        case: &mut Case<'_>,
        fleet: &Fleet<'_, &str>,
        asked: &mut HazardLog<String>,
        expect: &Components,
    ) -> Result<(), String> {
        let name = expect.node.as_str();
        let of_16 = self.terms_on(fleet, name, 16)?;
        let of_32 = self.terms_on(fleet, name, 32)?;
        if of_16.time_s() > 0.0 {
            asked.refit(self.scene.now);
        }
        let known = asked.node(self.scene.now, &expect.node);
        case.near(format_args!("{name}: age"), known.age_s, expect.age);
        case.same(format_args!("{name}: curve"), &source_name(known.source), &expect.curve.as_str());
        asked.refit(self.scene.now);
        let fallback = fleet.fallback(name).map(|peer| peer.id);
        case.same(format_args!("{name}: fallback"), &fallback, &expect.fallback.as_deref());
        let values = [
            ("wait", of_16.wait_s, expect.wait),
            ("service", of_16.service_s, expect.service),
            ("T", of_16.time_s(), expect.time),
            ("L16", of_16.loss_s, expect.loss_16),
            ("L32", of_32.loss_s, expect.loss_32),
            ("integral16", of_16.loss_s, expect.integral16),
            ("integral32", of_32.loss_s, expect.integral32),
            ("E16", of_16.expected_s(), expect.expected_16),
            ("E32", of_32.expected_s(), expect.expected_32),
            ("fail_prob_T", of_16.leave_probability, expect.fail_prob),
        ];
        for (what, got, expected) in values {
            case.near(format_args!("{name}: {what}"), got, expected);
        }
        Ok(())
    }

    fn terms_on(&self, fleet: &Fleet<'_, &str>, name: &str, cells: u32) -> Result<Terms, String> {
        let peer = fleet.peer(name).ok_or_else(|| format!("{name} is not among its nodes"))?;
        let request = &self.scene.request;
        let work = Work {
            context_tokens: self.ctx,
            ..Work::running(request.prompt_tokens, request.expected_output_tokens, self.done)
        };
        let own_load_s = if self.own_node.as_deref() == Some(name) { self.own_load } else { 0.0 };
        let situation = Situation {
            rates: &peer.rates,
            hazard: peer.hazard,
            wait_s: wait_s(peer.load_s, own_load_s),
            rebuild_tps: fleet.fallback(peer.id).map(|other| other.rates.prefill_tps),
        };
        Ok(terms(&situation, &work, &self.scene.parameters(cells)))
    }
}

#[derive(Deserialize)]
pub(super) struct MigrationCase {
    id: u64,
    src: Rates,
    dst: Rates,
    ctx: u32,
    transfer_overhead: f64,
    recompute_overhead: f64,
    kv_transfer: f64,
    recompute: f64,
    planned_cost: f64,
    planned_method: String,
    unplanned: f64,
    crossover: Option<f64>,
    crossover_is_inf: bool,
    service: Service,
}

#[derive(Deserialize)]
struct Service {
    prompt_tokens: u32,
    expected_output_tokens: u32,
    done: u32,
    on_src: f64,
    on_dst: f64,
}

impl Vector for MigrationCase {
    fn id(&self) -> u64 {
        self.id
    }

    fn check(&self, case: &mut Case<'_>) -> Result<(), String> {
        let parameters = CostParameters {
            recompute_overhead_s: self.recompute_overhead,
            transfer_overhead_s: self.transfer_overhead,
            ..CostParameters::default()
        };
        let (source, destination) = (self.src.rates(), self.dst.rates());
        let link_bps = source.bandwidth_bps.min(destination.bandwidth_bps);
        let planned = planned_cost(&source, &destination, link_bps, self.ctx, &parameters);
        let crossover = crossover_tokens(&source, &destination, link_bps, &parameters);
        let rebuilt_s = recompute_s(&destination, self.ctx, &parameters);
        case.near("kv_transfer", transfer_s(&source, link_bps, self.ctx, &parameters), self.kv_transfer);
        case.near("recompute", rebuilt_s, self.recompute);
        case.near("planned_cost", planned.cost_s, self.planned_cost);
        case.same("planned_method", &method_name(planned.method), &self.planned_method.as_str());
        case.near("unplanned", rebuilt_s, self.unplanned);
        case.near_or_none("crossover", crossover, self.crossover);
        case.same("crossover_is_inf", &crossover.is_none(), &self.crossover_is_inf);
        let Service { prompt_tokens, expected_output_tokens, done, on_src, on_dst } = self.service;
        let work = Work::running(prompt_tokens, expected_output_tokens, done);
        case.near("service on_src", service_s(&source, &work), on_src);
        case.near("service on_dst", service_s(&destination, &work), on_dst);
        Ok(())
    }
}

/// What the vectors call a method.
pub(super) fn method_name(method: Method) -> &'static str {
    match method {
        Method::Transfer => "kv_transfer",
        Method::Recompute => "recompute",
    }
}
