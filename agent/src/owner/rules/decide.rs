//! Each rule, as a function of what was seen.

use crate::config::{RuleSettings, Schedule, WeekTime};
use crate::owner::conditions::{Conditions, Power};

use super::pause::{Left, Pause};
use super::verdict::{Finding, Rule, Standing, Verdict};

/// Degrees below a limit at which a suspension for heat is lifted.
const COOLER_C: f32 = 5.0;

/// Degrees below what the firmware calls dangerous from which on it is too hot for guests.
const BELOW_DANGER_C: f32 = 10.0;

/// Share of the limit below which others' use of the processor lifts a suspension.
const CALMER: f32 = 0.8;

/// Points of percent below a limit on memory, or above one on charge, at which a suspension is lifted.
const MARGIN_PERCENT: f32 = 5.0;

const MB: u64 = 1_000_000;

/// What the agent itself knows, beside the machine's [`Conditions`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    /// The machine.
    pub conditions: Conditions,
    /// The owner's own word.
    pub pause: Pause,
    /// Whether the owner is there, or nobody can tell.
    pub is_owner_there: bool,
    /// Bytes exchanged with peers today.
    pub transferred_bytes: u64,
}

/// When it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Seconds since 1970.
    pub unix_s: u64,
    /// The same by the clock on the wall.
    pub week: WeekTime,
    /// The local day, counted from any fixed one.
    pub day: i64,
}

/// The moment that it is now, by the system's clock and time zone.
pub fn wall_clock() -> Moment {
    let now = jiff::ZonedDateTime::now();
    let (time, day) = (now.time(), now.weekday().to_monday_zero_offset());
    let minute = u16::from(time.hour().unsigned_abs()) * 60 + u16::from(time.minute().unsigned_abs());
    let unix_s = u64::try_from(now.timestamp().as_second()).unwrap_or(0);
    let local_s = now.timestamp().as_second() + i64::from(now.offset().seconds());
    Moment { unix_s, week: WeekTime { day: day.unsigned_abs(), minute }, day: local_s.div_euclid(86_400) }
}

/// What all rules say of what was seen.
pub fn decide(seen: &Seen, rules: &RuleSettings, now: Moment) -> Verdict {
    let findings = Rule::ALL.map(|rule| {
        let said = if rules.enabled || rule == Rule::Pause {
            look(rule, seen, rules, now)
        } else {
            off("", "rules.enabled is false")
        };
        Finding { rule, standing: said.standing, seen: said.seen, limit: said.limit }
    });
    Verdict { findings: findings.to_vec() }
}

/// What one rule says, before it has its name.
struct Said {
    standing: Standing,
    seen: String,
    limit: String,
}

fn say(standing: Standing, seen: impl Into<String>, limit: impl Into<String>) -> Said {
    Said { standing, seen: seen.into(), limit: limit.into() }
}

fn off(seen: impl Into<String>, limit: impl Into<String>) -> Said {
    say(Standing::Off, seen, limit)
}

fn unknown(limit: impl Into<String>) -> Said {
    say(Standing::Unknown, "not known", limit)
}

/// By how a figure stands to a limit that it must stay below, or reach at most; `lifts` is where it is clear of it.
fn below(value: f32, limit: f32, lifts: f32) -> Standing {
    if value > limit {
        Standing::Broken
    } else if value > lifts {
        Standing::Near
    } else {
        Standing::Fine
    }
}

fn broken_if(is_broken: bool) -> Standing {
    if is_broken { Standing::Broken } else { Standing::Fine }
}

fn look(rule: Rule, seen: &Seen, rules: &RuleSettings, now: Moment) -> Said {
    match rule {
        Rule::Pause => pause(seen.pause, now),
        Rule::Battery => battery(seen.conditions.power, rules),
        Rule::BatteryLow => battery_low(seen.conditions.power, rules),
        Rule::Temperature => temperature(&seen.conditions, rules),
        Rule::OthersCpu => others_cpu(seen.conditions.others_cpu_percent, rules),
        Rule::RamIdle => ram_idle(seen, rules),
        Rule::RamBusy => ram_busy(seen, rules),
        Rule::ExclusiveApps => exclusive_apps(&seen.conditions.exclusive, rules),
        Rule::Metered => metered(seen.conditions.metered, rules),
        Rule::Schedule => schedule(rules, now),
        Rule::Transfer => transfer(seen.transferred_bytes, rules),
    }
}

fn pause(pause: Pause, now: Moment) -> Said {
    let limit = "`idlewild resume` ends it";
    match pause.left_s(now.unix_s) {
        None => off("not paused", limit),
        Some(Left::UntilResumed) => say(Standing::Broken, "paused by its owner", limit),
        Some(Left::Seconds(left)) => say(Standing::Broken, format!("paused by its owner for another {left} s"), limit),
    }
}

fn battery(power: Option<Power>, rules: &RuleSettings) -> Said {
    let limit = if rules.on_battery { "may run on battery" } else { "only on mains" };
    match power {
        None => unknown(limit),
        Some(Power::Mains) if rules.on_battery => off("on mains", limit),
        Some(Power::Mains) => say(Standing::Fine, "on mains", limit),
        Some(Power::Battery { .. }) if rules.on_battery => off("on battery", limit),
        Some(Power::Battery { .. }) => say(Standing::Broken, "on battery", limit),
    }
}

