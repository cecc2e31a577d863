//! The `idlewild` binary: checks the processor, then does what the command line says.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Before anything else: an instruction that this processor lacks would end the process without a word.
    if let Err(missing) = idlewild_engine::check_cpu() {
        return idlewild::cli::cannot_run(&missing);
    }
    forget_key_log();
    idlewild::cli::main()
}

/// TLS libraries write every session's keys to the file that this variable names: a debugging aid that nobody should be
/// able to leave switched on here.
#[expect(unsafe_code, reason = "removing an environment variable is unsafe where other threads may read it")]
fn forget_key_log() {
    // SAFETY: no other thread runs yet: this is called from `main` before anything is started.
    unsafe { std::env::remove_var("SSLKEYLOGFILE") };
}
