//! Tables and properties of the rules.

use std::time::Duration;

use idlewild_protocol::DepartureCause;
use proptest::prelude::*;

use super::{HELD_AT_LEAST, Moment, Pause, Rule, Seen, Standing, Suspensions, Verdict, decide};
use crate::config::{Layer, RuleSettings, WeekTime};
use crate::owner::conditions::{Conditions, Heat, Memory, Power};

const NOON: Moment = Moment { unix_s: 1000, week: WeekTime { day: 0, minute: 720 }, day: 1 };

fn rules() -> RuleSettings {
    Layer::default().with_defaults().rules
}

fn at(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// How one rule stands under changed settings and what was seen.
fn standing(rule: Rule, settings: impl FnOnce(&mut RuleSettings), seen: impl FnOnce(&mut Seen)) -> Standing {
    let (mut rules, mut all) = (rules(), Seen::default());
    settings(&mut rules);
    seen(&mut all);
    let verdict = decide(&all, &rules, NOON);
    assert_eq!(verdict.findings.len(), Rule::ALL.len(), "every rule is told");
    verdict.of(rule).unwrap().standing
}

fn power(power: Option<Power>) -> impl FnOnce(&mut Seen) {
    move |seen| seen.conditions.power = power
}

fn memory(used: u64, own: u64, is_owner_there: bool) -> impl FnOnce(&mut Seen) {
    move |seen| {
        seen.conditions.memory = Some(Memory { total: 1000, available: 1000 - used, own });
        seen.is_owner_there = is_owner_there;
    }
}

fn heat(celsius: f32, danger_celsius: Option<f32>) -> impl FnOnce(&mut Seen) {
    move |seen| seen.conditions.heat = Some(Heat { zone: "cpu".into(), celsius, danger_celsius })
}

#[test]
fn what_nobody_knows_forbids_nothing() {
    let verdict = decide(&Seen { is_owner_there: true, ..Seen::default() }, &rules(), NOON);
    assert_eq!(verdict.broken().count(), 0, "{verdict:#?}");
}

#[test]
fn the_battery_counts_from_the_moment_that_it_is_used() {
    let battery = |percent| Some(Power::Battery { percent });
    let on = |rules: &mut RuleSettings| rules.on_battery = true;
    assert_eq!(standing(Rule::Battery, |_| {}, power(Some(Power::Mains))), Standing::Fine);
    assert_eq!(standing(Rule::Battery, |_| {}, power(battery(Some(100)))), Standing::Broken);
    assert_eq!(standing(Rule::Battery, |_| {}, power(None)), Standing::Unknown);
    assert_eq!(standing(Rule::Battery, on, power(battery(Some(5)))), Standing::Off);
    for (percent, expected) in [
        (Some(19), Standing::Broken),
        (Some(20), Standing::Near),
        (Some(24), Standing::Near),
        (Some(25), Standing::Fine),
    ] {
        assert_eq!(standing(Rule::BatteryLow, on, power(battery(percent))), expected, "{percent:?}");
    }
    assert_eq!(standing(Rule::BatteryLow, on, power(battery(None))), Standing::Unknown);
    assert_eq!(standing(Rule::BatteryLow, on, power(Some(Power::Mains))), Standing::Off);
}

#[test]
fn heat_counts_against_the_key_or_what_the_sensor_calls_dangerous() {
    for (max, celsius, danger, expected) in [
        (0, 84.9, Some(95.0), Standing::Near),
        (0, 85.0, Some(95.0), Standing::Broken),
        (0, 80.0, Some(95.0), Standing::Fine),
        (0, 120.0, None, Standing::Off),
        (70, 70.0, Some(95.0), Standing::Broken),
        (70, 66.0, None, Standing::Near),
        (70, 65.0, None, Standing::Fine),
    ] {
        let set = |rules: &mut RuleSettings| rules.temperature_max_c = max;
        assert_eq!(standing(Rule::Temperature, set, heat(celsius, danger)), expected, "{max} {celsius} {danger:?}");
    }
}

#[test]
fn others_may_use_a_quarter_of_the_processor() {
    for (max, percent, expected) in [
        (25, Some(25.0), Standing::Near),
        (25, Some(25.1), Standing::Broken),
        (25, Some(20.0), Standing::Fine),
        (25, None, Standing::Unknown),
        (100, Some(100.0), Standing::Off),
    ] {
        let set = |rules: &mut RuleSettings| rules.others_cpu_percent_max = max;
        let seen = |seen: &mut Seen| seen.conditions.others_cpu_percent = percent;
        assert_eq!(standing(Rule::OthersCpu, set, seen), expected, "{max} {percent:?}");
    }
}

#[test]
fn memory_counts_by_whether_the_owner_is_there() {
    for (rule, used, own, is_there, expected) in [
        (Rule::RamIdle, 901, 0, false, Standing::Broken),
        (Rule::RamIdle, 900, 0, false, Standing::Near),
        (Rule::RamIdle, 850, 0, false, Standing::Fine),
        (Rule::RamIdle, 990, 0, true, Standing::Off),
        (Rule::RamBusy, 990, 501, true, Standing::Broken),
        (Rule::RamBusy, 990, 500, true, Standing::Fine),
        (Rule::RamBusy, 990, 900, false, Standing::Off),
    ] {
        let found = standing(rule, |_| {}, memory(used, own, is_there));
        assert_eq!(found, expected, "{rule:?} {used} {own} {is_there}");
    }
}

#[test]
fn the_other_rules_hold_as_they_are_set() {
    let apps = |rules: &mut RuleSettings| rules.exclusive_apps = vec!["game".into()];
    let runs = |names: &'static [&'static str]| {
        move |seen: &mut Seen| seen.conditions.exclusive = names.iter().map(|name| (*name).to_owned()).collect()
    };
    assert_eq!(standing(Rule::ExclusiveApps, apps, runs(&["game"])), Standing::Broken);
    assert_eq!(standing(Rule::ExclusiveApps, apps, runs(&[])), Standing::Fine);
    assert_eq!(standing(Rule::ExclusiveApps, apps, runs(&["other"])), Standing::Fine, "no longer looked for");
    assert_eq!(standing(Rule::ExclusiveApps, |_| {}, runs(&["game"])), Standing::Off);

    let metered = |known| move |seen: &mut Seen| seen.conditions.metered = known;
    assert_eq!(standing(Rule::Metered, |_| {}, metered(Some(true))), Standing::Broken);
    assert_eq!(standing(Rule::Metered, |_| {}, metered(Some(false))), Standing::Fine);
    assert_eq!(standing(Rule::Metered, |_| {}, metered(None)), Standing::Unknown);
    assert_eq!(standing(Rule::Metered, |rules| rules.metered = true, metered(Some(true))), Standing::Off);

    let schedule = |line: &'static str| move |rules: &mut RuleSettings| rules.schedule = vec![line.to_owned()];
    assert_eq!(standing(Rule::Schedule, schedule("mon 11:00-13:00"), |_| {}), Standing::Fine);
    assert_eq!(standing(Rule::Schedule, schedule("22:00-07:00"), |_| {}), Standing::Broken);
    assert_eq!(standing(Rule::Schedule, |_| {}, |_| {}), Standing::Off);

    let cap = |rules: &mut RuleSettings| rules.transfer_mb_per_day = 10;
    let moved = |bytes| move |seen: &mut Seen| seen.transferred_bytes = bytes;
    assert_eq!(standing(Rule::Transfer, cap, moved(9_999_999)), Standing::Fine);
    assert_eq!(standing(Rule::Transfer, cap, moved(10_000_000)), Standing::Broken);
    assert_eq!(standing(Rule::Transfer, |_| {}, moved(u64::MAX)), Standing::Off);

    let paused = |pause| move |seen: &mut Seen| seen.pause = pause;
    let none = |rules: &mut RuleSettings| rules.enabled = false;
    assert_eq!(standing(Rule::Pause, none, paused(Pause::UntilResumed)), Standing::Broken, "without rules too");
    assert_eq!(standing(Rule::Pause, |_| {}, paused(Pause::Until { unix_s: 1001 })), Standing::Broken);
    assert_eq!(standing(Rule::Pause, |_| {}, paused(Pause::Until { unix_s: 1000 })), Standing::Off);
    assert_eq!(standing(Rule::Battery, none, power(Some(Power::Battery { percent: None }))), Standing::Off);
}

