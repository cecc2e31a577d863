//! The largest honest message of each kind fits its limit, and one element more is refused by writer and reader alike.

use idlewild_protocol::{
    BootId, BulkRequest, Certificate, CertificateChain, ChunkHeader, ContextReply, ContextRequest, ControlMessage,
    Digest, DigestVersion, EncodeError, Epoch, Hello, HelloReply, JobEvent, JobFailure, JobInput, JobRequest, JobStart,
    LayoutFingerprint, MAX_CHUNK_BYTES, MAX_CHUNK_TOKENS, MAX_DIGEST_BYTES, MAX_DIGESTS_PER_MESSAGE,
    MAX_EXCLUDED_PEERS, MAX_FAILURE_BYTES, MAX_FORWARD_TOKENS, MAX_INPUT_BYTES, MAX_MODELS_PER_DIGEST,
    MAX_MODELS_PER_MESSAGE, MAX_NAME_BYTES, MAX_NEIGHBOURS_PER_MESSAGE, MAX_PAIRS_PER_DIGEST, MAX_PLACES_PER_MEMBER,
    MAX_PROBE_BYTES, MAX_STOP_BYTES, MAX_STOPS, MAX_TERMS_PER_PLAN, MAX_TEXT_BYTES, MAX_VERSIONS_PER_MESSAGE, Message,
    ModelId, ModelInfo, ModelLoad, MoveTimes, Neighbours, PairRate, PeerId, PeerTerms, PlaceOutcome, PlaceReply,
    PlaceRequest, Protocol, QuantisedSurvival, QuantisedTime, RequestId, Role, Sampling, Term, TokenId, Unfit, Version,
    VersionRange, Whereabouts, frame,
};

use crate::samples::{certificate, digest, peer, signed, start};

const OUT_OF_RANGE: Result<(), EncodeError> = Err(EncodeError::OutOfRange);

fn written<M: Message>(message: &M) -> Result<(), EncodeError> {
    let bytes = message.to_bytes()?;
    assert!(M::from_bytes(&bytes).is_ok());
    Ok(())
}

/// A digest in which every number has as many digits as it can.
fn longest_digest(models: usize, pairs: usize) -> Digest {
    let load = ModelLoad {
        model: ModelId([0xff; 32]),
        loaded: true,
        decode_tps: f32::MAX,
        prefill_tps: f32::MAX,
        decode_doubles_at: u16::MAX,
        prefill_doubles_at: u16::MAX,
        kv_bytes_per_token: u32::MAX,
        context_tokens: u32::MAX,
        kv_free_tokens: u32::MAX,
        queue_wait_ms: u32::MAX,
        running: u16::MAX,
        slots: u16::MAX,
    };
    let pair = PairRate { peer: PeerId([0xff; 32]), bytes_per_s: u64::MAX, rtt_us: u32::MAX };
    let longest = QuantisedTime(u8::MAX);
    Digest {
        boot: BootId(u64::MAX),
        sequence: u64::MAX,
        state: idlewild_protocol::PeerState::Leaving {
            cause: idlewild_protocol::DepartureCause::Unknown,
            notice_ms: u32::MAX,
        },
        age_s: u32::MAX,
        survival: QuantisedSurvival([255; 16]),
        models: vec![load; models],
        up_bytes_per_s: u64::MAX,
        down_bytes_per_s: u64::MAX,
        move_times: MoveTimes {
            hand_off: longest,
            transfer_start: longest,
            prefill_start: longest,
            detection: longest,
        },
        pairs: vec![pair; pairs],
        coordinator: Some(idlewild_protocol::CoordinatorView { term: Term(u64::MAX), leader: PeerId([0xff; 32]) }),
        ..digest()
    }
}

/// Bytes of a signed digest on the wire: the message that carries it, less its tag.
fn wire_bytes(digest: &Digest) -> usize {
    ControlMessage::Digest(signed(digest, 2)).to_bytes().unwrap().len() - 1
}

#[test]
fn a_signed_digest_with_the_maximum_contents_fits() {
    let fullest = longest_digest(MAX_MODELS_PER_DIGEST, MAX_PAIRS_PER_DIGEST);
    assert!(wire_bytes(&fullest) <= MAX_DIGEST_BYTES);
    let read = signed(&fullest, 2).verify().unwrap();
    assert_eq!(read.models, fullest.models, "models are never left out");
}

#[test]
fn a_usual_digest_keeps_all_its_pairs() {
    let mut usual = digest();
    usual.models.push(usual.models[0]);
    usual.pairs = vec![usual.pairs[0]; MAX_PAIRS_PER_DIGEST - 1];
    assert_eq!(signed(&usual, 2).verify().unwrap(), usual);
    usual.models.pop();
    usual.pairs.push(usual.pairs[0]);
    assert_eq!(signed(&usual, 2).verify().unwrap(), usual);
}

