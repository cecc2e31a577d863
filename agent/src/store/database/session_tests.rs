//! Sessions, forecasts and imports: what is on record, and what an older database becomes.

use idlewild_protocol::{BootId, DepartureCause};
use tempfile::TempDir;

use super::schema::create_version;
use super::*;

fn database() -> (TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("idlewild.db")).unwrap();
    (dir, store)
}

fn at(wall_s: u64) -> SessionMoment {
    SessionMoment { wall_s, on_ac: None }
}

#[tokio::test]
async fn what_is_known_when_a_session_begins_stays_with_it() {
    let (_dir, store) = database();
    let boot = store.begin_boot(1, None).await.unwrap().id;
    for on_ac in [None, Some(true), Some(false)] {
        let open = store.begin_session(boot, SessionMoment { wall_s: 1_800_000_000, on_ac }).await.unwrap();
        // Whatever the zone of this machine: a week has so many seconds, and zones are quarters of an hour.
        let utc_week_s = (1_800_000_000_u32 + 259_200) % 604_800;
        assert!(open.week_s.is_some_and(|s| s < 604_800 && s % 900 == utc_week_s % 900), "{open:?}");
        store.end_session(open.id, 1_800_000_060, 60_000, DepartureCause::Battery).await.unwrap();
        let last = store.sessions().await.unwrap().pop().unwrap();
        assert_eq!((last.on_ac, last.week_s, last.length_s), (on_ac, open.week_s, 60.0));
    }
}

#[tokio::test]
async fn at_most_one_session_is_open() {
    let (_dir, store) = database();
    let boot = store.begin_boot(1, None).await.unwrap().id;
    let first = store.begin_session(boot, at(100)).await.unwrap();
    store.beat_session(first.id, 30_000).await.unwrap();
    store.begin_session(boot, at(500)).await.unwrap();
    let sessions = store.sessions().await.unwrap();
    assert_eq!((sessions[0].cause, sessions[0].ended_s), (Some(DepartureCause::Unknown), Some(130)));
    assert!(sessions[1].is_live() && sessions.len() == 2);
}

#[tokio::test]
async fn the_latest_sessions_are_kept_and_the_live_one_among_them() {
    let (_dir, store) = database();
    let boot = store.begin_boot(1, None).await.unwrap().id;
    let many: Vec<ImportedSession> = (0..u64::from(MAX_SESSIONS)).map(|n| imported(n as usize, 10 * n, 5)).collect();
    assert_eq!(store.import_sessions(many).await.unwrap(), Ok(MAX_SESSIONS as usize));
    store.begin_session(boot, at(1_000_000)).await.unwrap();
    let sessions = store.sessions().await.unwrap();
    assert_eq!((sessions.len(), sessions[0].started_s), (MAX_SESSIONS as usize, 10));
    assert!(sessions.last().unwrap().is_live());
    let one_more = store.import_sessions(vec![imported(2, 2_000_000, 5)]).await.unwrap();
    assert_eq!(one_more, Err(ImportRefused::TooMany { room: 0, wanted: 1 }));
}

fn imported(line: usize, started_s: u64, length_s: u64) -> ImportedSession {
    let cause = Some(DepartureCause::OwnerReturned);
    ImportedSession { line, started_ms: started_s * 1000, length_ms: length_s * 1000, cause }
}

#[tokio::test]
async fn an_import_happens_whole_or_not_at_all() {
    let (_dir, store) = database();
    let boot = store.begin_boot(1, None).await.unwrap().id;
    let live = store.begin_session(boot, at(50_000)).await.unwrap();
    store.beat_session(live.id, 100_000).await.unwrap();
    let first = vec![imported(2, 1000, 100), ImportedSession { cause: None, ..imported(3, 1100, 50) }];
    assert_eq!(store.import_sessions(first).await.unwrap(), Ok(2));
    let good = imported(2, 3000, 10);
    for (bad, expected) in [
        (imported(3, 1000, 100), ImportRefused::Known { line: 3 }),
        (imported(3, 1100, 50), ImportRefused::Known { line: 3 }),
        (imported(3, 900, 200), ImportRefused::Overlaps { line: 3, started_s: 1000 }),
        (imported(3, 900, 110), ImportRefused::Overlaps { line: 3, started_s: 1000 }),
        (imported(3, 1090, 5), ImportRefused::Overlaps { line: 3, started_s: 1000 }),
        (imported(3, 1140, 500), ImportRefused::Overlaps { line: 3, started_s: 1100 }),
        (imported(3, 50_050, 5), ImportRefused::Overlaps { line: 3, started_s: 50_000 }),
    ] {
        assert_eq!(store.import_sessions(vec![good, bad]).await.unwrap(), Err(expected), "{bad:?}");
    }
    let sessions = store.sessions().await.unwrap();
    let seen: Vec<_> = sessions.iter().map(|s| (s.started_s, s.length_s, s.is_observed(), s.is_live())).collect();
    assert_eq!(seen, [(1000, 100.0, true, false), (1100, 50.0, false, false), (50_000, 100.0, false, true)]);
    assert_eq!(store.import_sessions(vec![good, imported(3, 1150, 10)]).await.unwrap(), Ok(2), "neighbours may touch");
}

