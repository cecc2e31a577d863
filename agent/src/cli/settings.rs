//! `idlewild config`: the settings as text.

use serde_json::json;

use super::args::{ConfigArgs, ConfigCommand};
use super::context::Context;
use super::failure::Failure;
use super::{Exit, Printer};
use crate::config::{Layer, default_file, effective_file};

pub(super) fn config(context: &Context, printer: &mut Printer, args: ConfigArgs) -> Result<Exit, Failure> {
    match args.command {
        ConfigCommand::Default => printer.text(&default_file())?,
        ConfigCommand::Show => {
            let (config, remarks) = context.config(Layer::default())?;
            for remark in remarks {
                printer.warning(remark);
            }
            printer.text(&effective_file(&config))?;
        }
        ConfigCommand::Path(args) => {
            let paths = &context.paths;
            let rows = [
                ("config", paths.config_file()),
                ("state", paths.state.clone()),
                ("data", paths.data.clone()),
                ("cache", paths.cache.clone()),
                ("api_key", paths.api_key_file()),
            ];
            if args.json {
                let object: serde_json::Map<_, _> =
                    rows.into_iter().map(|(name, path)| (name.to_owned(), json!(path))).collect();
                printer.json(&object)?;
            } else {
                for (name, path) in rows {
                    printer.line(format!("{name:<8} {}", path.display()))?;
                }
            }
        }
    }
    Ok(Exit::Fine)
}