#[test]
fn a_digest_out_of_range_is_neither_signed_nor_believed() {
    let falling = QuantisedSurvival([9, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8]);
    let bad_rate =
        |rate: f32| Digest { models: vec![ModelLoad { decode_tps: rate, ..digest().models[0] }], ..digest() };
    let cases = [
        Digest { survival: falling, ..digest() },
        Digest { models: vec![digest().models[0]; MAX_MODELS_PER_DIGEST + 1], ..digest() },
        Digest { pairs: vec![digest().pairs[0]; MAX_PAIRS_PER_DIGEST + 1], ..digest() },
        bad_rate(f32::NAN),
        bad_rate(f32::INFINITY),
        bad_rate(-1.0),
    ];
    for case in cases {
        assert_eq!(written(&case), OUT_OF_RANGE, "{case:?}");
    }
}

#[test]
fn a_digest_changed_on_its_way_or_signed_by_another_is_not_believed() {
    let honest = ControlMessage::Digest(signed(&digest(), 2)).to_bytes().unwrap();
    let verified = |bytes: &[u8]| match ControlMessage::from_bytes(bytes) {
        Ok(ControlMessage::Digest(digest)) => digest.verify().is_ok(),
        Ok(_) | Err(_) => false,
    };
    assert!(verified(&honest));
    for at in 1..honest.len() {
        let mut changed = honest.clone();
        changed[at] ^= 1;
        assert!(!verified(&changed), "byte {at}");
    }
    let by_another = ControlMessage::Digest(signed(&digest(), 3)).to_bytes().unwrap();
    assert!(!verified(&by_another));
}

#[test]
fn the_longest_control_messages_fit_and_one_element_more_does_not() {
    let version = DigestVersion { peer: peer(2), boot: BootId(u64::MAX), sequence: u64::MAX };
    let of_versions = |n| ControlMessage::Versions(vec![version; n]);
    let fullest = signed(&longest_digest(MAX_MODELS_PER_DIGEST, MAX_PAIRS_PER_DIGEST), 2);
    let of_digests = |n| ControlMessage::Digests(vec![fullest.clone(); n]);
    let info = |name: usize| ModelInfo {
        id: ModelId([1; 32]),
        name: "m".repeat(name),
        size_bytes: u64::MAX,
        context_tokens: u32::MAX,
    };
    let of_models = |n, name| ControlMessage::Models(vec![info(name); n]);
    let cases = [
        (of_versions(MAX_VERSIONS_PER_MESSAGE), of_versions(MAX_VERSIONS_PER_MESSAGE + 1)),
        (of_digests(MAX_DIGESTS_PER_MESSAGE), of_digests(MAX_DIGESTS_PER_MESSAGE + 1)),
        (of_models(MAX_MODELS_PER_MESSAGE, MAX_NAME_BYTES), of_models(MAX_MODELS_PER_MESSAGE + 1, 1)),
        (of_models(1, 1), of_models(1, 0)),
        (of_models(1, MAX_NAME_BYTES), of_models(1, MAX_NAME_BYTES + 1)),
        (of_neighbours(MAX_NEIGHBOURS_PER_MESSAGE, 1), of_neighbours(MAX_NEIGHBOURS_PER_MESSAGE + 1, 1)),
        (of_neighbours(MAX_NEIGHBOURS_PER_MESSAGE, MAX_PLACES_PER_MEMBER), of_neighbours(1, MAX_PLACES_PER_MEMBER + 1)),
        (question(MAX_EXCLUDED_PEERS), question(MAX_EXCLUDED_PEERS + 1)),
        (answer(MAX_TERMS_PER_PLAN, 0.0), answer(MAX_TERMS_PER_PLAN + 1, 0.0)),
        (answer(1, f64::MAX), answer(1, f64::INFINITY)),
        (answer(1, f64::MIN), answer(1, f64::NAN)),
    ];
    for (longest, too_long) in cases {
        assert_eq!(written(&longest), Ok(()));
        assert_eq!(written(&too_long), OUT_OF_RANGE);
    }
}

fn of_neighbours(members: usize, places: usize) -> ControlMessage {
    let member = |n: usize| {
        let mut id = [0xff; 32];
        id[..2].copy_from_slice(&(n as u16).to_be_bytes());
        Whereabouts { peer: PeerId(id), places: vec![([0xffff; 8], u16::MAX).into(); places], reserved: true }
    };
    ControlMessage::Neighbours(Neighbours { relays: true, members: (0..members).map(member).collect() })
}

