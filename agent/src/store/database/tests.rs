//! Behaviours of the database as a whole: what survives what.

use std::sync::Arc;

use idlewild_engine::DoublesAt;
use idlewild_protocol::{
    DepartureCause, ModelId, PeerId, Refusal, RequestId, SwarmId, Term, Ticket, TicketId, TicketSecret,
};
use tempfile::TempDir;

use super::schema::create_version;
use super::*;
use crate::api::wire::ExplainReply;
#[cfg(target_os = "linux")]
use crate::store::tiny_disk::TinyDisk;

fn database() -> (TempDir, PathBuf, Store) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("idlewild.db");
    let store = Store::open(&path).unwrap();
    (dir, path, store)
}

fn ticket(id: u8, not_after_s: u64) -> Ticket {
    Ticket {
        swarm: SwarmId([1; 32]),
        issuer: PeerId([2; 32]),
        addresses: vec![],
        id: TicketId([id; 8]),
        secret: TicketSecret([id; 32]),
        not_after_s,
    }
}

fn story(id: u8, accepted_s: u64) -> ExplainReply {
    ExplainReply {
        standby: None,
        request: RequestId([id; 16]),
        model: ModelId([3; 32]),
        model_name: "smol".into(),
        accepted_s,
        took_ms: None,
        first_token_ms: None,
        prompt_tokens: None,
        output_tokens: 0,
        finish: None,
        error: None,
        moves: Vec::new(),
        assignments: vec![],
    }
}

#[tokio::test]
async fn boots_are_numbered_upwards_even_when_the_clock_goes_back() {
    let (_dir, path, store) = database();
    let first = store.begin_boot(1000, None).await.unwrap().id;
    let second = store.begin_boot(500, None).await.unwrap().id;
    drop(store);
    let store = Store::open(&path).unwrap();
    let third = store.begin_boot(1000, None).await.unwrap().id;
    assert!(first < second && second < third, "{first} {second} {third}");
}

#[tokio::test]
async fn an_interrupted_session_ends_at_its_last_sign_of_life() {
    for (next_machine_boot, expected) in [("boot-a", DepartureCause::Crash), ("boot-b", DepartureCause::Unknown)] {
        let (_dir, path, store) = database();
        let boot = store.begin_boot(1000, Some("boot-a".into())).await.unwrap();
        assert!(boot.interrupted.is_empty());
        let session = store.begin_session(boot.id, SessionMoment { wall_s: 2000, on_ac: None }).await.unwrap();
        let (week_s, session) = (session.week_s, session.id);
        store.beat_session(session, 45_000).await.unwrap();
        drop(store);
        let store = Store::open(&path).unwrap();
        let boot = store.begin_boot(9000, Some(next_machine_boot.into())).await.unwrap();
        let (ended_s, cause) = (Some(2045), Some(expected));
        let record = SessionRecord { started_s: 2000, ended_s, length_s: 45.0, cause, week_s, on_ac: None };
        assert_eq!(boot.interrupted, std::slice::from_ref(&record));
        assert_eq!(store.sessions().await.unwrap(), [record]);
        store.end_session(session, 9999, 1, DepartureCause::Sleep).await.unwrap();
        assert_eq!(store.sessions().await.unwrap()[0].cause, Some(expected), "a session ends once");
    }
}

#[tokio::test]
async fn every_cause_reads_back_as_itself() {
    use DepartureCause::{Battery, Crash, Network, OwnerReturned, Rule, Shutdown, Sleep, Unknown};
    let (_dir, _path, store) = database();
    let boot = store.begin_boot(1, None).await.unwrap().id;
    let causes = [OwnerReturned, Sleep, Shutdown, Battery, Rule, Network, Crash, Unknown];
    for cause in causes {
        let session = store.begin_session(boot, SessionMoment::default()).await.unwrap().id;
        store.end_session(session, 2, 1000, cause).await.unwrap();
    }
    let read: Vec<_> = store.sessions().await.unwrap().into_iter().filter_map(|session| session.cause).collect();
    assert_eq!(read, causes);
}

#[tokio::test]
async fn a_vote_survives_a_restart_and_is_never_replaced_by_an_older_one() {
    let (_dir, path, store) = database();
    assert_eq!(store.election().await.unwrap(), (Term(0), None));
    store.save_election(Term(7), Some(PeerId([1; 32]))).await.unwrap();
    store.save_election(Term(6), Some(PeerId([2; 32]))).await.unwrap();
    drop(store);
    let store = Store::open(&path).unwrap();
    assert_eq!(store.election().await.unwrap(), (Term(7), Some(PeerId([1; 32]))));
    store.save_election(Term(8), None).await.unwrap();
    assert_eq!(store.election().await.unwrap(), (Term(8), None));
}

