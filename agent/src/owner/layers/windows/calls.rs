//! The calls of Windows that the layer makes: all that is unsafe about it is here.
#![expect(unsafe_code, reason = "the system's interface is one of C")]

use std::mem;
use std::ptr;

use windows_sys::Win32::System::RemoteDesktop::{
    ProcessIdToSessionId, WTS_CURRENT_SERVER_HANDLE, WTS_SESSION_INFOW, WTSActive, WTSEnumerateSessionsW, WTSFreeMemory,
};
use windows_sys::Win32::System::SystemInformation::GetTickCount;
use windows_sys::Win32::UI::Input::KeyboardAndMouse::{GetLastInputInfo, LASTINPUTINFO};

use super::Session;

/// Milliseconds since the machine started, modulo 2^32.
pub(super) fn ticks() -> u32 {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { GetTickCount() }
}

/// When the session of this process had its last input, by the same clock.
pub(super) fn last_input_ticks() -> Option<u32> {
    let size = u32::try_from(mem::size_of::<LASTINPUTINFO>()).ok()?;
    let mut info = LASTINPUTINFO { cbSize: size, dwTime: 0 };
    // SAFETY: `info` is writable for the call, and says its own size as the call demands.
    let is_told = unsafe { GetLastInputInfo(&raw mut info) } != 0;
    is_told.then_some(info.dwTime)
}

/// The session of this process.
pub(super) fn own_session() -> Option<u32> {
    let mut number = 0;
    // SAFETY: `number` is writable for the call.
    let is_told = unsafe { ProcessIdToSessionId(std::process::id(), &raw mut number) } != 0;
    is_told.then_some(number)
}

/// Every session of this machine.
pub(super) fn sessions() -> Option<Vec<Session>> {
    let mut list: *mut WTS_SESSION_INFOW = ptr::null_mut();
    let mut count = 0;
    // SAFETY: `list` and `count` are writable for the call; 0 and 1 are the only values that the call permits.
    let is_told = unsafe { WTSEnumerateSessionsW(WTS_CURRENT_SERVER_HANDLE, 0, 1, &raw mut list, &raw mut count) } != 0;
    if !is_told || list.is_null() {
        return None;
    }
    // SAFETY: the call succeeded, so that `list` points to `count` initialised entries, which nobody else changes, and
    // which stay until they are freed below.
    let entries = unsafe { std::slice::from_raw_parts(list, usize::try_from(count).unwrap_or(0)) };
    let session = |entry: &WTS_SESSION_INFOW| Session { number: entry.SessionId, is_active: entry.State == WTSActive };
    let sessions = entries.iter().map(session).collect();
    // SAFETY: the call gave the memory, and neither it nor `entries` is used again.
    unsafe { WTSFreeMemory(list.cast()) };
    Some(sessions)
}
