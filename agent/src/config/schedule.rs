//! Times of the week at which work is taken, such as "mon-fri 22:00-07:00". Pure: what time it is is an argument.
//!
//! A window is of local wall-clock time, as people read it: one that begins in an hour that a change to summer time leaves
//! out begins after it, and in an hour that comes twice it holds twice.

use std::fmt;

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const DAY_MINUTES: u16 = 24 * 60;

/// A moment of the week by the clock on the wall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeekTime {
    /// 0 is Monday, 6 Sunday.
    pub day: u8,
    /// Since midnight, 0 to 1439.
    pub minute: u16,
}

impl fmt::Display for WeekTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let day = DAYS.get(usize::from(self.day)).unwrap_or(&"?");
        write!(f, "{day} {:02}:{:02}", self.minute / 60, self.minute % 60)
    }
}

/// A line that is no window.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line:?}: {what}; write it as \"mon-fri 22:00-07:00\", \"sat,sun 00:00-24:00\" or \"20:00-08:00\"")]
pub struct ScheduleError {
    line: String,
    what: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    /// Bit n: it begins on day n.
    days: u8,
    /// Minutes since midnight: from (within) to (without); not above `from` where it ends on the next day.
    from: u16,
    to: u16,
}

/// Windows of the week; none at all is any time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schedule {
    windows: Vec<Window>,
}

impl Schedule {
    /// Reads lines such as "mon-fri 22:00-07:00": days (all where there are none), then from and to. A window that ends
    /// at or before its beginning ends on the next day.
    pub fn parse(lines: &[String]) -> Result<Self, ScheduleError> {
        let window = |line: &String| window(line).map_err(|what| ScheduleError { line: line.clone(), what });
        Ok(Self { windows: lines.iter().map(window).collect::<Result<_, _>>()? })
    }

    /// Whether work is taken at any time.
    pub fn is_always(&self) -> bool {
        self.windows.is_empty()
    }

    /// Whether work is taken then.
    pub fn permits(&self, at: WeekTime) -> bool {
        self.is_always() || self.windows.iter().any(|window| window.holds(at))
    }
}

impl Window {
    fn holds(self, at: WeekTime) -> bool {
        let begins_on = |day: u8| self.days & (1 << day) != 0;
        let (today, yesterday) = (begins_on(at.day % 7), begins_on((at.day + 6) % 7));
        if self.from < self.to {
            today && (self.from..self.to).contains(&at.minute)
        } else {
            (today && at.minute >= self.from) || (yesterday && at.minute < self.to)
        }
    }
}

fn window(line: &str) -> Result<Window, &'static str> {
    let line = line.trim().to_ascii_lowercase();
    let (days, span) = line.rsplit_once(char::is_whitespace).unwrap_or(("", &line));
    let (from, to) = span.split_once('-').ok_or("there is no span of time")?;
    let (from, to) = (minute(from)?, minute(to)?);
    if from == to {
        return Err("it begins when it ends");
    }
    if from == DAY_MINUTES {
        return Err("24:00 is an end only");
    }
    Ok(Window { days: days_of(days.trim())?, from, to })
}

fn minute(text: &str) -> Result<u16, &'static str> {
    const WRONG: &str = "a time is hours and minutes, 00:00 to 24:00";
    let (hours, minutes) = text.trim().split_once(':').ok_or(WRONG)?;
    let number = |digits: &str| {
        let is_number = (1..=2).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse::<u16>().ok()).flatten().ok_or(WRONG)
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let minute = hours * 60 + minutes;
    if minutes < 60 && minute <= DAY_MINUTES { Ok(minute) } else { Err(WRONG) }
}

