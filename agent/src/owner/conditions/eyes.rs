//! All readers, each as often as what it reads is worth.

use super::addresses::has_address;
use super::memory::memory;
use super::power::power;
use super::processor::Processor;
use super::programs::running;
use super::thermal::Thermal;
use super::{Conditions, Roots};

/// What is slow to read, or slow to change, is read at every third look: each 6 s.
const SLOW_EVERY: u32 = 3;

/// The readers, with what they remember.
#[derive(Debug)]
pub struct Eyes {
    roots: Roots,
    pid: u32,
    looks: u32,
    thermal: Thermal,
    processor: Processor,
    seen: Conditions,
}

impl Eyes {
    /// Of the process `pid` and its children, on the machine that `roots` shows.
    pub fn new(roots: Roots, pid: u32) -> Self {
        let (thermal, processor) = (Thermal::default(), Processor::new(pid));
        Self { roots, pid, looks: 0, thermal, processor, seen: Conditions::default() }
    }

    /// Looks; blocks for the kernel's answers (firmware may take some milliseconds). To be called every 2 s. `exclusive`
    /// names programs to look for.
    pub fn look(&mut self, exclusive: &[String]) -> Conditions {
        self.seen.power = power(&self.roots);
        self.seen.memory = memory(&self.roots, self.pid);
        self.seen.has_address = has_address();
        if self.looks.is_multiple_of(SLOW_EVERY) {
            self.seen.heat = self.thermal.look(&self.roots);
            self.seen.others_cpu_percent = self.processor.look(&self.roots);
            self.seen.exclusive = running(&self.roots, exclusive);
        }
        self.looks = self.looks.wrapping_add(1);
        self.seen.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Power;
    use super::super::roots::tree;
    use super::*;

    #[test]
    fn a_battery_shows_at_the_next_look_and_a_machine_that_shows_nothing_is_not_known() {
        let (dir, roots) = tree(&[("sys/class/power_supply/BAT0/type", "Battery"), ("proc/1/comm", "game")]);
        let mut eyes = Eyes::new(roots, 7);
        let first = eyes.look(&["game".to_owned()]);
        assert_eq!((first.power, first.memory, first.others_cpu_percent), (None, None, None));
        assert_eq!((first.heat, first.exclusive), (None, vec!["game".to_owned()]));
        std::fs::write(dir.path().join("sys/class/power_supply/BAT0/status"), "Discharging\n").unwrap();
        assert_eq!(eyes.look(&[]).power, Some(Power::Battery { percent: None }));
        std::fs::remove_dir_all(dir.path().join("sys")).unwrap();
        assert_eq!(eyes.look(&[]).power, Some(Power::Mains), "a battery that vanished is no error");
    }
}
