//! What a look at the rules says.

use idlewild_protocol::DepartureCause;

/// A rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// The owner has said so: `idlewild pause` or `snooze`.
    Pause,
    /// On battery.
    Battery,
    /// On battery, and it is nearly empty.
    BatteryLow,
    /// Too hot.
    Temperature,
    /// Other programs use the processor.
    OthersCpu,
    /// The memory is full, and nobody is there.
    RamIdle,
    /// Our part of the memory is large, and the owner is there.
    RamBusy,
    /// A program runs that wants the machine for itself.
    ExclusiveApps,
    /// What is sent costs money.
    Metered,
    /// It is not the time.
    Schedule,
    /// Enough was sent and received today.
    Transfer,
}

impl Rule {
    /// All of them, in the order in which people see them.
    pub const ALL: [Self; 11] = [
        Self::Pause,
        Self::Battery,
        Self::BatteryLow,
        Self::Temperature,
        Self::OthersCpu,
        Self::RamIdle,
        Self::RamBusy,
        Self::ExclusiveApps,
        Self::Metered,
        Self::Schedule,
        Self::Transfer,
    ];

    /// The key of `config.toml` that sets it; of the pause, the command.
    pub fn key(self) -> &'static str {
        match self {
            Self::Pause => "idlewild pause",
            Self::Battery => "rules.on_battery",
            Self::BatteryLow => "rules.battery_percent_min",
            Self::Temperature => "rules.temperature_max_c",
            Self::OthersCpu => "rules.others_cpu_percent_max",
            Self::RamIdle => "rules.ram_idle_percent",
            Self::RamBusy => "rules.ram_busy_percent",
            Self::ExclusiveApps => "rules.exclusive_apps",
            Self::Metered => "rules.metered",
            Self::Schedule => "rules.schedule",
            Self::Transfer => "rules.transfer_mb_per_day",
        }
    }

    /// What a session ends of that it ends.
    pub fn cause(self) -> DepartureCause {
        match self {
            Self::Battery | Self::BatteryLow => DepartureCause::Battery,
            Self::Pause
            | Self::Temperature
            | Self::OthersCpu
            | Self::RamIdle
            | Self::RamBusy
            | Self::ExclusiveApps
            | Self::Metered
            | Self::Schedule
            | Self::Transfer => DepartureCause::Rule,
        }
    }

    /// Whether it wants the memory at once: the grace, for which contexts are kept for others, does not count then.
    pub fn wants_memory_at_once(self) -> bool {
        matches!(self, Self::RamIdle | Self::RamBusy)
    }

    /// Whether it lifts the moment that it no longer holds: the owner's own word is not held back.
    pub fn lifts_at_once(self) -> bool {
        self == Self::Pause
    }
}

/// How a rule stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is not in force, or does not apply now.
    Off,
    /// What it is about cannot be seen: it forbids nothing.
    Unknown,
    /// It permits.
    Fine,
    /// It permits, but too narrowly to lift a suspension of its own.
    Near,
    /// It forbids.
    Broken,
}

/// What one rule says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which.
    pub rule: Rule,
    /// How it stands.
    pub standing: Standing,
    /// What was seen, in words.
    pub seen: String,
    /// What may be, in words.
    pub limit: String,
}

impl Finding {
    /// Why it forbids, in words, with its key.
    pub fn reason(&self) -> String {
        format!("{} ({}: {})", self.seen, self.rule.key(), self.limit)
    }
}

/// What all rules say, each once, in the order of [`Rule::ALL`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// They.
    pub findings: Vec<Finding>,
}

impl Verdict {
    /// Those that forbid.
    pub fn broken(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.standing == Standing::Broken)
    }

    /// What one rule says.
    pub fn of(&self, rule: Rule) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.rule == rule)
    }
}
