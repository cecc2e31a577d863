//! Instructions that this thread retires, where the kernel and the machine let them be counted: many virtual machines
//! have no counter.

use std::io;

/// A counter, or why there is none.
#[derive(Debug)]
pub(crate) struct Instructions {
    counter: io::Result<Counter>,
}

#[cfg(target_os = "linux")]
type Counter = perf_event::Counter;

/// Nothing can be counted here.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
struct Counter;

#[cfg(target_os = "linux")]
fn open() -> io::Result<Counter> {
    perf_event::Builder::new(perf_event::events::Hardware::INSTRUCTIONS).build()
}

#[cfg(not(target_os = "linux"))]
fn open() -> io::Result<Counter> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(not(target_os = "linux"))]
impl Counter {
    fn reset(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn enable(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn disable(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn read(&mut self) -> io::Result<u64> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}

impl Instructions {
    /// One that counts, if it can.
    pub(crate) fn new() -> Self {
        Self { counter: open() }
    }

    /// Why nothing is counted; none where it is.
    pub(crate) fn why_not(&self) -> Option<&io::Error> {
        self.counter.as_ref().err()
    }

    /// Counts from here.
    pub(crate) fn begin(&mut self) {
        if let Ok(counter) = &mut self.counter {
            // What cannot be set back is not read either.
            counter.reset().and_then(|()| counter.enable()).ok();
        }
    }

    /// Instructions since [`Instructions::begin`].
    pub(crate) fn end(&mut self) -> Option<u64> {
        let counter = self.counter.as_mut().ok()?;
        counter.disable().ok()?;
        counter.read().ok()
    }
}
