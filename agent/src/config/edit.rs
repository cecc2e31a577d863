//! `config.toml` as text for people: the default file, and the settings that are in force.

use std::fmt::Write;

use toml::Value;

use super::settings::{Config, KEYS, Layer};

/// A whole `config.toml` in which every key is described and commented out at its default.
pub fn default_file() -> String {
    render("# ", &Layer::default().with_defaults(), |_, _| true)
}

/// The settings in force, as a `config.toml`; those at their default are commented out.
pub fn effective_file(config: &Config) -> String {
    let defaults = table_of(&Layer::default().with_defaults());
    render("# ", config, |path, value| defaults.get(path.0).and_then(|s| s.get(path.1)) == Some(value))
}

fn render(comment: &str, config: &Config, is_commented: impl Fn((&str, &str), &Value) -> bool) -> String {
    let values = table_of(config);
    let mut text = String::from("# Settings of idlewild. Lines that begin with # are defaults or explanations.\n");
    let mut section = "";
    for key in KEYS {
        if key.section != section {
            section = key.section;
            let _ = write!(text, "\n[{section}]\n");
        }
        for line in key.about {
            let _ = writeln!(text, "#{line}");
        }
        if let Some(value) = values.get(key.section).and_then(|section| section.get(key.name)) {
            let mark = if is_commented((key.section, key.name), value) { comment } else { "" };
            let _ = writeln!(text, "{mark}{} = {value}", key.name);
        }
    }
    text
}

fn table_of(config: &Config) -> toml::Table {
    toml::Table::try_from(config).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_file_describes_every_key_and_changes_nothing() {
        let text = default_file();
        for key in KEYS {
            assert!(text.contains(&format!("\n# {} = ", key.name)), "{} is missing", key.name);
            assert!(!key.about.is_empty());
        }
        assert_eq!(toml::from_str::<Layer>(&text).unwrap(), Layer::default());
    }

    #[test]
    fn with_every_comment_mark_removed_from_its_keys_the_default_file_still_reads_as_the_defaults() {
        let is_key = |line: &str| KEYS.iter().any(|key| line.starts_with(&format!("# {} = ", key.name)));
        let text: String = default_file()
            .lines()
            .map(|line| if is_key(line) { format!("{}\n", &line[2..]) } else { format!("{line}\n") })
            .collect();
        let layer: Layer = toml::from_str(&text).unwrap();
        assert_eq!(layer.with_defaults(), Layer::default().with_defaults());
    }

    #[test]
    fn the_effective_file_reads_back_as_the_same_settings() {
        let mut layer = Layer::default();
        layer.api.port = Some(7);
        layer.swarm.peers = Some(vec!["/ip4/1.2.3.4/tcp/1".to_owned()]);
        layer.engine.fake_decode_tps = Some(3.5);
        let config = layer.with_defaults();
        let text = effective_file(&config);
        assert!(text.contains("\nport = 7\n") && text.contains("\n# slots = 4\n"), "{text}");
        assert_eq!(toml::from_str::<Layer>(&text).unwrap().with_defaults(), config);
    }
}
