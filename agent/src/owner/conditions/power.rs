//! What feeds the machine: every supply counts, not only the mains.
//!
//! A weak charger is online while the battery is being emptied: that is battery. A machine without a battery is on mains. The
//! battery of a mouse (`scope` is `Device`) is nobody's supply.

use std::path::Path;

use super::roots::{Roots, entries, number, text};

/// What feeds the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// The mains, or a battery that is not being emptied.
    Mains,
    /// A battery.
    Battery {
        /// Mean charge of the batteries, in percent.
        percent: Option<u8>,
    },
}

/// One supply.
#[derive(Debug)]
struct Supply {
    /// Of the machine, and emptied when it is on battery (an uninterruptible supply too).
    is_battery: bool,
    is_discharging: bool,
    /// Its status says something.
    is_known: bool,
    is_online: Option<bool>,
    percent: Option<u8>,
}

/// What feeds the machine; none where its batteries say nothing of use and no charger does either.
pub(super) fn power(roots: &Roots) -> Option<Power> {
    let supplies: Vec<Supply> =
        entries(&roots.sys("class/power_supply")).iter().filter_map(|path| read(path)).collect();
    judge(&supplies)
}

fn read(path: &Path) -> Option<Supply> {
    if text(&path.join("scope")).as_deref() == Some("Device") {
        return None;
    }
    // One that was pulled a moment ago has no type any more.
    let kind = text(&path.join("type"))?;
    let status = text(&path.join("status")).unwrap_or_default();
    Some(Supply {
        is_battery: matches!(kind.as_str(), "Battery" | "UPS"),
        is_discharging: status == "Discharging",
        is_known: matches!(status.as_str(), "Discharging" | "Charging" | "Full" | "Not charging"),
        is_online: number::<u8>(&path.join("online")).map(|online| online > 0),
        percent: number::<u8>(&path.join("capacity")).map(|percent| percent.min(100)),
    })
}

fn judge(supplies: &[Supply]) -> Option<Power> {
    let batteries: Vec<&Supply> = supplies.iter().filter(|supply| supply.is_battery).collect();
    if batteries.is_empty() {
        return Some(Power::Mains);
    }
    let percents: Vec<u32> = batteries.iter().filter_map(|battery| battery.percent.map(u32::from)).collect();
    let count = u32::try_from(percents.len()).unwrap_or(u32::MAX);
    let mean = percents.iter().sum::<u32>().checked_div(count).map(|percent| percent as u8);
    if batteries.iter().any(|battery| battery.is_discharging) {
        return Some(Power::Battery { percent: mean });
    }
    if batteries.iter().any(|battery| battery.is_known) {
        return Some(Power::Mains);
    }
    // Batteries that do not say what they do: the chargers may.
    let mut chargers =
        supplies.iter().filter(|supply| !supply.is_battery).filter_map(|supply| supply.is_online).peekable();
    chargers.peek()?;
    Some(if chargers.any(|is_online| is_online) { Power::Mains } else { Power::Battery { percent: mean } })
}

#[cfg(test)]
mod tests {
    use super::super::roots::tree;
    use super::*;

    fn check(supplies: &[(&str, &str)], expected: Option<Power>) {
        let files: Vec<(String, &str)> =
            supplies.iter().map(|(path, text)| (format!("sys/class/power_supply/{path}"), *text)).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let (_dir, roots) = tree(&files);
        assert_eq!(power(&roots), expected, "{supplies:?}");
    }

    #[test]
    fn every_supply_has_its_say() {
        let mains = Some(Power::Mains);
        let battery = |percent| Some(Power::Battery { percent });
        check(&[], mains);
        check(&[("AC/type", "Mains\n"), ("AC/online", "1\n")], mains);
        check(&[("AC/type", "Mains"), ("AC/online", "0")], mains);
        check(
            &[("BAT0/type", "Battery\n"), ("BAT0/status", "Discharging\n"), ("BAT0/capacity", "80\n")],
            battery(Some(80)),
        );
        check(&[("BAT0/type", "Battery"), ("BAT0/status", "Charging")], mains);
        check(&[("BAT0/type", "Battery"), ("BAT0/status", "Not charging")], mains);
        // The charger is in, and cannot keep up.
        check(
            &[("AC/type", "Mains"), ("AC/online", "1"), ("BAT0/type", "Battery"), ("BAT0/status", "Discharging")],
            battery(None),
        );
        // Two batteries, one after the other.
        check(
            &[
                ("BAT0/type", "Battery"),
                ("BAT0/status", "Unknown"),
                ("BAT0/capacity", "10"),
                ("BAT1/type", "Battery"),
                ("BAT1/status", "Discharging"),
                ("BAT1/capacity", "50"),
            ],
            battery(Some(30)),
        );
        // What is fed by a cable of another kind.
        check(&[("usb/type", "USB"), ("usb/online", "1"), ("BAT0/type", "Battery"), ("BAT0/status", "Unknown")], mains);
        check(
            &[("AC/type", "Mains"), ("AC/online", "0"), ("BAT0/type", "Battery"), ("BAT0/status", "Unknown")],
            battery(None),
        );
        check(&[("BAT0/type", "Battery"), ("BAT0/status", "Unknown")], None);
        check(&[("ups/type", "UPS"), ("ups/status", "Discharging")], battery(None));
        check(&[("mouse/type", "Battery"), ("mouse/scope", "Device"), ("mouse/status", "Discharging")], mains);
        // It vanishes while it is read: no type.
        check(&[("BAT0/status", "Discharging")], mains);
    }
}