#[tokio::test]
async fn a_forecast_s_outcome_is_its_session_s() {
    let (_dir, store) = database();
    let boot = store.begin_boot(1, None).await.unwrap().id;
    let open = store.begin_session(boot, at(100)).await.unwrap();
    store.record_forecast(open.id, 60_500, [0.125, 0.25, 0.5]).await.unwrap();
    store.beat_session(open.id, 75_000).await.unwrap();
    let forecast = ForecastRecord { age_s: 60.5, leaves: [0.125, 0.25, 0.5], length_s: 75.0, has_ended: false };
    assert_eq!(store.forecasts().await.unwrap(), [forecast]);
    store.end_session(open.id, 200, 90_000, DepartureCause::Sleep).await.unwrap();
    let ended = ForecastRecord { length_s: 90.0, has_ended: true, ..forecast };
    assert_eq!(store.forecasts().await.unwrap(), [ended]);
}

#[tokio::test]
async fn forecasts_are_bounded() {
    let (_dir, store) = database();
    let boot = store.begin_boot(1, None).await.unwrap().id;
    let open = store.begin_session(boot, at(100)).await.unwrap();
    store
        .call(move |connection| {
            let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                       INSERT INTO forecasts (session, age_ms, leaves_60s, leaves_300s, leaves_1800s)
                       SELECT ?2, i, 0.1, 0.2, 0.3 FROM n";
            connection.execute(sql, rusqlite::params![MAX_FORECASTS, open.id.0]).map(|_| ())
        })
        .await
        .unwrap();
    store.record_forecast(open.id, 9, [0.0; 3]).await.unwrap();
    let forecasts = store.forecasts().await.unwrap();
    assert_eq!((forecasts.len(), forecasts[0].age_s), (MAX_FORECASTS as usize, 0.002));
}

#[tokio::test]
async fn a_database_of_the_first_version_keeps_its_sessions() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("idlewild.db");
    let old = Connection::open(&path).unwrap();
    create_version(&old, 1);
    old.execute_batch(
        "INSERT INTO boots VALUES (900, 900, 'boot-a');
         INSERT INTO sessions (boot, started_s, length_ms, ended_s, cause) VALUES (900, 1000, 61500, 1061, 'battery');
         INSERT INTO sessions (boot, started_s, length_ms) VALUES (900, 2000, 15000);
         INSERT INTO election VALUES (1, 7, NULL);",
    )
    .unwrap();
    drop(old);
    let store = Store::open(&path).unwrap();
    let done = SessionRecord {
        started_s: 1000,
        ended_s: Some(1061),
        length_s: 61.5,
        cause: Some(DepartureCause::Battery),
        ..SessionRecord::default()
    };
    let live = SessionRecord { started_s: 2000, length_s: 15.0, ..SessionRecord::default() };
    assert_eq!(store.sessions().await.unwrap(), [done.clone(), live.clone()]);
    assert_eq!(store.election().await.unwrap().0, idlewild_protocol::Term(7));
    let boot = store.begin_boot(9000, Some("boot-b".to_owned())).await.unwrap();
    let closed = SessionRecord { ended_s: Some(2015), cause: Some(DepartureCause::Unknown), ..live };
    assert_eq!((boot.id > BootId(900), boot.interrupted.as_slice()), (true, std::slice::from_ref(&closed)));
    let open = store.begin_session(boot.id, at(10_000)).await.unwrap();
    store.record_forecast(open.id, 60_000, [0.1; 3]).await.unwrap();
    drop(store);
    let store = Store::open(&path).unwrap();
    assert_eq!(store.sessions().await.unwrap()[..2], [done, closed]);
    assert_eq!(store.forecasts().await.unwrap().len(), 1);
}
