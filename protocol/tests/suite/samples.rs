//! One value of every message, and of every variant in it that has bytes of its own.

use ed25519_dalek::{Signer, SigningKey};
use idlewild_protocol::{
    Ballot, BootId, BulkRequest, Certificate, CertificateChain, ChunkHeader, ContextOpen, ContextRefusal, ContextReply,
    ContextRequest, ControlMessage, CoordinatorView, Credential, DepartureCause, Digest, DigestVersion,
    ElectionMessage, Epoch, FinishReason, Hello, HelloReply, JobEvent, JobFailure, JobInput, JobRequest, JobStart,
    LayoutFingerprint, Measured, ModelId, ModelInfo, ModelLoad, MoveTimes, Neighbours, PairRate, PeerId, PeerState,
    PeerTerms, PlaceOutcome, PlaceReply, PlaceRequest, Protocol, Pull, PullPart, QuantisedSurvival, QuantisedTime,
    Refusal, RequestId, Role, Sampling, SignedDigest, SwarmId, Term, Ticket, TicketId, TicketSecret, TokenId, Unfit,
    Whereabouts,
};

use crate::erased::Sample;

/// The key of a swarm or a peer: the seed is one byte, over and over.
pub(crate) fn key(seed: u8) -> SigningKey {
    SigningKey::from_bytes(&[seed; 32])
}

pub(crate) fn swarm() -> SwarmId {
    SwarmId(key(1).verifying_key().to_bytes())
}

pub(crate) fn peer(seed: u8) -> PeerId {
    PeerId(key(seed).verifying_key().to_bytes())
}

/// A certificate of `of` signed by the key of `by`.
pub(crate) fn certificate(of: u8, by: u8, role: Role, not_after_s: u64) -> Certificate {
    Certificate::issue(swarm(), peer(of), role, not_after_s, |bytes| key(by).sign(bytes).to_bytes())
}

pub(crate) fn signed(digest: &Digest, seed: u8) -> SignedDigest {
    SignedDigest::sign(digest, |bytes| key(seed).sign(bytes).to_bytes()).unwrap()
}

pub(crate) fn digest() -> Digest {
    Digest {
        peer: peer(2),
        boot: BootId(1_770_000_000),
        sequence: 12,
        state: PeerState::Serving,
        age_s: 600,
        survival: QuantisedSurvival::of(|t_s| (-t_s / 3600.0).exp()),
        models: vec![load(true)],
        up_bytes_per_s: 12_500_000,
        down_bytes_per_s: 110_000_000,
        move_times: MoveTimes {
            hand_off: QuantisedTime::of(0.08),
            transfer_start: QuantisedTime::of(0.03),
            prefill_start: QuantisedTime::of(0.25),
            detection: QuantisedTime::default(),
        },
        pairs: vec![PairRate { peer: peer(3), bytes_per_s: 11_800_000, rtt_us: 420 }],
        coordinator: Some(CoordinatorView { term: Term(3), leader: peer(2) }),
    }
}

fn load(loaded: bool) -> ModelLoad {
    ModelLoad {
        model: ModelId([0xab; 32]),
        loaded,
        decode_tps: 89.0,
        prefill_tps: 261.0,
        decode_doubles_at: 2048,
        prefill_doubles_at: 3500,
        kv_bytes_per_token: 23_053,
        context_tokens: 8192,
        kv_free_tokens: 16_000,
        queue_wait_ms: 0,
        running: 1,
        slots: 4,
    }
}

pub(crate) fn hello() -> Hello {
    let nonce = [7; 32];
    Hello {
        nonce,
        swarm_tag: Hello::tag_of(swarm(), &nonce),
        boot: BootId(1_770_000_000),
        versions: Protocol::ALL.map(|protocol| (protocol, protocol.supported())).to_vec(),
    }
}

pub(crate) fn ticket() -> Ticket {
    Ticket {
        swarm: swarm(),
        issuer: peer(2),
        addresses: vec!["/ip4/127.0.0.1/udp/14354/quic-v1".to_owned()],
        id: TicketId([9; 8]),
        secret: TicketSecret([10; 32]),
        not_after_s: 1_770_003_600,
    }
}

pub(crate) fn start(input: JobInput) -> JobStart {
    JobStart {
        request: RequestId([5; 16]),
        epoch: Epoch(1),
        model: ModelId([0xab; 32]),
        input,
        sampling: Sampling { temperature: 0.7, top_k: 40, top_p: 0.95, seed: 42, ..Sampling::default() },
        max_tokens: 200,
        stop: vec!["\n\n".to_owned()],
        pull: None,
    }
}