#[tokio::test]
async fn a_ticket_is_good_for_one_newcomer_within_its_time() {
    let (_dir, _path, store) = database();
    store.add_ticket(&ticket(1, 2000), 1000).await.unwrap();
    let knows = |secret: &TicketSecret| secret.0 == [1; 32];
    let (first, second) = (PeerId([1; 32]), PeerId([2; 32]));
    let redeem = |id: u8, peer, now_s, knows: &dyn Fn(&TicketSecret) -> bool| {
        store.redeem_ticket(TicketId([id; 8]), peer, now_s, knows)
    };
    assert_eq!(redeem(9, first, 1500, &knows), Err(Refusal::TicketUnknown));
    assert_eq!(redeem(1, first, 1500, &|_| false), Err(Refusal::TicketUnknown));
    assert_eq!(redeem(1, first, 2001, &knows), Err(Refusal::TicketExpired));
    assert_eq!(redeem(1, first, 2000, &knows), Ok(()));
    assert_eq!(redeem(1, first, 2000, &knows), Ok(()), "the same newcomer, whose answer was lost");
    assert_eq!(redeem(1, second, 2000, &knows), Err(Refusal::TicketUsed));
    assert_eq!(store.tickets_used().await.unwrap(), 1);
}

#[tokio::test]
async fn of_many_newcomers_at_once_one_wins_a_ticket() {
    let (_dir, _path, store) = database();
    store.add_ticket(&ticket(1, 2000), 1000).await.unwrap();
    let start = Arc::new(std::sync::Barrier::new(8));
    let attempts: Vec<_> = (0..8_u8)
        .map(|n| {
            let (store, start) = (store.clone(), start.clone());
            thread::spawn(move || {
                start.wait();
                store.redeem_ticket(TicketId([1; 8]), PeerId([n; 32]), 1500, &|_| true)
            })
        })
        .collect();
    let outcomes: Vec<_> = attempts.into_iter().map(|attempt| attempt.join().unwrap()).collect();
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Err(Refusal::TicketUsed)).count(), 7, "{outcomes:?}");
}

#[tokio::test]
async fn open_tickets_are_bounded_and_old_ones_make_room() {
    let (_dir, _path, store) = database();
    let numbered = |n: u32, not_after_s| {
        let mut ticket = ticket(0, not_after_s);
        ticket.id.0[..4].copy_from_slice(&n.to_le_bytes());
        ticket
    };
    for n in 0..256 {
        store.add_ticket(&numbered(n, 2000), 1000).await.unwrap();
    }
    assert!(matches!(store.add_ticket(&numbered(999, 9000), 1000).await, Err(StoreError::TooManyTickets(256))));
    store.add_ticket(&numbered(999, 9000), 2001).await.unwrap();
}

#[tokio::test]
async fn a_link_s_missing_direction_keeps_its_last_figure() {
    let (_dir, _path, store) = database();
    let link = |up, down, measured_s| LinkRecord {
        peer: PeerId([1; 32]),
        up_bytes_per_s: up,
        down_bytes_per_s: down,
        rtt_us: 300,
        measured_s,
    };
    store.record_link(link(Some(10), None, 1)).await.unwrap();
    store.record_link(link(None, Some(20), 2)).await.unwrap();
    assert_eq!(store.links().await.unwrap(), [link(Some(10), Some(20), 2)]);
}

#[tokio::test]
async fn rates_read_back_as_they_were_measured() {
    let (_dir, _path, store) = database();
    let rate = RateRecord {
        model: ModelId([1; 32]),
        decode_tps: 88.5,
        prefill_tps: 261.0,
        doubles_at: DoublesAt { decode: 1100, prefill: u16::MAX },
        kv_bytes_per_token: 23_053,
        load_ms: 400,
        measured_s: 9,
    };
    store.record_rate(RateRecord { decode_tps: 1.0, ..rate }).await.unwrap();
    store.record_rate(rate).await.unwrap();
    assert_eq!(store.rates().await.unwrap(), [rate]);
}

