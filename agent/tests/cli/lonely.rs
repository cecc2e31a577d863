//! Commands while no agent runs: clear words, and the exit code that scripts wait for.

use std::process::Stdio;

use crate::exit;
use crate::home::Home;

#[test]
fn commands_that_need_an_agent_say_that_none_runs() {
    let home = Home::new();
    for arguments in [
        &["status"][..],
        &["status", "--json"],
        &["run", "hello"],
        &["explain"],
        &["invite"],
        &["down"],
        &["pause"],
        &["resume"],
        &["snooze", "5m"],
        &["rules"],
    ] {
        let ended = home.run(arguments);
        ended.check(exit::NO_AGENT, &["no agent is running"]);
        assert_eq!(ended.out, "", "{arguments:?}");
    }
    home.run(&["status"]).check(exit::NO_AGENT, &["hint: start it with `idlewild up`"]);
}

#[test]
fn an_empty_variable_for_the_home_is_as_good_as_none() {
    let home = Home::new();
    let mut command = home.command(&["config", "path"]);
    let output = command.env("IDLEWILD_HOME", "").env("HOME", home.path("user")).env_remove("XDG_CONFIG_HOME").output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(exit::FINE), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = home.path("user/.config/idlewild/config.toml");
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains(expected.to_str().unwrap()), "{shown}");
    home.run(&["--home", "", "status"]).check(exit::USAGE, &["--home"]);
}

#[test]
fn a_look_makes_nothing() {
    let home = Home::new();
    for arguments in [&["status"][..], &["models", "list"], &["config", "show"], &["config", "path"], &["explain"]] {
        home.run(arguments);
        assert!(!home.path("home").exists(), "{arguments:?}");
    }
}

#[test]
fn an_agent_that_crashed_is_no_running_agent() {
    let home = Home::new();
    drop(home.up(&[]));
    assert!(home.path("home/state/agent.json").exists(), "a killed agent cleans nothing up");
    home.run(&["status"]).check(exit::NO_AGENT, &["no agent is running"]);
}

#[test]
fn a_wrong_command_line_is_a_usage_error() {
    let home = Home::new();
    for arguments in [
        &[][..],
        &["frobnicate"],
        &["up", "--no-such-flag"],
        &["invite", "--ttl", "5s"],
        &["snooze"],
        &["snooze", "400d"],
        &["dev", "cluster", "--peers", "17"],
        &["run", ""],
        &["up", "--set", "engine.slots"],
        &["up", "--set", "engine.slots=0"],
        &["up", "--peer", "1.2.3.4"],
        &["up", "--log-level", "=loud="],
        &["explain", "not-a-request"],
    ] {
        let ended = home.run(arguments);
        let code = if arguments[0..].first() == Some(&"explain") { exit::NO_AGENT } else { exit::USAGE };
        assert_eq!(ended.code, code, "{arguments:?}: {ended:?}");
        assert_eq!(ended.out, "", "{arguments:?}");
    }
}

#[test]
fn help_and_version_are_results_and_list_the_exit_codes() {
    let home = Home::new();
    let help = home.run(&["--help"]);
    help.check(exit::FINE, &[]);
    assert!(help.out.contains("Exit codes:") && help.out.contains("no agent is running"), "{}", help.out);
    assert!(!help.out.contains("  engine"), "the engine's command is hidden");
    assert!(home.run(&["--version"]).out.starts_with("idlewild "));
}

#[test]
fn a_mistake_in_the_settings_is_named_with_its_place() {
    let home = Home::new();
    let file = home.path("home/config/config.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "[api]\n\nprot = 1\n").unwrap();
    let place = format!("{}:3: api.prot: unknown field", file.display());
    for arguments in [&["up"][..], &["config", "show"], &["models", "list"]] {
        home.run(arguments).check(exit::USAGE, &[&place, "hint: remove the key"]);
    }
}

#[test]
fn a_value_out_of_range_and_a_peer_without_a_port_stop_the_start_with_their_place_and_what_they_may_be() {
    let home = Home::new();
    let file = home.path("home/config/config.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    for (text, key, part) in [
        ("[log]\n\nlevel = \"loud\"\n", "log.level", "is no level"),
        ("[engine]\n\nslots = 99\n", "engine.slots", "99 is out of range (it may be 1 to 32)"),
        ("[swarm]\n\npeers = [\"1.2.3.4\"]\n", "swarm.peers", "host:port such as 192.168.1.20:14354"),
    ] {
        std::fs::write(&file, text).unwrap();
        let place = format!("{}:3: {key}: ", file.display());
        home.run(&["up"]).check(exit::USAGE, &[&place, part, "hint: "]);
    }
    std::fs::remove_file(&file).unwrap();
    home.run(&["up", "--peer", "1.2.3.4"]).check(exit::USAGE, &["swarm.peers: \"1.2.3.4\"", "/udp/14354/quic-v1"]);
    assert!(!home.path("home/data").exists(), "nothing was begun");
}

#[test]
fn settings_are_shown_as_they_hold_and_with_every_key() {
    let home = Home::new();
    let shown = home.command(&["config", "show"]).env("IDLEWILD_API_PORT", "7").env("IDLEWILD_API_PROT", "8").output();
    let shown = shown.unwrap();
    let (out, err) = (String::from_utf8(shown.stdout).unwrap(), String::from_utf8(shown.stderr).unwrap());
    assert!(out.contains("\nport = 7\n") && out.contains("\n# max_requests = 256\n"), "{out}");
    assert_eq!(err, "warning: the environment variable IDLEWILD_API_PROT names no setting and is ignored\n");
    let default = home.run(&["config", "default"]);
    default.check(exit::FINE, &[]);
    std::fs::create_dir_all(home.path("home/config")).unwrap();
    std::fs::write(home.path("home/config/config.toml"), &default.out).unwrap();
    home.run(&["config", "show"]).check(exit::FINE, &[]);
    let paths = home.run(&["config", "path", "--json"]).json();
    assert_eq!(paths["data"], home.path("home/data").to_str().unwrap());
}

#[test]
fn a_wrong_variable_is_named() {
    let home = Home::new();
    let output = home.command(&["up"]).env("IDLEWILD_SWARM_PORT", "many").output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(exit::USAGE));
    assert!(err.contains("IDLEWILD_SWARM_PORT: ") && err.contains("hint: unset IDLEWILD_SWARM_PORT"), "{err}");
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    let home = Home::new();
    let mut command = home.command(&["config", "default"]);
    // Gone before the command begins: what it prints would fit into a pipe that is closed a moment later.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(exit::PIPE_CLOSED), &b""[..]));
}

#[test]
fn words_are_not_coloured_for_files_and_pipes() {
    let ended = Home::new().run(&["status"]);
    assert!(!ended.err.contains('\x1b'), "{ended:?}");
}

#[test]
fn the_system_s_places_are_used_without_a_home() {
    let home = Home::new();
    let output = home
        .command(&["config", "path", "--json"])
        .env_remove("IDLEWILD_HOME")
        .env("HOME", home.path("user"))
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("XDG_STATE_HOME")
        .env_remove("XDG_DATA_HOME")
        .env_remove("XDG_CACHE_HOME")
        .output()
        .unwrap();
    let paths: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for name in ["config", "state", "data", "cache"] {
        let path = paths[name].as_str().unwrap();
        assert!(path.starts_with(home.path("user").to_str().unwrap()) && path.contains("idlewild"), "{paths}");
    }
}
