//! What `idlewild doctor` shows of the system around the agent: whose word it hears, what its rules cannot see, and of which
//! programs the engine comes last.

use serde::{Deserialize, Serialize};

use super::Sees;
use crate::owner::conditions::Courtesy;
use crate::owner::notice::{Contact, Reach};
use crate::owner::rules::Rule;

/// One thing of the system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemReply {
    /// Which: a service, a rule's key, or `processor`.
    pub what: String,
    /// Whether it is heard or seen; of the processor, whether the engine comes after all other programs.
    pub sees: Sees,
    /// What follows, in words.
    pub says: String,
}

impl SystemReply {
    /// All of it. `unseen` are the rules in force that cannot be told here; whether the engine `yields_to_all` the settings say.
    pub fn rows(reach: &Reach, unseen: &[Rule], courtesy: &Courtesy, yields_to_all: bool) -> Vec<Self> {
        let services = [
            service("logind", &reach.logind, "peers are not told before this machine sleeps or shuts down"),
            service("NetworkManager", &reach.network, "no network counts as metered"),
        ];
        // Why that one is not known stands with the service.
        let unseen = unseen.iter().filter(|rule| **rule != Rule::Metered).map(|rule| Self {
            what: rule.key().to_owned(),
            sees: Sees::Nothing,
            says: "nothing shows it here: it forbids nothing".to_owned(),
        });
        services.into_iter().chain(unseen).chain([processor(courtesy, yields_to_all)]).collect()
    }
}

fn service(name: &str, contact: &Contact, without: &str) -> SystemReply {
    let (sees, says) = match contact {
        Contact::Heard(said) => (Sees::Yes, said.clone()),
        Contact::Absent(why) => (Sees::Nothing, format!("{why}: {without}")),
        Contact::Silent(why) => (Sees::Blind, format!("{why}: {without}")),
    };
    SystemReply { what: name.to_owned(), sees, says }
}

fn processor(courtesy: &Courtesy, yields_to_all: bool) -> SystemReply {
    let (sees, says) = match courtesy {
        Courtesy::Last => (Sees::Yes, "the engine runs when no other program wants to".to_owned()),
        Courtesy::BySession if !yields_to_all => {
            (Sees::Yes, "the engine's session has its share beside others (engine.yield_to_all is false)".to_owned())
        }
        Courtesy::BySession => {
            (Sees::Yes, "the engine's session has a seventieth of the weight of another program's".to_owned())
        }
        Courtesy::IdleGroup(group) => {
            (Sees::Yes, format!("control group {group} is idle: the engine runs when no program outside it wants to"))
        }
        Courtesy::ByWeight { group, weight } => (
            Sees::Blind,
            format!(
                "inside control group {group} the engine comes last; with programs outside it that group shares by its \
                 weight of {weight}"
            ),
        ),
    };
    SystemReply { what: "processor".to_owned(), sees, says }
}

/// What to do where the engine does not come last.
pub(super) fn advice(rows: &[SystemReply]) -> Option<String> {
    let is_last = rows.iter().all(|row| row.what != "processor" || row.sees == Sees::Yes);
    (!is_last).then(|| {
        "to put the agent after the programs beside it, give its service or scope CPUWeight=idle: `systemd-run --user \
         --scope -p CPUWeight=idle idlewild up`"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_says_what_follows_for_this_machine() {
        let reach = Reach {
            logind: Contact::Heard("says before".to_owned()),
            network: Contact::Absent("it is not on the system bus".to_owned()),
        };
        let rows = SystemReply::rows(&reach, &[Rule::Temperature, Rule::Metered], &Courtesy::BySession, true);
        let shown: Vec<(&str, Sees)> = rows.iter().map(|row| (row.what.as_str(), row.sees)).collect();
        let expected = [
            ("logind", Sees::Yes),
            ("NetworkManager", Sees::Nothing),
            ("rules.temperature_max_c", Sees::Nothing),
            ("processor", Sees::Yes),
        ];
        assert_eq!(shown, expected);
        assert_eq!(rows[1].says, "it is not on the system bus: no network counts as metered");
        assert_eq!(advice(&rows), None);
        let deaf = Reach { logind: Contact::Silent("x".to_owned()), network: Contact::Silent("x".to_owned()) };
        let shared = Courtesy::ByWeight { group: "/user.slice".to_owned(), weight: 100 };
        let rows = SystemReply::rows(&deaf, &[], &shared, true);
        assert!(
            rows[0].says.starts_with("x: peers are not told") && rows[2].says.contains("weight of 100"),
            "{rows:?}"
        );
        let asked = SystemReply::rows(&deaf, &[], &Courtesy::BySession, false);
        assert!(asked[2].says.contains("engine.yield_to_all") && advice(&asked).is_none(), "{asked:?}");
        assert!(advice(&rows).is_some_and(|words| words.contains("CPUWeight=idle")));
    }
}
