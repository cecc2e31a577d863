//! The X server: alarms on its counter IDLETIME (SYNC), or where it has none, looks at MIT-SCREEN-SAVER.
//!
//! Never in a Wayland session: Xwayland sees the input of X programs only.

use std::borrow::Cow;
use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::timeout;
use x11rb::reexports::x11rb_protocol::protocol::screensaver::{QueryInfoReply, QueryInfoRequest};
use x11rb::reexports::x11rb_protocol::protocol::sync::{
    AlarmNotifyEvent, CreateAlarmAux, CreateAlarmRequest, InitializeReply, InitializeRequest, Int64,
    ListSystemCountersReply, ListSystemCountersRequest, QueryCounterReply, QueryCounterRequest, TESTTYPE, VALUETYPE,
};
use x11rb::reexports::x11rb_protocol::protocol::xproto::{GetInputFocusReply, GetInputFocusRequest};
use x11rb::reexports::x11rb_protocol::x11_utils::TryParse;

use super::keep::{ALIVE_EVERY, Logins, Outlet, Trouble};
use super::polled::{Counter, follow};
use super::surroundings::{Screens, stray_display};
use super::xauthority::{cookie, usual_file};
use super::xconnection::{Extension, XConnection};
use crate::owner::sighting::Sighting;
use crate::owner::times::since_boot;

/// The version of SYNC that has all that is used here.
const SYNC_VERSION: (u8, u8) = (3, 1);

/// `AlarmNotify` is the second of the extension's events.
const ALARM_NOTIFY: u8 = 1;

/// Our two alarms.
const QUIET: u32 = 1;
const INPUT: u32 = 2;

pub(super) async fn watch(mut out: Outlet) -> Result<Infallible, Trouble> {
    let logins = out.logins().await;
    let screens = Screens::look(logins.sessions()).await;
    if screens.is_wayland {
        return Err(Trouble::Absent("this is a Wayland session, in which X sees only some of the input".to_owned()));
    }
    let Some(display) = &screens.display else {
        return Err(match stray_display().await {
            // With logind we know who is logged in; without it, a display may have somebody at it.
            Some(stray) if logins == Logins::Unknown => {
                Trouble::Blind(format!("an X server runs at {stray}, and DISPLAY is not set for this program"))
            }
            Some(_) | None => Trouble::Absent("no X display is known (DISPLAY)".to_owned()),
        });
    };
    let number = local_number(display)
        .ok_or_else(|| Trouble::Absent(format!("DISPLAY is {display}, which is no screen of this machine")))?;
    let authority = screens.authority.or_else(usual_file);
    let cookie = match authority {
        Some(file) => cookie(&file, number).await,
        None => None,
    };
    let socket = PathBuf::from(format!("/tmp/.X11-unix/X{number}"));
    let mut x = XConnection::open(&socket, cookie).await?;
    match idle_counter(&mut x).await? {
        Some((sync, counter)) => follow_counter(&mut x, &out, sync, counter).await,
        None => follow_saver(&mut x, &out).await,
    }
}

/// The number of a display that this machine shows: `:0`, `unix:0.0`. A forwarded one is somewhere else.
fn local_number(display: &str) -> Option<u16> {
    let (host, rest) = display.split_once(':')?;
    let number = rest.split('.').next()?;
    if host.is_empty() || host == "unix" { number.parse().ok() } else { None }
}

/// SYNC with its counter of the time without input.
async fn idle_counter(x: &mut XConnection) -> Result<Option<(Extension, u32)>, Trouble> {
    let Some(sync) = x.extension("SYNC").await? else { return Ok(None) };
    let (desired_major_version, desired_minor_version) = SYNC_VERSION;
    let version = InitializeRequest { desired_major_version, desired_minor_version };
    let _: InitializeReply = x.ask(&version.serialize(sync.opcode).0).await?;
    let counters: ListSystemCountersReply = x.ask(&ListSystemCountersRequest.serialize(sync.opcode).0).await?;
    let idle = counters.counters.iter().find(|counter| counter.name == b"IDLETIME");
    Ok(idle.map(|counter| (sync, counter.counter)))
}