#[tokio::test]
async fn rates_of_an_earlier_schema_are_kept_and_say_nothing_of_long_contexts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("idlewild.db");
    let connection = Connection::open(&path).unwrap();
    create_version(&connection, 2);
    connection.execute("INSERT INTO rates VALUES (?1, 88.5, 261.0, 23053, 400, 9)", [[1_u8; 32]]).unwrap();
    drop(connection);
    let store = Store::open(&path).unwrap();
    let rates = store.rates().await.unwrap();
    assert_eq!((rates.len(), rates[0].decode_tps, rates[0].doubles_at), (1, 88.5, DoublesAt::default()));
    let doubles_at = DoublesAt { decode: 1100, prefill: 2100 };
    store.record_rate(RateRecord { doubles_at, ..rates[0] }).await.unwrap();
    drop(store);
    assert_eq!(Store::open(&path).unwrap().rates().await.unwrap()[0].doubles_at, doubles_at);
}

#[tokio::test]
async fn stories_are_kept_newest_first_and_bounded() {
    let (_dir, _path, store) = database();
    store.record_request(&story(1, 10)).await.unwrap();
    store.record_request(&story(2, 20)).await.unwrap();
    let mut done = story(1, 10);
    done.output_tokens = 5;
    store.record_request(&done).await.unwrap();
    assert_eq!(store.request(RequestId([1; 16])).await.unwrap(), Some(done));
    assert_eq!(store.request(RequestId([9; 16])).await.unwrap(), None);
    let newest: Vec<_> = store.requests(10).await.unwrap().iter().map(|story| story.accepted_s).collect();
    assert_eq!(newest, [20, 10]);
    for n in 0..MAX_REQUESTS {
        let mut more = story(0, 100 + u64::from(n));
        more.request.0[..4].copy_from_slice(&(n + 1).to_le_bytes());
        store.record_request(&more).await.unwrap();
    }
    assert_eq!(store.requests(u32::MAX).await.unwrap().len(), MAX_REQUESTS as usize);
    assert_eq!(store.request(RequestId([1; 16])).await.unwrap(), None, "the oldest went first");
}

#[tokio::test]
async fn a_database_of_a_later_version_is_refused_and_left_alone() {
    let (_dir, path, store) = database();
    store.flush().await.unwrap();
    drop(store);
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 999).unwrap();
    drop(connection);
    let error = Store::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 999, .. }), "{error:?}");
    assert!(error.to_string().contains("hint: upgrade"), "{error}");
    let version: i64 = Connection::open(&path).unwrap().pragma_query_value(None, "user_version", |r| r.get(0)).unwrap();
    assert_eq!(version, 999);
}

#[test]
fn what_is_no_database_of_ours_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("idlewild.db");
    std::fs::write(&path, "this is a text, and long enough not to be taken for an empty database".repeat(20)).unwrap();
    assert!(matches!(Store::open(&path), Err(StoreError::Damaged { .. })));
    let other = dir.path().join("other.db");
    let connection = Connection::open(&other).unwrap();
    connection.execute_batch("CREATE TABLE t (x); PRAGMA user_version = 1;").unwrap();
    drop(connection);
    assert!(matches!(Store::open(&other), Err(StoreError::Damaged { .. })));
}

#[cfg(unix)]
#[tokio::test]
async fn the_file_and_its_companions_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, _path, store) = database();
    store.save_election(Term(1), None).await.unwrap();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0, "{:?}", entry.path());
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_full_disk_is_an_error_that_says_so_and_room_makes_it_work_again() {
    let Some(disk) = TinyDisk::mount() else { return };
    let path = disk.path().join("idlewild.db");
    let store = Store::open(&path).unwrap();
    store.record_request(&story(1, 1)).await.unwrap();
    assert_eq!(store.trouble(), None);
    let ballast = disk.path().join("ballast");
    let mut big = story(2, 2);
    big.error = Some("x".repeat(200_000));
    std::fs::write(&ballast, vec![0; 4 * 1024 * 1024]).unwrap_err();
    let error = store.record_request(&big).await.unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert_eq!(store.trouble(), Some(error.to_string()), "the user is told");
    assert!(store.request(RequestId([1; 16])).await.unwrap().is_some(), "what was there can still be read");
    std::fs::remove_file(&ballast).unwrap();
    store.record_request(&big).await.unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_read_only_disk_is_an_error_that_says_so() {
    let Some(disk) = TinyDisk::mount() else { return };
    let path = disk.path().join("idlewild.db");
    drop(Store::open(&path).unwrap());
    // The thread closes the file a moment after the last handle is gone.
    let deadline = Instant::now() + Duration::from_secs(5);
    while disk.path().join("idlewild.db-wal").exists() {
        assert!(Instant::now() < deadline, "the database was not closed");
        thread::sleep(Duration::from_millis(5));
    }
    disk.make_read_only();
    let error = Store::open(&path).map(|_| ()).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
}
