//! llama.cpp's log: every line goes to tracing at DEBUG, since what it calls an error is only sometimes ours; the first
//! line that it calls an error is kept, since its functions say why they failed nowhere else.

use core::ffi::{CStr, c_char, c_void};
use std::sync::{Mutex, Once, PoisonError};

/// Bytes of an error line that are kept.
const LINE_MAX_BYTES: usize = 300;

static FIRST_ERROR: Mutex<Option<String>> = Mutex::new(None);

extern "C" fn receive(level: llama_cpp_sys_2::ggml_log_level, text: *const c_char, _: *mut c_void) {
    if text.is_null() {
        return;
    }
    #[expect(unsafe_code, reason = "llama.cpp passes a C string")]
    // SAFETY: llama.cpp passes a string that ends with NUL and lives for the call; null was excluded.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let line = text.trim();
    if line.is_empty() || line == "." {
        return;
    }
    tracing::debug!(target: "llama_cpp", "{line}");
    if level == llama_cpp_sys_2::GGML_LOG_LEVEL_ERROR {
        let mut first = FIRST_ERROR.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| line.chars().take(LINE_MAX_BYTES).collect());
    }
}

/// Sends the log here, from now on.
pub(crate) fn redirect() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        #[expect(unsafe_code, reason = "the wrapper's own redirection keeps llama.cpp's levels and no text")]
        // SAFETY: `receive` has the type asked for, is safe to call from any thread and needs no user data.
        unsafe {
            llama_cpp_sys_2::llama_log_set(Some(receive), core::ptr::null_mut());
        }
    });
}

/// The first error line since the last call.
pub(crate) fn take_first_error() -> Option<String> {
    FIRST_ERROR.lock().unwrap_or_else(PoisonError::into_inner).take()
}
