//! `idlewild hazard import`: what somebody else saw of this machine's owner before.

use std::path::Path;

use idlewild_coordinator::hazard::record::{Column, Row, Table, TableError, censored_of};
use idlewild_protocol::DepartureCause;
use serde_json::json;

use super::super::client::Client;
use super::super::context::Context;
use super::super::failure::{Failure, OrExit};
use super::super::format::count;
use super::super::{Exit, Printer};
use super::args::ImportArgs;
use super::table;
use crate::api::wire::HazardReply;
use crate::store::{ImportedSession, MAX_SESSIONS, Store, cause_names, named_cause, unix_s};

/// Why a line is no session of this machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Bad {
    #[error(transparent)]
    Table(#[from] TableError),
    #[error("line {0}: it ends before it begins, or as it begins")]
    Backwards(usize),
    #[error("line {0}: it begins before 1970; start_s and end_s are seconds since 1970")]
    TooEarly(usize),
    #[error("line {0}: it ends in the future; start_s and end_s are seconds since 1970")]
    Future(usize),
    #[error("line {0}: it begins before the session of line {1} does; sort the table by start_s")]
    Unsorted(usize, usize),
    #[error("line {0}: it overlaps the session of line {1}")]
    Overlap(usize, usize),
    #[error("line {0}: its beginning was not seen (censored 2 or 3), so that it has no length; leave it out")]
    NoBeginning(usize),
    #[error("line {0}: {1:?} is no cause")]
    Cause(usize, String),
    #[error("line {0}: host {1:?} is another machine than {2:?}; import the sessions of this machine alone")]
    OtherHost(usize, String, String),
    #[error("it holds no session")]
    Empty,
    #[error("it holds more than {} sessions, which is as many as are kept", MAX_SESSIONS)]
    TooMany,
}

pub(super) async fn import(context: &Context, printer: &mut Printer, args: &ImportArgs) -> Result<Exit, Failure> {
    let text = table::read(&args.file)?;
    let sessions = parse(&text, unix_s()).map_err(|bad| refused(&args.file, &bad))?;
    context.create_directories()?;
    let store = Store::open(&context.paths.database_file()).or_exit(Exit::State)?;
    let imported = store.import_sessions(sessions).await.or_exit(Exit::Failed)?;
    let imported = imported.map_err(|why| Failure::words(Exit::Usage, format!("{}: {why}", args.file.display())))?;
    store.flush().await.or_exit(Exit::Failed)?;
    tell_agent(context, printer).await;
    if args.json {
        printer.json(&json!({ "imported": imported }))?;
    } else {
        printer.line(format!("imported {}", count(imported, "session")))?;
    }
    Ok(Exit::Fine)
}

/// Has a running agent learn from them now.
async fn tell_agent(context: &Context, printer: &mut Printer) {
    let Ok(client) = Client::new(&context.paths) else { return };
    match client.post::<HazardReply>("/idlewild/v1/hazard", &json!({})).await {
        Ok(_) => {}
        Err(failure) if failure.exit() == Exit::NoAgent => {}
        Err(_) => printer.note("the running agent could not be told; it learns from them at its next start"),
    }
}

fn refused(file: &Path, bad: &Bad) -> Failure {
    let failure = Failure::words(Exit::Usage, format!("{}: {bad}; nothing was imported", file.display()));
    if matches!(bad, Bad::Cause(..)) {
        failure.hint(format!("causes are {}", cause_names().collect::<Vec<_>>().join(", ")))
    } else if matches!(bad, Bad::Table(TableError::NoColumn(_))) {
        failure.hint("a table to import begins with: start_s,end_s,cause")
    } else {
        failure
    }
}

/// The columns of a table of one machine's sessions.
struct Columns {
    start: Column,
    end: Column,
    cause: Option<Column>,
    censored: Option<Column>,
    host: Option<Column>,
}