fn days_of(text: &str) -> Result<u8, &'static str> {
    if text.is_empty() {
        return Ok(0x7f);
    }
    let day = |name: &str| {
        let at = DAYS.iter().position(|known| *known == name.trim());
        at.ok_or("a day is mon, tue, wed, thu, fri, sat or sun")
    };
    let mut days = 0;
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (day(first)?, day(last)?);
        // "sat-mon" goes over the end of the week.
        let count = (last + 7 - first) % 7;
        days = (0..=count).fold(days, |days, n| days | 1 << ((first + n) % 7));
    }
    Ok(days)
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use proptest::prelude::*;

    use super::*;

    fn schedule(lines: &[&str]) -> Schedule {
        Schedule::parse(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    fn at(text: &str) -> WeekTime {
        let (day, time) = text.split_once(' ').unwrap();
        WeekTime { day: DAYS.iter().position(|known| *known == day).unwrap() as u8, minute: minute(time).unwrap() }
    }

    #[test]
    fn windows_hold_from_their_beginning_to_before_their_end() {
        for (lines, moment, expected) in [
            (&["mon-fri 22:00-07:00"][..], "mon 21:59", false),
            (&["mon-fri 22:00-07:00"], "mon 22:00", true),
            (&["mon-fri 22:00-07:00"], "tue 06:59", true),
            (&["mon-fri 22:00-07:00"], "tue 07:00", false),
            // It began on Friday; Monday's early hours are Sunday's night, which is not in it.
            (&["mon-fri 22:00-07:00"], "sat 06:59", true),
            (&["mon-fri 22:00-07:00"], "mon 03:00", false),
            (&["sat,sun 00:00-24:00"], "sun 23:59", true),
            (&["sat,sun 00:00-24:00"], "mon 00:00", false),
            (&["sat-mon 9:30-10:00"], "sun 09:45", true),
            (&["sat-mon 9:30-10:00"], "tue 09:45", false),
            (&["20:00-08:00"], "wed 02:00", true),
            (&["sun 23:00-01:00"], "mon 00:30", true),
            (&["mon 01:00-02:00", "mon 03:00-04:00"], "mon 03:30", true),
            (&["mon 01:00-02:00", "mon 03:00-04:00"], "mon 02:30", false),
            (&[], "mon 02:30", true),
        ] {
            assert_eq!(schedule(lines).permits(at(moment)), expected, "{lines:?} at {moment}");
        }
    }

    #[test]
    fn lines_that_are_no_windows_say_what_they_should_be() {
        for line in ["", "mon", "mon-fri", "mo 1:00-2:00", "1:00-1:00", "24:00-1:00", "1:60-2:00", "25:00-2:00", "1-2"]
        {
            let error = Schedule::parse(&[line.to_owned()]).unwrap_err().to_string();
            assert!(error.contains(&format!("{line:?}: ")) && error.contains("mon-fri 22:00-07:00"), "{error}");
        }
    }

    /// Central Europe: at 02:00 of the last Sunday of March it is 03:00, at 03:00 of October's last it is 02:00 again.
    #[test]
    fn a_change_of_the_clocks_moves_no_window_on_the_wall() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let local = |utc: &str| {
            let zoned = utc.parse::<jiff::Timestamp>().unwrap().to_zoned_datetime(zone.clone());
            let (day, time) = (zoned.weekday().to_monday_zero_offset(), zoned.time());
            WeekTime { day: day as u8, minute: (i16::from(time.hour()) * 60 + i16::from(time.minute())) as u16 }
        };
        let night = schedule(&["sat,sun 22:00-07:00"]);
        let early = schedule(&["sun 02:00-03:00"]);
        for (utc, in_night, in_early) in [
            // 29 March 2026: 00:59 UTC is 01:59, 01:00 UTC is 03:00.
            ("2026-03-29T00:59:00Z", true, false),
            ("2026-03-29T01:00:00Z", true, false),
            ("2026-03-29T04:59:00Z", true, false),
            ("2026-03-29T05:00:00Z", false, false),
            // 25 October 2026: 00:30 UTC is 02:30 in summer, 01:30 UTC is 02:30 again.
            ("2026-10-25T00:30:00Z", true, true),
            ("2026-10-25T01:30:00Z", true, true),
            ("2026-10-25T02:00:00Z", true, false),
            ("2026-10-25T05:59:00Z", true, false),
            ("2026-10-25T06:00:00Z", false, false),
        ] {
            assert_eq!((night.permits(local(utc)), early.permits(local(utc))), (in_night, in_early), "{utc}");
        }
    }

    proptest! {
        /// Against the plain meaning: a window is its minutes of the week, from each of its days on.
        #[test]
        fn a_window_is_its_minutes_of_the_week(days in 1_u8..0x80, from in 0_u16..1440, length in 1_u16..1440) {
            let to = (from + length) % DAY_MINUTES;
            prop_assume!(to != from);
            let window = Window { days, from, to };
            let week = 7 * u32::from(DAY_MINUTES);
            let mut expected = vec![false; week as usize];
            for day in (0..7_u32).filter(|day| days & (1 << day) != 0) {
                for minute in 0..u32::from(length) {
                    let at = (day * u32::from(DAY_MINUTES) + u32::from(from) + minute) % week;
                    expected[at as usize] = true;
                }
            }
            for (at, expected) in expected.into_iter().enumerate() {
                let (day, minute) = (at / usize::from(DAY_MINUTES), at % usize::from(DAY_MINUTES));
                let at = WeekTime { day: day as u8, minute: minute as u16 };
                prop_assert_eq!(window.holds(at), expected, "{}", at);
            }
        }

        #[test]
        fn nothing_that_people_write_is_fatal(line in "[a-z0-9:, -]{0,24}") {
            if let Ok(schedule) = Schedule::parse(&[line]) {
                schedule.permits(WeekTime { day: 3, minute: 700 });
            }
        }
    }
}
