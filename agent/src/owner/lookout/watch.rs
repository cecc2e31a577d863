//! The lookout itself: looks while an agent listens, and tells it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::board::Board;
use super::lines::{Lines, NoLine};
use super::message::{Answer, Hello, VERSION, tidy};
use super::{BEAT, FIRST_PERSON};
use crate::owner::{layers, times};

/// Names the session to the programs in it.
const SESSION_VARIABLE: &str = "XDG_SESSION_ID";

/// How long the agent's end of the socket may take to be there, and to take a word.
const SOCKET_WITHIN: Duration = Duration::from_secs(2);

/// How long an agent may take to say whether it listens: it may wait for logind to tell it of this login.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The first pause before another attempt, which doubles up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_secs(1);

/// The longest: so late at most an agent that was restarted hears of this session.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Sightings that may wait.
const SIGHTINGS: usize = 32;

/// The lookout cannot do its work, and another attempt would change nothing.
#[derive(Debug, thiserror::Error)]
pub enum LookoutError {
    /// The agent does not listen to this account, or not any more.
    #[error("the agent refuses this lookout: {why}")]
    Refused {
        /// Its words.
        why: String,
    },
    /// The socket is there, and this account may not use it.
    #[error(
        "this account may not use the socket {}\nhint: the agent makes it usable for everybody; look at the folders above it",
        .0.display()
    )]
    NotPermitted(PathBuf),
    /// What listens is no agent.
    #[error("what listens at {} is no agent of this version\nhint: see --socket and owner.lookout_socket", .0.display())]
    NoAgent(PathBuf),
    /// What listens belongs to somebody whom this session is no business of.
    #[error(
        "the socket {path} is of account {uid}, which is neither the system's nor yours\nhint: see --socket and \
         owner.lookout_socket"
    )]
    Stranger {
        /// Where.
        path: PathBuf,
        /// Whose.
        uid: u32,
    },
}

/// What a lookout has to tell its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookoutNews {
    /// An agent listens.
    Heard,
    /// None does, for this reason; it is looked for again.
    Waiting(String),
    /// The session has ended, and with it the lookout.
    Ended,
}

/// Why a conversation ended.
enum End {
    /// The session has.
    Session,
    /// The agent, or nearly: another attempt follows. True where it had listened.
    Lost(String, bool),
    /// For good.
    Error(LookoutError),
}

