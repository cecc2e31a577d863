//! What is written is read back, whatever the values.

use std::fmt::Debug;

use idlewild_protocol::{EncodeError, Measured, Message};
use proptest::prelude::*;

use crate::anything;
use crate::samples::signed;

fn check<M: Message + Debug + PartialEq>(message: &M) {
    let bytes = message.to_bytes().unwrap();
    assert!(bytes.len() <= M::MAX_BYTES);
    assert_eq!(M::from_bytes(&bytes).as_ref(), Ok(message));
}

proptest! {
    #[test]
    fn hellos_come_back(message in anything::hello()) {
        check(&message);
    }

    #[test]
    fn credentials_come_back(message in anything::credential()) {
        check(&message);
    }

    #[test]
    fn hello_replies_come_back(message in anything::hello_reply()) {
        check(&message);
    }

    #[test]
    fn control_messages_come_back(message in anything::control()) {
        check(&message);
    }

    #[test]
    fn job_requests_come_back(message in anything::job_request()) {
        check(&message);
    }

    #[test]
    fn job_events_come_back(message in anything::job_event()) {
        check(&message);
    }

    #[test]
    fn bulk_messages_come_back(message in anything::bulk_request(), bytes_per_s in any::<u64>()) {
        check(&message);
        check(&Measured { bytes_per_s });
    }

    #[test]
    fn what_is_said_of_contexts_comes_back(request in anything::context_request(), reply in anything::context_reply()) {
        check(&request);
        check(&reply);
    }

    #[test]
    fn chains_come_back(message in anything::chain()) {
        check(&message);
    }

    #[test]
    fn tickets_come_back_as_bytes_and_as_text(message in anything::ticket()) {
        check(&message);
        prop_assert_eq!(message.to_string().parse(), Ok(message));
    }

    #[test]
    fn signed_digests_come_back_with_at_most_their_last_pairs_missing(mut digest in anything::digest()) {
        digest.peer = crate::samples::peer(2);
        let read = signed(&digest, 2).verify().unwrap();
        match digest.to_bytes() {
            Ok(_) => prop_assert_eq!(&read, &digest),
            Err(error) => {
                let too_long = matches!(error, EncodeError::TooLong { .. });
                prop_assert!(too_long && read.pairs.len() < digest.pairs.len());
            }
        }
        digest.pairs.truncate(read.pairs.len());
        prop_assert_eq!(read, digest);
    }
}
