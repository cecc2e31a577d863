//! Which way the arrows point: between crates by `cargo metadata`, inside the core by its `use` lines.

use std::collections::BTreeSet;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};

use crate::assert_none;
use crate::tree::{between, root, rust_files};

/// The workspace's crates, and which of the others each may use in what it ships.
const CRATES: [(&str, &[&str]); 6] = [
    ("idlewild-protocol", &[]),
    ("idlewild-coordinator", &["idlewild-protocol"]),
    ("idlewild-swarm", &["idlewild-protocol"]),
    ("idlewild-engine", &["idlewild-protocol"]),
    ("idlewild", &["idlewild-protocol", "idlewild-coordinator", "idlewild-swarm", "idlewild-engine"]),
    ("idlewild-tests", &["idlewild-protocol", "idlewild-coordinator", "idlewild-swarm", "idlewild-engine", "idlewild"]),
];

/// Outside crates that only some of ours may name (by the beginning of their name), tests included.
const OUTSIDE: [(&str, &[&str]); 10] = [
    ("libp2p", &["idlewild-swarm"]),
    ("yamux", &["idlewild-swarm"]),
    ("llama", &["idlewild-engine"]),
    ("bincode", &["idlewild-protocol", "idlewild-engine"]),
    ("rusqlite", &["idlewild", "idlewild-tests"]),
    ("axum", &["idlewild"]),
    ("zbus", &["idlewild"]),
    ("x11rb", &["idlewild", "idlewild-tests"]),
    ("wayland", &["idlewild", "idlewild-tests"]),
    ("anyhow", &["idlewild", "idlewild-tests"]),
];

/// Crates without clock, socket, thread or chance, and what that keeps out of them.
const PURE: [&str; 2] = ["idlewild-protocol", "idlewild-coordinator"];
const IMPURE: [&str; 8] = ["tokio", "rand", "reqwest", "rustix", "libc", "sysinfo", "directories", "tempfile"];

fn metadata() -> Metadata {
    MetadataCommand::new().current_dir(root()).no_deps().exec().unwrap()
}

fn shipped(package: &Package) -> impl Iterator<Item = &str> {
    package.dependencies.iter().filter(|d| d.kind == DependencyKind::Normal).map(|d| d.name.as_str())
}

#[test]
fn the_workspace_holds_the_crates_that_the_architecture_names() {
    let found: BTreeSet<String> = metadata().packages.iter().map(|package| package.name.to_string()).collect();
    let named: BTreeSet<String> = CRATES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(found, named);
}

#[test]
fn crates_use_each_other_in_one_direction() {
    let mut breaches = Vec::new();
    for package in metadata().packages {
        let allowed = CRATES.iter().find(|(name, _)| *name == package.name.as_str()).unwrap().1;
        let ours = shipped(&package).filter(|name| name.starts_with("idlewild"));
        breaches.extend(ours.filter(|name| !allowed.contains(name)).map(|name| format!("{} -> {name}", package.name)));
    }
    assert_none(&breaches);
}

#[test]
fn outside_crates_stay_behind_the_crate_that_owns_them() {
    let mut breaches = Vec::new();
    for package in metadata().packages {
        for (beginning, owners) in OUTSIDE {
            let named = package.dependencies.iter().any(|d| d.name.starts_with(beginning));
            if named && !owners.contains(&package.name.as_str()) {
                breaches.push(format!("{} -> {beginning}", package.name));
            }
        }
    }
    assert_none(&breaches);
}

#[test]
fn pure_crates_have_no_way_to_act() {
    let mut breaches = Vec::new();
    for package in metadata().packages.iter().filter(|package| PURE.contains(&package.name.as_str())) {
        let impure = shipped(package).filter(|name| IMPURE.contains(name));
        breaches.extend(impure.map(|name| format!("{} -> {name}", package.name)));
    }
    assert_none(&breaches);
}

/// The core's modules, and which of the others each may use. `sim`, where there is one, may use all; nothing uses it.
const CORE: [(&str, &[&str]); 9] = [
    ("hazard", &[]),
    ("length", &[]),
    ("cost", &["hazard"]),
    ("policy", &["hazard", "cost"]),
    ("view", &["hazard", "election"]),
    ("election", &[]),
    ("ownership", &[]),
    ("coordinator", &["hazard", "cost", "policy", "view"]),
    ("sim", &["hazard", "length", "cost", "policy", "view", "election", "ownership", "coordinator"]),
];

#[test]
fn the_cores_modules_use_each_other_in_one_direction() {
    let mut breaches = Vec::new();
    for (module, allowed) in CORE {
        let file = format!("coordinator-lib/src/{module}.rs");
        let folder = format!("coordinator-lib/src/{module}/");
        let of_module = |path: &str| (path == file || path.starts_with(&folder)) && !path.contains("test");
        for source in rust_files().filter(|source| of_module(&source.path)) {
            let used = between(&source.text, "crate::", "::").into_iter();
            let others = used.filter(|name| CORE.iter().any(|(other, _)| other == name) && *name != module);
            let wrong = others.filter(|name| !allowed.contains(name));
            breaches.extend(wrong.map(|name| format!("{}: uses {name}", source.path)));
        }
    }
    assert_none(&breaches);
}
