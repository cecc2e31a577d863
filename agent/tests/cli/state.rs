//! Files that are not as they should be: refused before anything is started, changed or lost.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rusqlite::OpenFlags;

use crate::exit;
use crate::home::{Home, until};

/// A home that has been used once, so that all its files exist.
fn used() -> Home {
    let home = Home::new();
    let agent = home.up(&[]);
    home.run(&["down"]).check(exit::FINE, &["the agent has stopped"]);
    assert_eq!(agent.wait(), 0, "an agent that is told to stop has not failed");
    assert!(!home.path("home/state/agent.json").exists());
    home
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn secrets_and_directories_are_private() {
    let home = used();
    for dir in ["home/config", "home/state", "home/data", "home/cache"] {
        assert_eq!(fs::metadata(home.path(dir)).unwrap().permissions().mode() & 0o777, 0o700, "{dir}");
    }
    for file in ["data/identity.json", "data/membership.json", "data/idlewild.db", "state/api-key"] {
        let path = home.path(&format!("home/{file}"));
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600, "{file}");
    }
}

#[test]
fn a_secret_that_others_can_read_stops_the_start() {
    let home = used();
    for file in ["data/identity.json", "data/membership.json", "state/api-key"] {
        let path = home.path(&format!("home/{file}"));
        chmod(&path, 0o644);
        home.refused(&[]).check(exit::STATE, &[path.to_str().unwrap(), "other users", "chmod 600"]);
        chmod(&path, 0o600);
    }
}

#[test]
fn an_empty_or_damaged_secret_stops_the_start_and_is_left_alone() {
    let home = used();
    for (file, advice) in [
        ("data/identity.json", "identity reset"),
        ("data/membership.json", "join the swarm again"),
        ("state/api-key", "remove the file"),
    ] {
        let path = home.path(&format!("home/{file}"));
        let good = fs::read_to_string(&path).unwrap();
        for (text, says) in [("", "is empty"), ("{ nonsense", "is damaged")] {
            fs::write(&path, text).unwrap();
            home.refused(&[]).check(exit::STATE, &[path.to_str().unwrap(), says, "hint: ", advice]);
            assert_eq!(fs::read_to_string(&path).unwrap(), text, "{file} was changed");
        }
        fs::write(&path, good).unwrap();
    }
    drop(home.up(&[]));
}

#[test]
fn a_damaged_database_stops_the_start_and_says_what_is_lost_without_it() {
    let home = used();
    let path = home.path("home/data/idlewild.db");
    for companion in ["home/data/idlewild.db-wal", "home/data/idlewild.db-shm"] {
        let _ = fs::remove_file(home.path(companion));
    }
    fs::write(&path, "not a database at all, but a text that is long enough".repeat(100)).unwrap();
    home.refused(&[]).check(exit::STATE, &["damaged", "hint: move it away"]);
}

#[test]
fn two_agents_never_share_a_data_directory() {
    let home = Home::new();
    let _agent = home.up(&[]);
    home.refused(&[]).check(exit::STATE, &["another idlewild process (pid ", "hint: stop it first"]);
    home.run(&["identity", "reset"]).check(exit::STATE, &["another idlewild process"]);
    home.run_with(&["join"], "x").check(exit::USAGE, &["not a ticket"]);
}

#[test]
fn a_copied_data_directory_is_refused_until_its_user_decides() {
    let (home, copy) = (used(), Home::new());
    let copied = std::process::Command::new("cp").arg("-a").arg(home.path("home")).arg(copy.path("")).status();
    assert!(copied.unwrap().success());
    copy.refused(&[]).check(exit::STATE, &["does not belong here", "identity reset", "identity keep"]);
    let original = home.run(&["identity", "show", "--json"]).json();
    let reset = copy.run(&["identity", "reset"]);
    reset.check(exit::FINE, &["a new identity", "hint: "]);
    assert_ne!(reset.out.trim(), original["peer"].as_str().unwrap());
    assert!(copy.path("home/data/identity.json.old").exists());
    drop(copy.up(&[]));
    drop(home.up(&[]));
}

#[test]
fn a_moved_data_directory_is_kept_on_request() {
    let (home, place) = (used(), Home::new());
    let before = home.run(&["identity", "show", "--json"]).json();
    let copied = std::process::Command::new("cp").arg("-a").arg(home.path("home")).arg(place.path("")).status();
    assert!(copied.unwrap().success());
    let kept = place.run(&["identity", "keep"]);
    kept.check(exit::FINE, &[]);
    assert_eq!(kept.out.trim(), before["peer"].as_str().unwrap());
    assert_eq!(place.run(&["identity", "show", "--json"]).json(), before);
}

#[test]
fn a_port_in_use_names_the_setting_that_moves_it() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let home = Home::new();
    let ended = home.refused(&["--set", &format!("api.port={port}")]);
    ended.check(exit::USAGE, &["in use", "api.port"]);
    let ended = home.refused(&["--set", &format!("swarm.port={port}")]);
    ended.check(exit::USAGE, &["in use", "swarm.port (--port)"]);
    assert!(!ended.err.contains("started"), "{}", ended.err);
    let ended = home.refused(&["--listen", "192.0.2.1"]);
    ended.check(exit::USAGE, &["192.0.2.1", "--listen"]);
}

/// Permissions hold for everybody but root, as which tests may run: a name that leads to itself is unreadable for all.
#[test]
fn files_that_cannot_be_read_are_not_taken_for_an_agent_that_is_not_running() {
    let home = Home::new();
    fs::create_dir_all(home.path("home/state")).unwrap();
    fs::create_dir_all(home.path("home/config")).unwrap();
    for (file, command) in [("home/state/agent.json", "status"), ("home/config/config.toml", "up")] {
        let path = home.path(file);
        std::os::unix::fs::symlink(&path, &path).unwrap();
        let expected = format!("could not read {}", path.display());
        home.run(&[command]).check(exit::STATE, &[&expected, "hint: do these directories belong to another user?"]);
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_session_that_was_cut_off_is_on_record_after_the_next_start() {
    let home = Home::new();
    let agent = home.up(&["--always-idle"]);
    agent.until("in a session", |status| status["session_age_s"].is_u64());
    // On disk, too, a moment later.
    until("it is on record", || {
        let database =
            rusqlite::Connection::open_with_flags(home.path("home/data/idlewild.db"), OpenFlags::SQLITE_OPEN_READ_ONLY)
                .ok()?;
        let begun: u32 = database.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0)).ok()?;
        (begun == 1).then_some(())
    });
    drop(agent);
    let agent = home.up(&[]);
    agent.until("with one session on record", |status| status["sessions_recorded"] == 1);
}