fn battery_low(power: Option<Power>, rules: &RuleSettings) -> Said {
    let least = rules.battery_percent_min;
    let limit = format!("at least {least} % on battery");
    match power {
        Some(Power::Mains) => off("on mains", limit),
        Some(Power::Battery { percent: Some(percent) }) => {
            // One that sits at its limit is not lifted by a point of noise: the mirror image of a figure from above.
            let clear = (least as f32 + MARGIN_PERCENT).min(100.0);
            let standing = below(-f32::from(percent), -(least as f32), -clear);
            say(standing, format!("battery at {percent} %"), limit)
        }
        Some(Power::Battery { percent: None }) | None => unknown(limit),
    }
}

fn temperature(conditions: &Conditions, rules: &RuleSettings) -> Said {
    let set = Some(rules.temperature_max_c).filter(|max| *max > 0).map(|max| max as f32);
    let own = |danger: f32| danger - BELOW_DANGER_C;
    let Some(heat) = &conditions.heat else {
        return unknown(set.map_or_else(|| "what its sensors allow".to_owned(), |max| format!("below {max:.0} °C")));
    };
    let seen = format!("{:.0} °C at {}", heat.celsius, if heat.zone.is_empty() { "a sensor" } else { &heat.zone });
    match set.or_else(|| heat.danger_celsius.map(own)) {
        None => off(seen, "its sensors name none"),
        Some(max) => {
            // From the limit on, the limit included.
            let standing = below(heat.celsius, max.next_down(), max - COOLER_C);
            say(standing, seen, format!("below {max:.0} °C"))
        }
    }
}

fn others_cpu(percent: Option<f32>, rules: &RuleSettings) -> Said {
    let max = rules.others_cpu_percent_max as f32;
    let limit = format!("at most {max:.0} % of all cores");
    match percent {
        None if max < 100.0 => unknown(limit),
        None => off("not known", limit),
        Some(percent) => {
            let seen = format!("other programs use {percent:.0} % of all cores");
            if max >= 100.0 { off(seen, limit) } else { say(below(percent, max, max * CALMER), seen, limit) }
        }
    }
}

fn ram_idle(seen: &Seen, rules: &RuleSettings) -> Said {
    let max = rules.ram_idle_percent as f32;
    let limit = format!("at most {max:.0} % while the owner is away");
    let Some(memory) = seen.conditions.memory else { return unknown(limit) };
    let percent = memory.percent(memory.used());
    let said = format!("{percent:.0} % of {} MB of memory in use", memory.total / MB);
    if max >= 100.0 || seen.is_owner_there {
        return off(said, limit);
    }
    say(below(percent, max, max - MARGIN_PERCENT), said, limit)
}

fn ram_busy(seen: &Seen, rules: &RuleSettings) -> Said {
    let max = rules.ram_busy_percent as f32;
    let limit = format!("at most {max:.0} % while the owner is there");
    let Some(memory) = seen.conditions.memory else { return unknown(limit) };
    let percent = memory.percent(memory.own);
    let said = format!("idlewild holds {percent:.0} % of {} MB of memory", memory.total / MB);
    if max >= 100.0 || !seen.is_owner_there {
        return off(said, limit);
    }
    say(below(percent, max, max), said, limit)
}

fn exclusive_apps(running: &[String], rules: &RuleSettings) -> Said {
    if rules.exclusive_apps.is_empty() {
        return off("", "none are named");
    }
    let limit = format!("none of {}", rules.exclusive_apps.join(", "));
    // What was looked for at the last look need not be what is looked for now.
    let running: Vec<&str> =
        running.iter().filter(|name| rules.exclusive_apps.contains(name)).map(String::as_str).collect();
    let seen = if running.is_empty() { "none runs".to_owned() } else { format!("{} runs", running.join(", ")) };
    say(broken_if(!running.is_empty()), seen, limit)
}

fn metered(is_metered: Option<bool>, rules: &RuleSettings) -> Said {
    let limit = if rules.metered { "may be metered" } else { "not metered" };
    let seen = match is_metered {
        None if rules.metered => return off("not known", limit),
        None => return unknown(limit),
        Some(true) => "the network is metered",
        Some(false) => "the network is not metered",
    };
    if rules.metered { off(seen, limit) } else { say(broken_if(is_metered == Some(true)), seen, limit) }
}

fn schedule(rules: &RuleSettings, now: Moment) -> Said {
    let seen = format!("it is {}", now.week);
    // Settings are checked before they come here; a line that is none after all permits nothing it should not.
    let Ok(schedule) = Schedule::parse(&rules.schedule) else { return unknown("") };
    if schedule.is_always() {
        return off(seen, "at any time");
    }
    say(broken_if(!schedule.permits(now.week)), seen, rules.schedule.join("; "))
}

fn transfer(bytes: u64, rules: &RuleSettings) -> Said {
    let max = u64::from(rules.transfer_mb_per_day);
    let seen = format!("{} MB exchanged today", bytes / MB);
    if max == 0 {
        return off(seen, "any number");
    }
    say(broken_if(bytes >= max.saturating_mul(MB)), seen, format!("less than {max} MB a day"))
}