#[test]
fn neighbours_are_told_once_each_and_in_order() {
    let told = |ids: &[u8]| {
        let member = |id: &u8| Whereabouts { peer: PeerId([*id; 32]), places: vec![], reserved: false };
        written(&ControlMessage::Neighbours(Neighbours { relays: false, members: ids.iter().map(member).collect() }))
    };
    assert_eq!(told(&[1, 2, 3]), Ok(()));
    assert_eq!(told(&[]), Ok(()));
    assert_eq!(told(&[1, 1]), OUT_OF_RANGE);
    assert_eq!(told(&[2, 1]), OUT_OF_RANGE);
}

fn question(excluded: usize) -> ControlMessage {
    ControlMessage::Place(PlaceRequest {
        request: RequestId([5; 16]),
        attempt: u32::MAX,
        model: ModelId([1; 32]),
        prompt_tokens: u32::MAX,
        expected_output_tokens: u32::MAX,
        done_tokens: u32::MAX,
        excluded: vec![peer(4); excluded],
    })
}

fn answer(terms: usize, wait_s: f64) -> ControlMessage {
    let unfit = Some(Unfit::Unreachable);
    let terms =
        vec![PeerTerms { peer: peer(2), unfit, wait_s, service_s: 1.0, loss_s: 1.0, leave_probability: 1.0 }; terms];
    let outcome = PlaceOutcome::Run { worker: peer(2), fallback: Some(peer(3)) };
    ControlMessage::Placed(PlaceReply {
        request: RequestId([5; 16]),
        attempt: u32::MAX,
        term: Term(u64::MAX),
        outcome,
        terms,
    })
}

#[test]
fn the_longest_hello_fits_and_one_protocol_more_does_not() {
    let range = VersionRange { min: Version(u16::MAX), max: Version(u16::MAX) };
    let of =
        |n| Hello { boot: BootId(u64::MAX), versions: vec![(Protocol::Bulk, range); n], ..crate::samples::hello() };
    assert_eq!(written(&of(16)), Ok(()));
    assert_eq!(written(&of(17)), OUT_OF_RANGE);
}

#[test]
fn chains_have_one_or_two_certificates_also_inside_other_messages() {
    let longest = Certificate { not_after_s: u64::MAX, ..certificate(3, 1, Role::Member, 0) };
    let of = |n| CertificateChain(vec![longest.clone(); n]);
    assert_eq!(written(&of(2)), Ok(()));
    let welcome = |a, b| HelloReply::Welcome { listener: of(a), newcomer: Some(of(b)) };
    assert_eq!(written(&welcome(2, 2)), Ok(()));
    for n in [0, 3] {
        assert_eq!(written(&of(n)), OUT_OF_RANGE);
        assert_eq!(written(&idlewild_protocol::Credential::Member(of(n))), OUT_OF_RANGE);
        assert_eq!(written(&welcome(n, 1)), OUT_OF_RANGE);
        assert_eq!(written(&welcome(1, n)), OUT_OF_RANGE);
    }
}

#[test]
fn a_start_out_of_range_is_refused() {
    let base = || start(JobInput::Text { prompt: String::new() });
    let sampled = |change: fn(&mut Sampling)| {
        let mut start = base();
        change(&mut start.sampling);
        start
    };
    let stopped = |stop: Vec<String>| JobStart { stop, ..base() };
    let good = [base(), stopped(vec!["s".repeat(MAX_STOP_BYTES); MAX_STOPS]), sampled(|s| s.temperature = 10.0)];
    let longest = JobStart {
        input: JobInput::Text { prompt: "x".repeat(MAX_INPUT_BYTES) },
        max_tokens: u32::MAX,
        ..stopped(vec!["s".repeat(MAX_STOP_BYTES); MAX_STOPS])
    };
    assert_eq!(written(&JobRequest::Start(Box::new(longest))), Ok(()));
    let bad = [
        stopped(vec!["s".to_owned(); MAX_STOPS + 1]),
        stopped(vec!["s".repeat(MAX_STOP_BYTES + 1)]),
        stopped(vec![String::new()]),
        JobStart { max_tokens: 0, ..base() },
        sampled(|s| s.temperature = -0.1),
        sampled(|s| s.temperature = f32::NAN),
        sampled(|s| s.top_p = 1.1),
        sampled(|s| s.min_p = f32::INFINITY),
        sampled(|s| s.repeat_penalty = 0.0),
        sampled(|s| s.frequency_penalty = 10.5),
        sampled(|s| s.presence_penalty = f32::NEG_INFINITY),
    ];
    for start in good {
        assert_eq!(written(&JobRequest::Start(Box::new(start))), Ok(()));
    }
    for start in bad {
        let shown = format!("{start:?}");
        assert_eq!(written(&JobRequest::Start(Box::new(start))), OUT_OF_RANGE, "{shown}");
    }
}

