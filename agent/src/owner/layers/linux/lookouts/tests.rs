//! Who is listened to, and what a caller can and cannot do.

use tokio::io::AsyncReadExt;

use super::*;
use crate::owner::sighting::{LayerKind, SeenScreen, SeenSession, Shows};

const HELLO: &str = "{\"lookout\":1}\n";
const ACTIVE: &str = "{\"session\":\"2\",\"screen\":{\"state\":\"active\",\"by\":\"X11\"}}\n";

/// An account that is not this one.
const ANNA: u32 = 471_100;

/// For what must happen, on a machine as busy as may be.
const SOON: Duration = Duration::from_secs(30);

/// Waits for nothing that does not happen.
const BRIEF: Duration = Duration::from_millis(30);

fn session(uid: u32) -> SeenSession {
    SeenSession {
        id: "2".into(),
        user: "anna".into(),
        uid,
        is_ours: false,
        shows: Shows::X11,
        is_in_front: true,
        is_locked: false,
        unlocked: None,
        idle_since: None,
        tty: String::new(),
        display: String::new(),
    }
}

/// A layer that listens, and what it tells.
struct Listening {
    path: PathBuf,
    seen: mpsc::Receiver<(LayerKind, Sighting)>,
    _logins: watch::Sender<Logins>,
    _folder: tempfile::TempDir,
    layer: JoinSet<Result<Infallible, Trouble>>,
}

impl Listening {
    async fn start() -> Self {
        Self::with(PATIENCE).await
    }

    async fn with(patience: Patience) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lookouts.sock");
        let (sightings, seen) = mpsc::channel(32);
        let (logins, logins_seen) = watch::channel(Logins::Known(vec![]));
        let alarm = Duration::from_secs(30);
        let out = Outlet { kind: LayerKind::Lookouts, alarm, sightings, logins: logins_seen };
        let mut layer = JoinSet::new();
        layer.spawn(listen(out, path.clone(), patience));
        let mut listening = Self { path, seen, _logins: logins, _folder: folder, layer };
        assert_eq!(listening.next().await, vec![], "it listens");
        listening
    }

    async fn next(&mut self) -> Vec<SeenLookout> {
        let (_, sighting) = timeout(SOON, self.seen.recv()).await.unwrap().unwrap();
        let Sighting::Lookouts { seen, .. } = sighting else { panic!("{sighting:?}") };
        seen
    }

    async fn call(&self, words: &str) -> UnixStream {
        let mut stream = UnixStream::connect(&self.path).await.unwrap();
        stream.write_all(words.as_bytes()).await.unwrap();
        stream
    }
}

/// What a caller is told until it is hung up on.
async fn told(stream: &mut UnixStream) -> String {
    let mut text = Vec::new();
    // A reset is an end: what it had not read is its own business.
    drop(timeout(SOON, stream.read_to_end(&mut text)).await.unwrap());
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test]
async fn what_a_lookout_says_is_seen_until_it_goes() {
    let mut listening = Listening::start().await;
    let mut lookout = listening.call(&format!("{HELLO}{ACTIVE}")).await;
    let mut welcome = [0; 31];
    lookout.read_exact(&mut welcome).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&welcome), "{\"welcome\":{\"alarm_ms\":30000}}\n", "of {}", welcome.len());
    let seen = listening.next().await;
    let own = rustix::process::geteuid().as_raw();
    assert_eq!((seen[0].uid, seen[0].session.as_deref()), (own, Some("2")));
    assert_eq!(seen[0].screen, SeenScreen::Active { by: "X11".into() });
    // The same again is no news; a lookout that has ended is.
    lookout.write_all(ACTIVE.as_bytes()).await.unwrap();
    drop(lookout);
    assert_eq!(listening.next().await, vec![]);
}

#[tokio::test]
async fn a_lookout_that_falls_silent_is_believed_no_more() {
    let mut listening = Listening::with(Patience { word: BRIEF, ..PATIENCE }).await;
    let mut lookout = listening.call(&format!("{HELLO}{ACTIVE}")).await;
    assert_eq!(listening.next().await.len(), 1);
    assert_eq!(listening.next().await, vec![]);
    let text = told(&mut lookout).await;
    assert!(!text.contains("refused"), "it may come again: {text}");
}

