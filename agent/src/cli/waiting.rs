//! What a person sees who waits for the first word: a line on stderr that says what goes on, and vanishes.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Printer;

/// A shorter wait needs no words.
const SILENT: Duration = Duration::from_secs(2);

/// How often the words change.
const SHOW_EVERY: Duration = Duration::from_millis(500);

/// The wait for the first word of one answer.
#[derive(Debug)]
pub(super) struct Waiting {
    began: Instant,
    next: Instant,
    /// Nobody looks on, or the first word has come.
    is_over: bool,
    is_shown: bool,
    /// Tokens of the prompt that were read, of how many.
    read: Option<(u32, u32)>,
}

impl Waiting {
    /// Begins now; says nothing where nobody looks on.
    pub(super) fn new(is_watched: bool) -> Self {
        let began = Instant::now();
        Self { began, next: began + SILENT, is_over: !is_watched, is_shown: false, read: None }
    }

    /// Waits for something, with words where it takes long.
    pub(super) async fn for_<T>(&mut self, what: impl Future<Output = T>, printer: &mut Printer) -> T {
        let mut what = pin!(what);
        loop {
            tokio::select! {
                biased;
                outcome = &mut what => return outcome,
                () = sleep_until(self.next), if !self.is_over => self.show(printer),
            }
        }
    }

    /// So much of the prompt is read.
    pub(super) fn read(&mut self, done: u32, total: u32) {
        self.read = Some((done, total));
    }

    /// Takes the words away: something better comes.
    pub(super) fn end(&mut self, printer: &mut Printer) {
        if self.is_shown {
            printer.clear_progress();
        }
        (self.is_over, self.is_shown) = (true, false);
    }

    fn show(&mut self, printer: &mut Printer) {
        let waited_s = self.began.elapsed().as_secs();
        printer.progress(match self.read {
            Some((done, total)) => format!("reading the prompt: {done} of {total} tokens ({waited_s} s)"),
            None => format!("waiting for the answer ({waited_s} s)"),
        });
        self.is_shown = true;
        self.next = Instant::now() + SHOW_EVERY;
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::super::printer::tests::{Kept, kept};
    use super::*;

    /// Comes once something more has been said.
    fn late(said: Kept) -> impl Future<Output = ()> {
        let before = said.text();
        poll_fn(move |_| if said.text() == before { Poll::Pending } else { Poll::Ready(()) })
    }

    async fn said(is_watched: bool) -> String {
        let (mut printer, out, err) = kept();
        let mut waiting = Waiting::new(is_watched);
        waiting.next = Instant::now();
        waiting.for_(std::future::ready(()), &mut printer).await;
        assert_eq!(err.text(), "", "what is there at once is not waited for");
        for _ in 0..2 {
            if is_watched {
                waiting.for_(late(err.clone()), &mut printer).await;
            }
            waiting.read(512, 5031);
            waiting.next = Instant::now();
        }
        waiting.end(&mut printer);
        waiting.for_(std::future::ready(()), &mut printer).await;
        assert_eq!(out.text(), "");
        err.text()
    }

    #[tokio::test]
    async fn a_long_wait_is_explained_and_the_words_vanish_with_the_first_word() {
        let text = said(true).await;
        let (first, last) = ("\rwaiting for the answer (0 s)", "\rreading the prompt: 512 of 5031 tokens (0 s)");
        assert!(text.starts_with(first) && text.contains(last) && text.ends_with("\r\x1b[K"), "{text:?}");
    }

    #[tokio::test]
    async fn a_wait_that_nobody_watches_has_no_words() {
        assert_eq!(said(false).await, "");
    }

    #[test]
    fn a_short_wait_has_no_words() {
        let waiting = Waiting::new(true);
        assert_eq!(waiting.next - waiting.began, SILENT);
    }
}
