//! `idlewild rules`: every rule with what it sees now, and which one decides.

use super::args::JsonArgs;
use super::client::Client;
use super::context::Context;
use super::failure::Failure;
use super::format::table;
use super::{Exit, Printer};
use crate::api::wire::{RuleReply, RulesReply, StandingWord};

pub(super) async fn rules(context: &Context, printer: &mut Printer, args: JsonArgs) -> Result<Exit, Failure> {
    let client = Client::new(&context.paths)?;
    let reply: RulesReply = client.get("/idlewild/v1/rules").await?;
    if args.json {
        printer.json(&reply)?;
        return Ok(Exit::Fine);
    }
    for line in lines(&reply) {
        printer.line(line)?;
    }
    Ok(Exit::Fine)
}

fn lines(reply: &RulesReply) -> Vec<String> {
    let decides = reply.decides.as_ref().map_or_else(String::new, |key| format!(" ({key} decides)"));
    let verdict = if reply.takes_work { "takes work" } else { "takes no work" };
    let header = ["", "RULE", "NOW", "SEEN", "LIMIT"].map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> = std::iter::once(header).chain(reply.rules.iter().map(row)).collect();
    let mut lines = vec![format!("{verdict}{decides}: {}", reply.reason), String::new()];
    lines.extend(table(&rows));
    lines
}

fn row(rule: &RuleReply) -> Vec<String> {
    let mark = match (rule.decides, rule.forbids) {
        (true, _) => ">",
        (false, true) => "+",
        (false, false) => "",
    };
    let now = match rule.standing {
        StandingWord::Broken => "forbids",
        // It was broken less than 20 seconds ago, or is too near to its limit to lift.
        StandingWord::Fine | StandingWord::Near | StandingWord::Unknown if rule.forbids => "lifts soon",
        StandingWord::Fine | StandingWord::Near => "permits",
        StandingWord::Unknown => "not known",
        StandingWord::Off => "off",
    };
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    vec![mark.to_owned(), rule.key.clone(), now.to_owned(), or_dash(&rule.seen), or_dash(&rule.limit)]
}

#[cfg(test)]
mod tests {
    use idlewild_protocol::DepartureCause;

    use super::*;

    #[test]
    fn the_rule_that_decides_is_marked_and_the_others_say_what_they_see() {
        let rule = |key: &str, standing, forbids, decides| RuleReply {
            key: key.to_owned(),
            seen: "on battery".to_owned(),
            limit: String::new(),
            standing,
            forbids,
            decides,
            cause: DepartureCause::Rule,
        };
        let reply = RulesReply {
            takes_work: false,
            reason: "on battery".to_owned(),
            decides: Some("rules.on_battery".to_owned()),
            rules: vec![
                rule("rules.on_battery", StandingWord::Broken, true, true),
                rule("rules.metered", StandingWord::Fine, true, false),
                rule("rules.schedule", StandingWord::Off, false, false),
            ],
        };
        assert_eq!(
            lines(&reply),
            [
                "takes no work (rules.on_battery decides): on battery",
                "",
                "   RULE              NOW         SEEN        LIMIT",
                ">  rules.on_battery  forbids     on battery  -",
                "+  rules.metered     lifts soon  on battery  -",
                "   rules.schedule    off         on battery  -",
            ]
        );
    }
}