/// On battery at 10 %, hot, and paused.
fn everything_wrong() -> Seen {
    let conditions = Conditions {
        power: Some(Power::Battery { percent: Some(10) }),
        heat: Some(Heat { zone: "cpu".into(), celsius: 99.0, danger_celsius: Some(95.0) }),
        ..Conditions::default()
    };
    Seen { conditions, pause: Pause::UntilResumed, ..Seen::default() }
}

#[test]
fn a_block_tells_all_reasons_of_its_cause_each_with_its_key_what_was_seen_and_the_limit() {
    let mut suspensions = Suspensions::default();
    suspensions.update(at(5), &decide(&everything_wrong(), &rules(), NOON));
    let blocks = suspensions.blocks();
    assert_eq!(blocks.keys().copied().collect::<Vec<_>>(), [DepartureCause::Battery, DepartureCause::Rule]);
    assert_eq!(
        blocks[&DepartureCause::Battery].reason,
        "on battery (rules.on_battery: only on mains); \
         battery at 10 % (rules.battery_percent_min: at least 20 % on battery)"
    );
    let rule = &blocks[&DepartureCause::Rule];
    assert!(rule.reason.contains("paused by its owner (idlewild pause: ") && rule.reason.contains("99 °C at cpu"));
    assert!(!rule.is_at_once);
    let mut full = Seen::default();
    memory(950, 0, false)(&mut full);
    suspensions.update(at(6), &decide(&full, &rules(), NOON));
    assert!(suspensions.blocks()[&DepartureCause::Rule].is_at_once);
}

