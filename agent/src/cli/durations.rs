//! Lengths of time as people write them: `90s`, `15m`, `2h`, `3d`.

/// How long a ticket counts.
pub(super) fn ticket_time(text: &str) -> Result<u64, String> {
    use crate::store::{TICKET_TTL_S_MAX, TICKET_TTL_S_MIN};
    let seconds = seconds_of(text)?;
    if (TICKET_TTL_S_MIN..=TICKET_TTL_S_MAX).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("a ticket counts for 1m to 7d".to_owned())
    }
}

/// How long a machine is left alone.
pub(super) fn snooze_time(text: &str) -> Result<u64, String> {
    let seconds = seconds_of(text)?;
    if (1..=365 * 86_400).contains(&seconds) { Ok(seconds) } else { Err("a time is 1s to 365d".to_owned()) }
}

/// Reads `90s`, `15m`, `2h`, `3d` or plain seconds.
fn seconds_of(text: &str) -> Result<u64, String> {
    let unit_s = match text.chars().last() {
        Some('m') => 60,
        Some('h') => 3600,
        Some('d') => 86_400,
        _ => 1,
    };
    let digits = text.strip_suffix(['s', 'm', 'h', 'd']).unwrap_or(text);
    let seconds = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(unit_s));
    seconds.ok_or_else(|| "expected a time such as 90s, 15m, 2h or 3d".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_bounds() {
        for (text, expected) in [("90s", 90), ("90", 90), ("15m", 900), ("2h", 7200), ("7d", 604_800)] {
            assert_eq!(ticket_time(text), Ok(expected), "{text}");
        }
        for text in ["", "x", "5s", "8d", "-1m", "99999999999999999999d", "1mm"] {
            assert!(ticket_time(text).is_err(), "{text}");
        }
    }
}