/// The sessions of a table, which must be in order, all of one machine, and over by `now_s`.
fn parse(text: &str, now_s: u64) -> Result<Vec<ImportedSession>, Bad> {
    let table = Table::new(text);
    let columns = Columns {
        start: table.need("start_s")?,
        end: table.need("end_s")?,
        cause: table.find("cause"),
        censored: table.find("censored"),
        host: table.find("host"),
    };
    let mut sessions: Vec<ImportedSession> = Vec::new();
    let mut host: Option<&str> = None;
    for row in table.rows()? {
        if sessions.len() >= MAX_SESSIONS as usize {
            return Err(Bad::TooMany);
        }
        if let Some(name) = columns.host.and_then(|column| row.text(column)) {
            let first = *host.get_or_insert(name);
            if first != name {
                return Err(Bad::OtherHost(row.line, name.to_owned(), first.to_owned()));
            }
        }
        let session = session(&row, &columns, now_s)?;
        if let Some(before) = sessions.last() {
            follows(before, &session)?;
        }
        sessions.push(session);
    }
    if sessions.is_empty() { Err(Bad::Empty) } else { Ok(sessions) }
}

fn session(row: &Row<'_>, columns: &Columns, now_s: u64) -> Result<ImportedSession, Bad> {
    let (start_s, end_s) = (row.number(columns.start)?, row.number(columns.end)?);
    if start_s < 0.0 {
        return Err(Bad::TooEarly(row.line));
    }
    if end_s <= start_s {
        return Err(Bad::Backwards(row.line));
    }
    if end_s > now_s as f64 {
        return Err(Bad::Future(row.line));
    }
    let unseen = censored_of(row, columns.censored)?;
    if unseen & 2 != 0 {
        return Err(Bad::NoBeginning(row.line));
    }
    let cause = match columns.cause.and_then(|column| row.text(column)) {
        Some(name) => named_cause(name).ok_or_else(|| Bad::Cause(row.line, name.to_owned()))?,
        None => DepartureCause::Unknown,
    };
    let started_ms = (start_s * 1000.0).round() as u64;
    let length_ms = ((end_s - start_s) * 1000.0).round() as u64;
    Ok(ImportedSession { line: row.line, started_ms, length_ms, cause: (unseen == 0).then_some(cause) })
}

fn follows(before: &ImportedSession, session: &ImportedSession) -> Result<(), Bad> {
    if session.started_ms < before.started_ms {
        return Err(Bad::Unsorted(session.line, before.line));
    }
    // Rounding may have moved an end by half a millisecond.
    if session.started_ms + 1 < before.started_ms + before.length_ms {
        return Err(Bad::Overlap(session.line, before.line));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_this_machine_s_sessions_is_read() {
        let text = "host,start_s,end_s,censored,cause,mood\nme,10,20.5,0,sleep,good\nme,20.5,40,1,,\n,50,60,,,bad\n";
        let sessions = parse(text, 60).unwrap();
        let seen: Vec<_> = sessions.iter().map(|s| (s.line, s.started_ms, s.length_ms, s.cause)).collect();
        let (sleep, unknown) = (Some(DepartureCause::Sleep), Some(DepartureCause::Unknown));
        assert_eq!(seen, [(2, 10_000, 10_500, sleep), (3, 20_500, 19_500, None), (4, 50_000, 10_000, unknown)]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (rows, expected) in [
            ("10,20\n30,25", "line 3: it ends before it begins"),
            ("10,20\n30,30", "line 3: it ends before it begins"),
            ("10,20\n-5,25", "line 3: it begins before 1970"),
            ("10,20\n30,2000", "line 3: it ends in the future"),
            ("30,40\n10,20", "line 3: it begins before the session of line 2 does"),
            ("10,20\n15,25", "line 3: it overlaps the session of line 2"),
            ("10,20\nnan,25", "line 3: start_s is not a number"),
            ("10,20\n30,1e999", "line 3: end_s is not a number"),
            ("10,20\n30", "line 3: it has not as many fields as line 1"),
            ("10,20\n30,", "line 3: end_s is empty"),
            ("", "it holds no session"),
        ] {
            let bad = parse(&format!("start_s,end_s\n{rows}\n"), 1000).unwrap_err().to_string();
            assert!(bad.starts_with(expected), "{rows:?}: {bad:?}");
        }
        let with = |columns: &str, row: &str| parse(&format!("{columns}\n{row}\n"), 1000).unwrap_err().to_string();
        assert!(with("start_s", "1").contains("does not name the column end_s"));
        assert!(with("start_s,end_s,cause", "1,2,boredom").contains("\"boredom\" is no cause"));
        assert!(with("start_s,end_s,censored", "1,2,2").contains("beginning was not seen"));
        assert!(with("start_s,end_s,host", "1,2,a\n3,4,b").contains("host \"b\" is another machine than \"a\""));
    }
}
