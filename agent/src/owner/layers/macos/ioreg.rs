//! What `ioreg` prints of the driver of keyboards and pointers.

use std::time::Duration;

/// The property: nanoseconds since the last input, of a driver.
const PROPERTY: &str = "\"HIDIdleTime\" = ";

/// The time since the last input of all drivers; none where none tells it.
pub(super) fn idle(text: &str) -> Option<Duration> {
    // Lines begin with the tree's branches; the name inside a dictionary's value is another's.
    let values = text.lines().filter_map(|line| line.trim_start_matches(['|', ' ']).strip_prefix(PROPERTY));
    // One that cannot be read may be the least: then nothing is known.
    let all: Option<Vec<u64>> = values.map(|value| value.trim().parse().ok()).collect();
    all?.into_iter().min().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As macOS prints it, shortened.
    const REAL: &str = r#"+-o Root  <class IORegistryEntry, id 0x100000100, retain 34>
  +-o J314sAP  <class IOPlatformExpertDevice, id 0x10000024c, registered, matched, active, busy 0 (9612 ms), retain 41>
    +-o IOResources  <class IOResources, id 0x10000010c, registered, matched, active, busy 0 (2038 ms), retain 142>
    | +-o IOHIDSystem  <class IOHIDSystem, id 0x1000004c9, registered, matched, active, busy 0 (0 ms), retain 24>
    |     {
    |       "IOClass" = "IOHIDSystem"
    |       "HIDKeyboardModifierMappingSrc" = ()
    |       "HIDParameters" = {"HIDIdleTime" = 1,"HIDClickTime"=500000000,"HIDIdleTimeout"=30}
    |       "HIDScrollCountMaxTimeDeltaToSustain" = 250
    |       "HIDIdleTime" = 61234567890
    |       "IOUserClientClass" = "IOHIDUserClient"
    |     }
    |
"#;

    #[test]
    fn the_drivers_own_property_is_read_and_no_other() {
        assert_eq!(idle(REAL), Some(Duration::from_nanos(61_234_567_890)));
    }

    #[test]
    fn the_latest_input_of_several_drivers_counts() {
        let two = format!("{REAL}\"HIDIdleTime\" = 5000000000\n");
        assert_eq!(idle(&two), Some(Duration::from_secs(5)));
    }

    #[test]
    fn what_cannot_be_read_is_no_time() {
        let odd = |value: &str| format!("{REAL}| \"HIDIdleTime\" = {value}\n");
        for text in [
            String::new(),
            "+-o Root".to_owned(),
            odd(""),
            odd("-1"),
            odd("<0011223344556677>"),
            odd("99999999999999999999999"),
            "\"HIDIdleTimeX\" = 7".to_owned(),
        ] {
            assert_eq!(idle(&text), None, "{text:?}");
        }
    }
}
