//! How hot the machine is, against what its own sensors call hot.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::roots::{Roots, entries, number, text};

/// Milli-degrees that no sensor of a running machine shows: it is broken, or absent.
const SANE: std::ops::RangeInclusive<i32> = -40_000..=200_000;

/// A trip point below it (milli-degrees) is a placeholder of the firmware's: nobody computes at all below 50 degrees.
const TRIP_MIN: i32 = 50_000;

/// The sensor that is nearest to its limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Heat {
    /// What the zone is called.
    pub zone: String,
    /// Its temperature in degrees Celsius.
    pub celsius: f32,
    /// What its firmware calls hot or critical, the lower of them; none where it says nothing.
    pub danger_celsius: Option<f32>,
}

/// Reads the zones. Trip points are read once: they do not change.
#[derive(Debug, Default)]
pub(super) struct Thermal {
    trips: BTreeMap<PathBuf, Option<i32>>,
}

impl Thermal {
    /// The zone that is nearest to its danger; of those without any, the hottest.
    pub(super) fn look(&mut self, roots: &Roots) -> Option<Heat> {
        let zones = entries(&roots.sys("class/thermal"));
        let is_zone =
            |path: &&PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("thermal_zone"));
        let heats = zones.iter().filter(is_zone).filter_map(|zone| self.zone(zone));
        heats.max_by(|a, b| nearness(a).total_cmp(&nearness(b)))
    }

    fn zone(&mut self, path: &Path) -> Option<Heat> {
        let now = number::<i32>(&path.join("temp")).filter(|milli| SANE.contains(milli))?;
        let danger = *self.trips.entry(path.to_owned()).or_insert_with(|| danger(path));
        let degrees = |milli: i32| milli as f32 / 1000.0;
        let zone = text(&path.join("type")).unwrap_or_default();
        Some(Heat { zone, celsius: degrees(now), danger_celsius: danger.map(degrees) })
    }
}

/// Degrees above (or, negative, below) the danger; of a zone without any, above what chips bear.
fn nearness(heat: &Heat) -> f32 {
    heat.celsius - heat.danger_celsius.unwrap_or(100.0)
}

/// The lowest trip point that is `hot` or `critical`, in milli-degrees. `passive` and `active` ones start fans and lower
/// clocks, which is the machine's own way to go on.
fn danger(zone: &Path) -> Option<i32> {
    let trip = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?;
        let stem = name.strip_suffix("_type").filter(|stem| stem.starts_with("trip_point_"))?;
        let is_danger = matches!(text(path)?.as_str(), "hot" | "critical");
        let at = number::<i32>(&zone.join(format!("{stem}_temp")))?;
        (is_danger && at >= TRIP_MIN && SANE.contains(&at)).then_some(at)
    };
    entries(zone).iter().filter_map(trip).min()
}

#[cfg(test)]
mod tests {
    use super::super::roots::tree;
    use super::*;

    #[test]
    fn the_zone_nearest_to_its_danger_is_told() {
        let zone = |n: u8, file: &str| format!("sys/class/thermal/thermal_zone{n}/{file}");
        let files = [
            (zone(0, "type"), "acpitz"),
            (zone(0, "temp"), "62000"),
            (zone(0, "trip_point_0_type"), "critical"),
            (zone(0, "trip_point_0_temp"), "20800"),
            (zone(1, "type"), "x86_pkg_temp"),
            (zone(1, "temp"), "81500"),
            (zone(1, "trip_point_0_type"), "passive"),
            (zone(1, "trip_point_0_temp"), "60000"),
            (zone(1, "trip_point_1_type"), "critical"),
            (zone(1, "trip_point_1_temp"), "105000"),
            (zone(1, "trip_point_2_type"), "hot"),
            (zone(1, "trip_point_2_temp"), "95000"),
            (zone(2, "temp"), "-273000"),
            (zone(3, "temp"), ""),
            ("sys/class/thermal/cooling_device0/temp".to_owned(), "150000"),
        ];
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let (dir, roots) = tree(&files);
        let mut thermal = Thermal::default();
        let package = |celsius| Heat { zone: "x86_pkg_temp".to_owned(), celsius, danger_celsius: Some(95.0) };
        assert_eq!(thermal.look(&roots), Some(package(81.5)));
        std::fs::write(dir.path().join(zone(1, "temp")), "20000\n").unwrap();
        let other = thermal.look(&roots).unwrap();
        assert_eq!((other.zone.as_str(), other.danger_celsius), ("acpitz", None), "a placeholder is no danger");
        assert_eq!(Thermal::default().look(&tree(&[]).1), None);
    }
}