fn terms(seed: u8, unfit: Option<Unfit>) -> PeerTerms {
    PeerTerms { peer: peer(seed), unfit, wait_s: 0.0, service_s: 2.5, loss_s: 0.25, leave_probability: 0.125 }
}

/// All of them. The bytes of each are in `docs/wire.md` under its kind and name.
pub(crate) fn samples() -> Vec<Sample> {
    let plans = crate::plans::samples();
    [hellos(), control(), election_and_placement(), plans, job_requests(), moving(), job_events(), bulk(), rest()]
        .into_iter()
        .flatten()
        .collect()
}

fn hellos() -> Vec<Sample> {
    let root = certificate(2, 1, Role::MayInvite, 1_800_000_000);
    let invited = CertificateChain(vec![certificate(3, 2, Role::Member, 1_790_000_000), root.clone()]);
    let proof = ticket().secret.proof(&Hello::ticket_context(peer(3), peer(2), &[7; 32], &[8; 32]));
    vec![
        Sample::of("Hello", &hello()),
        Sample::of("Member", &Credential::Member(CertificateChain(vec![root.clone()]))),
        Sample::of("Newcomer", &Credential::Newcomer { ticket: TicketId([9; 8]), proof }),
        Sample::of(
            "Welcome",
            &HelloReply::Welcome { listener: CertificateChain(vec![root]), newcomer: Some(invited.clone()) },
        ),
        Sample::of("Refused", &HelloReply::Refused(Refusal::TicketUsed)),
        Sample::of("Chain", &invited),
    ]
}

fn control() -> Vec<Sample> {
    let version = DigestVersion { peer: peer(2), boot: BootId(1_770_000_000), sequence: 12 };
    let info = ModelInfo {
        id: ModelId([0xab; 32]),
        name: "smollm2-135m-instruct-q4_1".to_owned(),
        size_bytes: 98_362_432,
        context_tokens: 8192,
    };
    let (v4, v6) = (([192, 0, 2, 7], 14_354).into(), ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 2], 14_354).into());
    let neighbours = Neighbours {
        relays: true,
        members: vec![
            Whereabouts { peer: peer(2), places: vec![v4, v6], reserved: true },
            Whereabouts { peer: peer(3), places: vec![], reserved: false },
        ],
    };
    vec![
        Sample::of("Ping", &ControlMessage::Ping { nonce: 42 }),
        Sample::of("Pong", &ControlMessage::Pong { nonce: 42 }),
        Sample::of("Digest", &ControlMessage::Digest(signed(&digest(), 2))),
        Sample::of("Unchanged", &ControlMessage::Unchanged(version)),
        Sample::of("Versions", &ControlMessage::Versions(vec![version])),
        Sample::of("Digests", &ControlMessage::Digests(vec![signed(&digest(), 2)])),
        Sample::of("Goodbye", &ControlMessage::Goodbye { cause: DepartureCause::OwnerReturned, notice_ms: 3000 }),
        Sample::of("Models", &ControlMessage::Models(vec![info])),
        Sample::of("Neighbours", &ControlMessage::Neighbours(neighbours)),
    ]
}

fn election_and_placement() -> Vec<Sample> {
    let election = |message| ControlMessage::Election(message);
    let question = PlaceRequest {
        request: RequestId([5; 16]),
        attempt: 0,
        model: ModelId([0xab; 32]),
        prompt_tokens: 300,
        expected_output_tokens: 200,
        done_tokens: 0,
        excluded: vec![peer(4)],
    };
    let reply = PlaceReply {
        request: RequestId([5; 16]),
        attempt: 0,
        term: Term(3),
        outcome: PlaceOutcome::Run { worker: peer(2), fallback: Some(peer(3)) },
        terms: vec![terms(2, None), terms(4, Some(Unfit::OwnerPresent))],
    };
    let nowhere = PlaceReply { outcome: PlaceOutcome::Nowhere, terms: Vec::new(), ..reply.clone() };
    vec![
        Sample::of("Beat", &election(ElectionMessage::Beat { term: Term(3) })),
        Sample::of(
            "RequestVote",
            &election(ElectionMessage::RequestVote(Ballot { term: Term(4), candidate: peer(3) })),
        ),
        Sample::of("Vote", &election(ElectionMessage::Vote { term: Term(4), granted: true })),
        Sample::of("HandOver", &election(ElectionMessage::HandOver { term: Term(3), successor: peer(3) })),
        Sample::of("Place", &ControlMessage::Place(question)),
        Sample::of("PlacedRun", &ControlMessage::Placed(reply)),
        Sample::of("PlacedNowhere", &ControlMessage::Placed(nowhere)),
    ]
}

