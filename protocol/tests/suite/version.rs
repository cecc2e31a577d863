//! Two peers use the highest version that both speak, and a build does not stumble over what a later one adds.

use idlewild_protocol::{Hello, Message, Protocol, Version, VersionRange, negotiate};
use proptest::prelude::*;

use crate::samples::hello;

fn range(min: u16, max: u16) -> VersionRange {
    VersionRange { min: Version(min), max: Version(max) }
}

#[test]
fn the_highest_common_version_is_used() {
    let cases = [
        (range(1, 1), range(1, 1), Some(1)),
        (range(1, 3), range(2, 5), Some(3)),
        (range(2, 5), range(1, 3), Some(3)),
        (range(1, 9), range(4, 4), Some(4)),
        (range(1, 2), range(3, 4), None),
        (range(3, 4), range(1, 2), None),
        (range(1, 1), range(5, 1), None),
        (range(0, u16::MAX), range(7, 7), Some(7)),
    ];
    for (ours, theirs, version) in cases {
        assert_eq!(negotiate(ours, theirs), version.map(Version), "{ours:?} with {theirs:?}");
    }
}

#[test]
fn streams_are_named_after_protocol_and_version() {
    assert_eq!(Protocol::Control.stream_name(Version(1)), "/idlewild/control/1");
    assert_eq!(Protocol::Job.stream_name(Version(2)), "/idlewild/job/2");
    assert_eq!(Protocol::Bulk.stream_name(Version(1)), "/idlewild/bulk/1");
}

#[test]
fn a_protocol_of_a_later_build_is_skipped_and_the_rest_is_read() {
    let ours = hello();
    let mut bytes = ours.to_bytes().unwrap();
    // The list is at the end: a count of 3, then (protocol, min, max) of one byte each.
    let count = bytes.len() - 10;
    assert_eq!(bytes[count], 3);
    bytes[count] = 5;
    bytes.extend_from_slice(&[3, 1, 4]);
    bytes.extend_from_slice(&[0xfc, 0xff, 0xff, 0xff, 0xff, 1, 1]);
    assert_eq!(Hello::from_bytes(&bytes), Ok(ours));
}

proptest! {
    #[test]
    fn both_sides_come_to_the_same_version_and_both_speak_it(a in any::<[u16; 4]>()) {
        let (ours, theirs) = (range(a[0], a[1]), range(a[2], a[3]));
        let version = negotiate(ours, theirs);
        prop_assert_eq!(version, negotiate(theirs, ours));
        let speaks = |range: VersionRange, v: u16| (range.min.0..=range.max.0).contains(&v);
        let common = (a[0].min(a[2])..=a[1].max(a[3])).rev().find(|v| speaks(ours, *v) && speaks(theirs, *v));
        prop_assert_eq!(version, common.map(Version));
    }
}
