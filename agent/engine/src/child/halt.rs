//! Whether the child may compute: set by whoever reads the commands, seen by the loop and by the step that runs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Shared by the thread that reads commands and the one that computes.
#[derive(Debug, Default)]
pub(crate) struct Halt {
    on: AtomicBool,
    /// Times that it was set: tells an interrupted step from one that failed, also when it is lifted again meanwhile.
    times: AtomicU64,
    /// The flag that the loaded model looks at while it computes, where it can.
    interrupter: Mutex<Option<Arc<AtomicBool>>>,
}

impl Halt {
    /// Sets or lifts it; a step that runs ends at once where the model can.
    pub(crate) fn set(&self, on: bool) {
        let interrupter = self.interrupter.lock().unwrap_or_else(PoisonError::into_inner);
        self.on.store(on, Ordering::SeqCst);
        if on {
            self.times.fetch_add(1, Ordering::SeqCst);
        }
        if let Some(flag) = &*interrupter {
            flag.store(on, Ordering::SeqCst);
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::SeqCst)
    }

    pub(crate) fn times(&self) -> u64 {
        self.times.load(Ordering::SeqCst)
    }

    /// From here on this is the flag of the loaded model.
    pub(crate) fn attach(&self, flag: Option<Arc<AtomicBool>>) {
        let mut interrupter = self.interrupter.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(flag) = &flag {
            flag.store(self.is_on(), Ordering::SeqCst);
        }
        *interrupter = flag;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_that_is_attached_late_says_what_holds() {
        let halt = Halt::default();
        halt.set(true);
        let flag = Arc::new(AtomicBool::new(false));
        halt.attach(Some(Arc::clone(&flag)));
        assert!(flag.load(Ordering::SeqCst) && halt.is_on());
        halt.set(false);
        assert!(!flag.load(Ordering::SeqCst) && !halt.is_on());
        assert_eq!(halt.times(), 1, "lifting is no halt");
    }
}
