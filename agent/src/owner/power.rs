//! Whether the machine runs on mains, as far as its system tells.

use std::fs;
use std::path::Path;

/// Where Linux shows power supplies.
const SUPPLIES: &str = "/sys/class/power_supply";

/// Whether this machine runs on mains; none where nothing tells, as on most desktops.
pub fn on_ac() -> Option<bool> {
    on_ac_in(Path::new(SUPPLIES))
}

/// An adapter that is plugged in, or a battery that does not discharge, says yes; batteries of mice and the like do not
/// count.
fn on_ac_in(supplies: &Path) -> Option<bool> {
    let (mut adapter, mut battery) = (None, None);
    for entry in fs::read_dir(supplies).ok()?.flatten() {
        let read = |name: &str| fs::read_to_string(entry.path().join(name)).unwrap_or_default().trim().to_owned();
        match read("type").as_str() {
            "Mains" | "USB" => adapter = Some(adapter == Some(true) || read("online") == "1"),
            "Battery" if read("scope") != "Device" => {
                battery = Some(battery != Some(false) && read("status") != "Discharging");
            }
            _ => {}
        }
    }
    adapter.or(battery)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(supplies: &[&[(&str, &str)]], expected: Option<bool>) {
        let dir = tempfile::tempdir().unwrap();
        for (number, files) in supplies.iter().enumerate() {
            let supply = dir.path().join(format!("S{number}"));
            fs::create_dir(&supply).unwrap();
            files.iter().for_each(|(name, text)| fs::write(supply.join(name), format!("{text}\n")).unwrap());
        }
        assert_eq!(on_ac_in(dir.path()), expected, "{supplies:?}");
    }

    #[test]
    fn adapters_and_batteries_tell_and_the_batteries_of_devices_do_not() {
        check(&[], None);
        check(&[&[("type", "Mains"), ("online", "1")]], Some(true));
        check(&[&[("type", "Mains"), ("online", "0")], &[("type", "Battery"), ("status", "Discharging")]], Some(false));
        check(&[&[("type", "USB"), ("online", "0")], &[("type", "USB"), ("online", "1")]], Some(true));
        check(&[&[("type", "Battery"), ("status", "Discharging")]], Some(false));
        check(&[&[("type", "Battery"), ("status", "Full")]], Some(true));
        check(&[&[("type", "Battery"), ("scope", "Device"), ("status", "Discharging")]], None);
        assert_eq!(on_ac_in(Path::new("/nowhere")), None);
    }
}