#[test]
fn a_suspension_lasts_its_time_and_the_owners_own_word_does_not() {
    let mut suspensions = Suspensions::default();
    suspensions.update(at(100), &decide(&everything_wrong(), &rules(), NOON));
    assert_eq!(suspensions.first(), Some(Rule::Pause));
    let mains =
        Seen { conditions: Conditions { power: Some(Power::Mains), ..Conditions::default() }, ..Seen::default() };
    let fine = decide(&mains, &rules(), NOON);
    suspensions.update(at(101), &fine);
    assert!(!suspensions.holds(Rule::Pause) && suspensions.holds(Rule::Battery));
    suspensions.update(at(119), &fine);
    assert!(suspensions.holds(Rule::Battery) && suspensions.holds(Rule::Temperature));
    suspensions.update(at(120), &fine);
    assert!(suspensions.blocks().is_empty());
    // Settings that no longer forbid lift at once, and so does a battery that is allowed.
    suspensions.update(at(130), &decide(&everything_wrong(), &rules(), NOON));
    let permitting = RuleSettings { on_battery: true, battery_percent_min: 0, temperature_max_c: 150, ..rules() };
    suspensions.update(at(131), &decide(&mains, &permitting, NOON));
    assert!(!suspensions.holds(Rule::Battery) && !suspensions.holds(Rule::BatteryLow));
}

/// A verdict in which one rule stands so.
fn only(rule: Rule, standing: Standing) -> Verdict {
    let mut verdict = decide(&Seen::default(), &rules(), NOON);
    for finding in &mut verdict.findings {
        finding.standing = if finding.rule == rule { standing } else { Standing::Off };
    }
    verdict
}

fn any_standing() -> impl Strategy<Value = Standing> {
    prop_oneof![Just(Standing::Unknown), Just(Standing::Fine), Just(Standing::Near), Just(Standing::Broken)]
}

proptest! {
    /// Whatever a rule sees, a session neither begins within 20 s of its suspension, nor beside a rule that forbids.
    #[test]
    fn no_sequence_of_looks_makes_a_rule_flap(looks in prop::collection::vec((1_u64..6, any_standing()), 1..80)) {
        let mut suspensions = Suspensions::default();
        let (mut now, mut held_since) = (Duration::ZERO, None);
        for (step, standing) in looks {
            now += at(step);
            suspensions.update(now, &only(Rule::OthersCpu, standing));
            let holds = suspensions.holds(Rule::OthersCpu);
            prop_assert!(holds || standing != Standing::Broken);
            match (held_since, holds) {
                (None, true) => {
                    prop_assert_eq!(standing, Standing::Broken, "only what is broken begins a suspension");
                    held_since = Some(now);
                }
                (Some(since), false) => {
                    prop_assert!(now >= since + HELD_AT_LEAST && standing != Standing::Near);
                    held_since = None;
                }
                (None, false) | (Some(_), true) => {}
            }
        }
    }

    /// Numbers that no machine shows are no reason to fail, and all of a rule's figures agree with its standing.
    #[test]
    fn any_conditions_have_a_verdict(
        percent in any::<f32>(), celsius in any::<f32>(), total in any::<u64>(), available in any::<u64>(),
        own in any::<u64>(), charge in any::<u8>(), bytes in any::<u64>(), is_owner_there in any::<bool>(),
    ) {
        let conditions = Conditions {
            power: Some(Power::Battery { percent: Some(charge) }),
            heat: Some(Heat { zone: String::new(), celsius, danger_celsius: Some(celsius) }),
            others_cpu_percent: Some(percent),
            memory: Some(Memory { total, available, own }),
            ..Conditions::default()
        };
        let seen = Seen { conditions, pause: Pause::None, is_owner_there, transferred_bytes: bytes };
        let verdict = decide(&seen, &rules(), NOON);
        for finding in verdict.broken() {
            prop_assert!(!finding.seen.is_empty() && !finding.limit.is_empty(), "{:?}", finding);
        }
    }
}