/// Tells the agent at `socket` what the screen of this session shows, whenever one listens, until the session ends.
pub async fn keep_watch(socket: &Path, mut tell: impl FnMut(LookoutNews)) -> Result<(), LookoutError> {
    let mut board = Board::new(std::env::var(SESSION_VARIABLE).ok().filter(|id| !id.is_empty()));
    let mut pause = PAUSE;
    let mut told = None;
    loop {
        let ended = match Conversation::open(socket, ANSWER_WITHIN).await {
            Ok(conversation) => {
                told = None;
                tell(LookoutNews::Heard);
                conversation.follow(&mut board).await
            }
            Err(end) => end,
        };
        match ended {
            End::Session => {
                tell(LookoutNews::Ended);
                return Ok(());
            }
            End::Error(error) => return Err(error),
            End::Lost(why, had_listened) => {
                if had_listened {
                    pause = PAUSE;
                }
                if told.as_ref() != Some(&why) {
                    tell(LookoutNews::Waiting(why.clone()));
                }
                told = Some(why);
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// An agent that listens.
struct Conversation {
    socket: PathBuf,
    answers: Lines<OwnedReadHalf>,
    words: OwnedWriteHalf,
    alarm: Duration,
}

impl Conversation {
    async fn open(socket: &Path, answer_within: Duration) -> Result<Self, End> {
        let lost = |why: String| End::Lost(why, false);
        let at = socket.display();
        let stream = match timeout(SOCKET_WITHIN, UnixStream::connect(socket)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(End::Error(LookoutError::NotPermitted(socket.to_owned())));
            }
            Ok(Err(error)) if layers::is_nobody_there(&error) => {
                return Err(lost(format!("no agent listens at {at} yet")));
            }
            Ok(Err(error)) => return Err(lost(format!("{at} cannot be reached: {error}"))),
            Err(_) => return Err(lost(format!("{at} does not answer"))),
        };
        // Whoever listened made the socket: not everybody may know when somebody is at this screen.
        let uid = stream.peer_cred().map_err(|error| lost(error.to_string()))?.uid();
        if uid >= FIRST_PERSON && uid != rustix::process::geteuid().as_raw() {
            return Err(End::Error(LookoutError::Stranger { path: socket.to_owned(), uid }));
        }
        let (read, words) = stream.into_split();
        let mut conversation =
            Self { socket: socket.to_owned(), answers: Lines::new(read), words, alarm: Duration::MAX };
        conversation.say(&Hello { lookout: VERSION }).await.map_err(lost)?;
        let answer = timeout(answer_within, conversation.answers.next()).await;
        let line =
            answer.unwrap_or(Err(NoLine::Ended)).map_err(|_| lost(format!("what listens at {at} does not answer")))?;
        match Self::understand(&line)? {
            Some(alarm) => Ok(Self { alarm, ..conversation }),
            None => Err(End::Error(LookoutError::NoAgent(socket.to_owned()))),
        }
    }

    /// The alarm of a welcome; none where it is something else than an answer.
    fn understand(line: &[u8]) -> Result<Option<Duration>, End> {
        match serde_json::from_slice(line) {
            Ok(Answer::Welcome { alarm_ms }) => Ok(Some(Duration::from_millis(alarm_ms))),
            Ok(Answer::Refused { why }) => Err(End::Error(LookoutError::Refused { why: tidy(&why) })),
            Err(_) => Ok(None),
        }
    }

    /// Looks, and tells what is seen, until one of the two ends.
    async fn follow(mut self, board: &mut Board) -> End {
        let (sender, mut sightings) = mpsc::channel(SIGHTINGS);
        // They end with this conversation: nobody looks while nobody listens.
        let (kinds, _layers) = layers::start_in_session(self.alarm, &sender);
        board.begin(&kinds);
        let mut beat = interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut said = None;
        loop {
            let word = board.word().within_bounds(times::since_boot());
            if said.as_ref() != Some(&word) {
                if let Err(why) = self.say(&word).await {
                    return End::Lost(why, true);
                }
                said = Some(word);
            }
            tokio::select! {
                biased;
                Some((layer, sighting)) = sightings.recv() => {
                    tracing::debug!(?layer, ?sighting, "seen");
                    board.handle(layer, sighting);
                    if board.has_ended() {
                        return End::Session;
                    }
                }
                line = self.answers.next() => match line {
                    // It may think better of it; whatever else it says is for a later version.
                    Ok(line) => if let Err(end) = Self::understand(&line) {
                        return end;
                    },
                    Err(_) => return End::Lost(format!("the agent at {} has gone", self.socket.display()), true),
                },
                _ = beat.tick() => said = None,
            }
        }
    }

    async fn say(&mut self, word: &impl serde::Serialize) -> Result<(), String> {
        let gone = |why: &dyn std::fmt::Display| format!("the agent at {} has gone ({why})", self.socket.display());
        let mut line = serde_json::to_vec(word).map_err(|error| gone(&error))?;
        line.push(b'\n');
        match timeout(SOCKET_WITHIN, self.words.write_all(&line)).await {
            Ok(written) => written.map_err(|error| gone(&error)),
            Err(_) => Err(gone(&"it takes nothing more")),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::UnixListener;

    use super::*;

    /// Keeps watch until there is news, or an end.
    async fn first(socket: &Path) -> (Vec<LookoutNews>, Option<String>) {
        let mut news = Vec::new();
        let (sender, mut told) = mpsc::channel(8);
        let watch = keep_watch(socket, move |what| drop(sender.try_send(what)));
        tokio::select! {
            ended = watch => return (news, ended.err().map(|error| error.to_string())),
            what = told.recv() => news.extend(what),
        }
        (news, None)
    }

    #[tokio::test]
    async fn a_socket_that_is_not_there_is_waited_for_and_one_that_hangs_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let (news, _) = first(&path).await;
        assert!(matches!(&news[..], [LookoutNews::Waiting(why)] if why.contains("no agent listens")), "{news:?}");
        std::fs::write(&path, "a file").unwrap();
        let (news, _) = first(&path).await;
        assert!(matches!(&news[..], [LookoutNews::Waiting(_)]), "{news:?}");
        std::fs::remove_file(&path).unwrap();
        let _silent = UnixListener::bind(&path).unwrap();
        let end = Conversation::open(&path, Duration::from_millis(20)).await.err();
        assert!(matches!(end, Some(End::Lost(why, false)) if why.contains("does not answer")));
    }

    #[tokio::test]
    async fn a_refusal_and_whatever_is_no_agent_end_the_lookout_with_words() {
        for (answer, expected) in [
            (&b"{\"refused\":{\"why\":\"account 7 is\\u001b not logged in\"}}\n"[..], "account 7 is  not logged in"),
            (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is no agent of this version"),
            (b"{}\n", "is no agent of this version"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("socket");
            let listener = UnixListener::bind(&path).unwrap();
            let served = tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.write_all(answer).await.unwrap();
                let mut heard = [0; 13];
                stream.read_exact(&mut heard).await.unwrap();
                heard
            });
            let (_, error) = first(&path).await;
            assert!(error.as_ref().is_some_and(|error| error.contains(expected)), "{error:?}");
            assert_eq!(&served.await.unwrap(), b"{\"lookout\":1}");
        }
    }

    #[tokio::test]
    async fn an_agent_that_goes_away_is_looked_for_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let served = tokio::spawn(async move {
            // Twice: it welcomes, hears a word, and goes.
            for _ in 0..2 {
                let (stream, _) = listener.accept().await.unwrap();
                let (read, mut write) = stream.into_split();
                let mut lines = Lines::new(read);
                lines.next().await.unwrap();
                write.write_all(b"{\"welcome\":{\"alarm_ms\":1000}}\n").await.unwrap();
                let word = lines.next().await.unwrap();
                serde_json::from_slice::<super::super::Word>(&word).unwrap();
            }
        });
        let (sender, mut told) = mpsc::channel(8);
        let watch = tokio::spawn(async move { keep_watch(&path, move |what| drop(sender.try_send(what))).await });
        served.await.unwrap();
        for _ in 0..2 {
            assert_eq!(told.recv().await, Some(LookoutNews::Heard));
            let lost = told.recv().await;
            assert!(matches!(&lost, Some(LookoutNews::Waiting(why)) if why.contains("has gone")), "{lost:?}");
        }
        watch.abort();
    }
}