async fn follow_counter(
    x: &mut XConnection,
    out: &Outlet,
    sync: Extension,
    counter: u32,
) -> Result<Infallible, Trouble> {
    let alarm_ms = i64::try_from(out.alarm.as_millis()).unwrap_or(i64::MAX).max(2);
    // Both stay armed: the one tells each time that the counter rises past the alarm, the other that it falls back.
    for (alarm, value, test) in
        [(QUIET, alarm_ms, TESTTYPE::POSITIVE_TRANSITION), (INPUT, alarm_ms - 1, TESTTYPE::NEGATIVE_TRANSITION)]
    {
        let value_list = CreateAlarmAux::new()
            .counter(counter)
            .value_type(VALUETYPE::ABSOLUTE)
            .value(int64(value))
            .test_type(test)
            .delta(int64(0))
            .events(1);
        let request = CreateAlarmRequest { id: x.id(alarm), value_list: Cow::Owned(value_list) };
        x.tell(&request.serialize(sync.opcode).0).await?;
    }
    let mut is_quiet = look(x, out, sync, counter).await?;
    loop {
        let patience = if is_quiet { ALIVE_EVERY } else { Duration::MAX };
        let Ok(event) = timeout(patience, x.event()).await else {
            is_quiet = look(x, out, sync, counter).await?;
            continue;
        };
        let event = event?;
        if event.first().map(|kind| kind & 0x7f) != Some(sync.first_event + ALARM_NOTIFY) {
            continue;
        }
        let Ok((event, _)) = AlarmNotifyEvent::try_parse(&event) else { continue };
        is_quiet = event.alarm == x.id(QUIET);
        tell(out, is_quiet.then(|| duration(event.counter_value))).await;
    }
}

/// Reads the counter and tells it; true where the screen is quiet.
async fn look(x: &mut XConnection, out: &Outlet, sync: Extension, counter: u32) -> Result<bool, Trouble> {
    let reply: QueryCounterReply = x.ask(&QueryCounterRequest { counter }.serialize(sync.opcode).0).await?;
    let idle = duration(reply.counter_value);
    let is_quiet = idle >= out.alarm;
    tell(out, is_quiet.then_some(idle)).await;
    Ok(is_quiet)
}

async fn tell(out: &Outlet, idle: Option<Duration>) {
    out.say(match idle {
        Some(idle) => Sighting::Quiet { since: since_boot().saturating_sub(idle) },
        None => Sighting::Active,
    })
    .await;
}

/// No alarms: the server has to be asked.
async fn follow_saver(x: &mut XConnection, out: &Outlet) -> Result<Infallible, Trouble> {
    let saver = x.extension("MIT-SCREEN-SAVER").await?;
    let saver = saver.ok_or_else(|| Trouble::Blind("the X server tells nobody how long it had no input".to_owned()))?;
    let focus: GetInputFocusReply = x.ask(&GetInputFocusRequest.serialize().0).await?;
    follow(out, Saver { x, extension: saver, drawable: focus.focus }).await
}

/// What the screen saver goes by.
struct Saver<'x> {
    x: &'x mut XConnection,
    extension: Extension,
    drawable: u32,
}

impl Counter for Saver<'_> {
    async fn idle(&mut self) -> Result<Duration, Trouble> {
        let request = QueryInfoRequest { drawable: self.drawable };
        let info: QueryInfoReply = self.x.ask(&request.serialize(self.extension.opcode).0).await?;
        Ok(Duration::from_millis(u64::from(info.ms_since_user_input)))
    }
}

fn int64(value: i64) -> Int64 {
    let [b0, b1, b2, b3, b4, b5, b6, b7] = value.to_be_bytes();
    Int64 { hi: i32::from_be_bytes([b0, b1, b2, b3]), lo: u32::from_be_bytes([b4, b5, b6, b7]) }
}

/// Milliseconds of a counter; one below zero reads as none.
fn duration(value: Int64) -> Duration {
    let ms = (i64::from(value.hi) << 32) | i64::from(value.lo);
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

#[cfg(test)]
mod tests;
