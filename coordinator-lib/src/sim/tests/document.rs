//! `docs/simulator.md` names what there is.

use crate::sim::report::METRICS;
use crate::sim::synthetic::SyntheticFleet;
use crate::sim::{Part, PolicyKind};

const DOCUMENT: &str = include_str!("../../../../docs/simulator.md");

#[test]
fn the_document_names_every_policy_part_fleet_and_figure() {
    let policies = PolicyKind::ALL.map(PolicyKind::name);
    let parts = Part::ALL.map(Part::name);
    let figures = METRICS.map(|metric| metric.name);
    for name in policies.iter().chain(&parts).chain(&figures) {
        assert!(DOCUMENT.contains(&format!("`{name}`")), "{name}");
    }
    for fleet in SyntheticFleet::ALL {
        assert!(DOCUMENT.contains(&format!("`--fleet {}`", fleet.name())), "{}", fleet.name());
    }
}

#[test]
fn a_name_is_read_back_and_another_is_answered_with_those_that_are_known() {
    for kind in PolicyKind::ALL {
        assert_eq!(kind.name().parse(), Ok(kind));
    }
    for part in Part::ALL {
        assert_eq!(part.name().parse(), Ok(part));
    }
    let error = "fastest".parse::<PolicyKind>().unwrap_err().to_string();
    assert!(error.starts_with("\"fastest\" is no kind of policy: use one of random, reactive_fastest,"), "{error}");
    let error = "lan".parse::<crate::sim::fleet::LinkClass>().unwrap_err().to_string();
    assert_eq!(error, "\"lan\" is no kind of link: use one of ethernet, wifi, fibre, dsl");
}
