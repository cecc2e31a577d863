//! `idlewild up` and `down`: the agent of this machine, here or in the background.

use idlewild_swarm::StartError;

use super::args::UpArgs;
use super::context::Context;
use super::failure::{Failure, OrExit};
use super::process::{self, Stopped};
use super::{Exit, Printer};
use crate::config::{Layer, setting};
use crate::driver::{EnginePlace, Launch, RunError, run, start_logging};

pub(super) async fn up(context: &Context, printer: &mut Printer, args: UpArgs) -> Result<Exit, Failure> {
    let (config, sources, remarks) = context.config_of(layer_of(&args)?)?;
    for remark in remarks {
        printer.warning(remark);
    }
    context.create_directories()?;
    if args.detach {
        return detach(context, printer).await;
    }
    start_logging(&config.log, Printer::may_be_coloured()).or_exit(Exit::Usage)?;
    let launch = Launch { config, sources: Some(sources), paths: context.paths.clone(), engine: EnginePlace::Child };
    // The whole agent is in this future.
    Box::pin(run(launch)).await.map_err(|error| Failure::new(exit_of(&error), error))?;
    Ok(Exit::Fine)
}

/// The flags, those of `--set` before the others: a flag of its own is the more explicit word.
pub(super) fn layer_of(args: &UpArgs) -> Result<Layer, Failure> {
    let mut layer = args.layer();
    for text in args.set.iter().rev() {
        layer = layer.or(setting(text).or_exit(Exit::Usage)?);
    }
    Ok(layer)
}

/// State that cannot be used has a code of its own, so that a service manager need not try again.
fn exit_of(error: &RunError) -> Exit {
    match error {
        RunError::Paths(_)
        | RunError::Lock(_)
        | RunError::Identity(_)
        | RunError::Membership(_)
        | RunError::File(_)
        | RunError::Key(_)
        | RunError::Store(_)
        | RunError::Swarm(
            StartError::OtherPeersCertificate
            | StartError::CertificateExpired
            | StartError::BadCertificate(_)
            | StartError::BadIdentity,
        ) => Exit::State,
        RunError::ApiPortInUse(_)
        | RunError::ApiListen { .. }
        | RunError::Owner(_)
        | RunError::Swarm(
            StartError::PortInUse { .. }
            | StartError::Listen { .. }
            | StartError::NoFreePort
            | StartError::NothingToListenOn,
        ) => Exit::Usage,
        RunError::Models(_)
        | RunError::Swarm(StartError::Runtime(_))
        | RunError::OwnProgram(_)
        | RunError::Signals(_) => Exit::Failed,
    }
}

/// Starts the same command without `--detach` in the background, and returns once it answers.
async fn detach(context: &Context, printer: &mut Printer) -> Result<Exit, Failure> {
    let arguments: Vec<_> = std::env::args_os().skip(1).filter(|arg| arg != "--detach").collect();
    let mut started = process::spawn(&context.paths, &arguments)?;
    let status = process::wait_until_up(&mut started, &context.paths, |_| true).await?;
    printer.line(format!("http://{}/v1", status.api))?;
    printer.note(format!("the agent runs (pid {}); `idlewild down` stops it", started.child.id()));
    Ok(Exit::Fine)
}

pub(super) async fn down(context: &Context, printer: &mut Printer) -> Result<Exit, Failure> {
    match process::stop(&context.paths).await? {
        Stopped::NoneRan => return Err(Failure::words(Exit::NoAgent, "no agent is running")),
        Stopped::Ended => printer.note("the agent has stopped"),
        Stopped::Killed => {
            printer.warning("the agent did not answer and was killed; others notice within seconds, and requests that were asked for at it are lost");
        }
    }
    Ok(Exit::Fine)
}