#[test]
fn a_prompt_longer_than_its_frame_may_be_is_not_sent() {
    let of = |n| {
        let input = JobInput::Tokens { prompt: vec![TokenId(40_000); n], generated: Vec::new() };
        frame(&JobRequest::Start(Box::new(start(input)))).map(drop)
    };
    // Three bytes an id: every context up to half a million tokens can be moved.
    assert_eq!(of(500_000), Ok(()));
    assert!(matches!(of(700_000), Err(EncodeError::TooLong { limit: JobRequest::MAX_BYTES, .. })));
}

#[test]
fn words_in_events_are_bounded_and_a_failure_can_be_clipped_to_fit() {
    let token = |n| JobEvent::Token { epoch: Epoch(1), index: 0, id: TokenId(1), text: "t".repeat(n) };
    assert_eq!(written(&token(MAX_TEXT_BYTES)), Ok(()));
    assert_eq!(written(&token(MAX_TEXT_BYTES + 1)), OUT_OF_RANGE);
    // Two bytes a character and one before them: the limit falls inside a character.
    let words = format!("x{}", "é".repeat(MAX_FAILURE_BYTES));
    let failed = |failure| JobEvent::Failed { epoch: Epoch(1), failure };
    for failure in [JobFailure::Model(words.clone()), JobFailure::BadInput(words.clone()), JobFailure::Engine(words)] {
        assert_eq!(written(&failed(failure.clone())), OUT_OF_RANGE);
        assert_eq!(written(&failed(failure.clipped())), Ok(()));
    }
    assert_eq!(JobFailure::Busy.clipped(), JobFailure::Busy);
}

#[test]
fn a_probe_of_nothing_or_of_too_much_is_refused() {
    assert_eq!(written(&BulkRequest::Probe { bytes: MAX_PROBE_BYTES }), Ok(()));
    for bytes in [0, MAX_PROBE_BYTES + 1] {
        assert_eq!(written(&BulkRequest::Probe { bytes }), OUT_OF_RANGE);
    }
}

#[test]
fn a_forward_of_nothing_or_of_too_much_is_refused() {
    let of = |n| JobRequest::Forward { from_index: u32::MAX, ids: vec![TokenId(u32::MAX); n] };
    assert_eq!(written(&of(MAX_FORWARD_TOKENS)), Ok(()));
    for n in [0, MAX_FORWARD_TOKENS + 1] {
        assert_eq!(written(&of(n)), OUT_OF_RANGE);
    }
}

#[test]
fn ranges_that_no_chunk_may_have_are_neither_pulled_nor_sent() {
    let header = |from, to, bytes| {
        let (model, layout) = (ModelId([1; 32]), LayoutFingerprint([2; 32]));
        ContextReply::Chunk(ChunkHeader { model, layout, from, to, bytes, hash: [3; 32] })
    };
    let pull = |from, to| ContextRequest::Pull { from, to };
    for (from, to) in [(0, 1), (0, MAX_CHUNK_TOKENS), (u32::MAX - MAX_CHUNK_TOKENS, u32::MAX)] {
        assert_eq!(written(&pull(from, to)), Ok(()));
        assert_eq!(written(&header(from, to, MAX_CHUNK_BYTES)), Ok(()));
    }
    for (from, to) in [(0, 0), (1, 0), (u32::MAX, 0), (0, MAX_CHUNK_TOKENS + 1), (0, u32::MAX)] {
        assert_eq!(written(&pull(from, to)), OUT_OF_RANGE);
        assert_eq!(written(&header(from, to, 1)), OUT_OF_RANGE);
    }
    for bytes in [0, MAX_CHUNK_BYTES + 1, u32::MAX] {
        assert_eq!(written(&header(0, 1, bytes)), OUT_OF_RANGE);
    }
    assert_eq!(written(&ContextRequest::Received { bytes: u64::MAX }), Ok(()));
}

#[test]
fn no_list_has_elements_without_a_size() {
    // A list of nothings could claim any length at no cost in bytes, and the reader would count to it.
    let sizes = [
        size_of::<Certificate>(),
        size_of::<DigestVersion>(),
        size_of::<ModelInfo>(),
        size_of::<ModelLoad>(),
        size_of::<PairRate>(),
        size_of::<PeerId>(),
        size_of::<PeerTerms>(),
        size_of::<(u32, VersionRange)>(),
        size_of::<TokenId>(),
        size_of::<String>(),
    ];
    assert!(sizes.iter().all(|size| *size > 0));
}