#[tokio::test]
async fn garbage_is_refused_with_words_and_is_nobodys_presence() {
    let mut listening = Listening::start().await;
    let flood = HELLO.to_owned() + &ACTIVE.repeat(10_000);
    for (words, expected) in [
        ("GET / HTTP/1.1\r\n".to_owned(), "that is no lookout"),
        ("\0\u{1}\u{2}\n".to_owned(), "that is no lookout"),
        ("{\"lookout\":2}\n".to_owned(), "it speaks version 2"),
        ("x".repeat(100_000), "it speaks without end"),
        (format!("{HELLO}{{\"screen\":{{\"state\":\"away\"}}}}\n"), "that is no word of a lookout"),
        (format!("{HELLO}{}\n", "[".repeat(5000)), "that is no word of a lookout"),
        (flood, "it speaks too often"),
    ] {
        let mut stream = UnixStream::connect(&listening.path).await.unwrap();
        // It is hung up on before it has said all that it would.
        drop(stream.write_all(words.as_bytes()).await);
        let text = told(&mut stream).await;
        assert!(text.contains("refused") && text.contains(expected), "{expected:?} is missing in {text:?}");
    }
    // The flood was believed as long as it lasted.
    assert_eq!(listening.next().await.len(), 1);
    assert_eq!(listening.next().await, vec![]);
    assert!(listening.layer.try_join_next().is_none(), "it still listens");
}

#[tokio::test]
async fn an_account_has_few_connections_and_one_more_is_told_so() {
    let listening = Listening::start().await;
    let mut kept = Vec::new();
    for _ in 0..OF_ACCOUNT_MAX {
        let mut stream = listening.call(HELLO).await;
        stream.read_u8().await.unwrap();
        kept.push(stream);
    }
    let text = told(&mut listening.call(HELLO).await).await;
    assert!(text.contains("4 of account"), "{text:?}");
}

/// Serves one end of a pair for an account; gives what the other end is told first, and how it ended.
async fn welcomed(uid: u32, logins: watch::Receiver<Logins>, login: Duration) -> (String, Result<(), String>) {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(HELLO.as_bytes()).await.unwrap();
    theirs.shutdown().await.unwrap();
    let (read, mut write) = ours.into_split();
    let (words, _heard) = mpsc::channel(1);
    let say = |word| words.send((0, word));
    let times = (Duration::from_secs(1), Patience { login, ..PATIENCE });
    let ended = serve((Lines::new(read), &mut write), (uid, logins), times, say).await;
    drop(write);
    (told(&mut theirs).await, ended)
}

#[tokio::test]
async fn only_accounts_that_are_logged_in_are_listened_to() {
    let (_tell, empty) = watch::channel(Logins::Known(vec![]));
    let (text, ended) = welcomed(ANNA, empty.clone(), BRIEF).await;
    assert_eq!((text.as_str(), ended), ("", Err(format!("account {ANNA} is not logged in on this machine"))));
    assert!(welcomed(0, empty, BRIEF).await.0.contains("welcome"), "root is trusted");
    let (_tell, known) = watch::channel(Logins::Known(vec![session(ANNA)]));
    assert!(welcomed(ANNA, known.clone(), BRIEF).await.0.contains("welcome"));
    assert!(welcomed(ANNA + 1, known, BRIEF).await.1.is_err());
    let (_tell, unknown) = watch::channel(Logins::Unknown);
    assert!(welcomed(ANNA, unknown, BRIEF).await.1.is_err(), "without logind, terminals tell who is logged in");
    // A desktop starts its programs as soon as somebody logs in; logind tells of that a moment later.
    let (tell, soon) = watch::channel(Logins::Looking);
    let (outcome, ()) = tokio::join!(welcomed(ANNA, soon, SOON), async {
        tokio::task::yield_now().await;
        tell.send_replace(Logins::Known(vec![session(ANNA)]));
    });
    assert!(outcome.0.contains("welcome"), "{outcome:?}");
}

#[test]
fn whoever_has_logged_out_counts_no_more() {
    let (words, _heard) = mpsc::channel(1);
    let word: Word = serde_json::from_str(ACTIVE).unwrap();
    let callers = [(0, Some(word.clone())), (ANNA, Some(word)), (ANNA, None)];
    let callers = (0..).zip(callers.map(|(uid, word)| Caller { uid, word })).collect();
    let hall = Hall { words, callers, tasks: JoinSet::new(), next: 3, patience: PATIENCE };
    let counted = |logins: Logins| hall.seen(&logins).iter().map(|seen| seen.uid).collect::<Vec<_>>();
    assert_eq!(counted(Logins::Known(vec![session(ANNA)])), [0, ANNA]);
    assert_eq!(counted(Logins::Unknown), [0, ANNA], "a logind that hangs ends no session");
    assert_eq!(counted(Logins::Known(vec![])), [0]);
}

#[tokio::test]
async fn a_socket_that_was_left_over_is_taken_and_nothing_else_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let bound = Bound::at(&path).await.unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
    let second = Bound::at(&path).await.err();
    assert!(matches!(&second, Some(Trouble::Blind(why)) if why.contains("in use")), "{second:?}");
    drop(bound);
    assert!(!path.exists());
    std::fs::write(&path, "precious").unwrap();
    assert!(matches!(Bound::at(&path).await, Err(Trouble::Blind(_))));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    let missing = Bound::at(&folder.path().join("none/socket")).await.err();
    assert!(matches!(&missing, Some(Trouble::Blind(why)) if why.contains("No such file")), "{missing:?}");
}