fn job_requests() -> Vec<Sample> {
    let chat = JobInput::Chat { messages_json: r#"[{"role":"user","content":"Hi"}]"#.to_owned() };
    let text = JobInput::Text { prompt: "Once upon a time".to_owned() };
    let tokens = JobInput::Tokens { prompt: vec![TokenId(1), TokenId(300)], generated: vec![TokenId(70_000)] };
    let starting = |input| JobRequest::Start(Box::new(start(input)));
    vec![
        Sample::of("StartChat", &starting(chat)),
        Sample::of("StartText", &starting(text)),
        Sample::of("StartTokens", &starting(tokens)),
        Sample::of("Cancel", &JobRequest::Cancel),
    ]
}

/// What an origin says for a planned move.
fn moving() -> Vec<Sample> {
    let tokens = JobInput::Tokens { prompt: vec![TokenId(1), TokenId(300)], generated: vec![TokenId(70_000)] };
    let pull = Some(Pull { holder: peer(2), part: PullPart::Rest });
    let prepare = JobStart { epoch: Epoch(0), pull, ..start(tokens) };
    vec![
        Sample::of("Prepare", &JobRequest::Prepare(Box::new(prepare))),
        Sample::of("Forward", &JobRequest::Forward { from_index: 1, ids: vec![TokenId(28_120), TokenId(28_725)] }),
        Sample::of("Keep", &JobRequest::Keep { warm: true }),
        Sample::of("CatchUp", &JobRequest::CatchUp),
        Sample::of("TakeOver", &JobRequest::TakeOver { epoch: Epoch(2), from_index: 3 }),
        Sample::of("StopAfter", &JobRequest::StopAfter { index: 2 }),
        Sample::of("GoOn", &JobRequest::GoOn),
        Sample::of("Offer", &JobRequest::Offer { to: Some(peer(3)) }),
        Sample::of("Withdraw", &JobRequest::Offer { to: None }),
    ]
}

fn job_events() -> Vec<Sample> {
    let epoch = Epoch(1);
    let failure = JobFailure::PromptTooLong { prompt_tokens: 9000, context_tokens: 8192 };
    vec![
        Sample::of("Accepted", &JobEvent::Accepted { epoch, prompt: vec![TokenId(1), TokenId(300)] }),
        Sample::of("Prefilled", &JobEvent::Prefilled { epoch, done: 256, total: 300 }),
        Sample::of("Token", &JobEvent::Token { epoch, index: 0, id: TokenId(28_120), text: "Hello".to_owned() }),
        Sample::of("Finished", &JobEvent::Finished { epoch, reason: FinishReason::Stop, text: String::new() }),
        Sample::of("Failed", &JobEvent::Failed { epoch, failure }),
        Sample::of("Leaving", &JobEvent::Leaving { epoch, cause: DepartureCause::Sleep, notice_ms: 4000 }),
        Sample::of(
            "Held",
            &JobEvent::Held { epoch: Epoch(0), tokens: 300, pulled_tokens: 256, pulled_bytes: 5_903_360 },
        ),
    ]
}

fn bulk() -> Vec<Sample> {
    let (model, layout) = (ModelId([0xab; 32]), LayoutFingerprint([0xcd; 32]));
    let header = ChunkHeader { model, layout, from: 64, to: 128, bytes: 1_475_392, hash: [0xef; 32] };
    let open = ContextOpen { origin: peer(2), request: RequestId([5; 16]), model, layout };
    vec![
        Sample::of("Probe", &BulkRequest::Probe { bytes: 262_144 }),
        Sample::of("Context", &BulkRequest::Context(open)),
        Sample::of("Measured", &Measured { bytes_per_s: 11_800_000 }),
        Sample::of("Pull", &ContextRequest::Pull { from: 64, to: 128 }),
        Sample::of("Received", &ContextRequest::Received { bytes: 1_475_392 }),
        Sample::of("Chunk", &ContextReply::Chunk(header)),
        Sample::of("RefusedChunk", &ContextReply::Refused(ContextRefusal::NotHeld)),
    ]
}

fn rest() -> Vec<Sample> {
    let leaving = Digest {
        state: PeerState::Leaving { cause: DepartureCause::Battery, notice_ms: 60_000 },
        models: Vec::new(),
        pairs: Vec::new(),
        coordinator: None,
        ..digest()
    };
    vec![Sample::of("Serving", &digest()), Sample::of("LeavingSoon", &leaving), Sample::of("Ticket", &ticket())]
}
