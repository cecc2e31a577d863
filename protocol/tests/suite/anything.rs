//! Any valid message, for the properties: full ranges of numbers, lists from empty to a little over the usual.

use idlewild_protocol::{
    Ballot, BootId, BulkRequest, Certificate, CertificateChain, ChunkHeader, ContextOpen, ContextRefusal, ContextReply,
    ContextRequest, ControlMessage, CoordinatorView, Credential, DepartureCause, Digest, DigestVersion,
    ElectionMessage, Epoch, FinishReason, Hello, HelloReply, JobEvent, JobFailure, JobInput, JobRequest, JobStart,
    LayoutFingerprint, MAX_CHUNK_BYTES, MAX_CHUNK_TOKENS, MAX_PLACES_PER_MEMBER, MAX_PROBE_BYTES, ModelId, ModelInfo,
    ModelLoad, MoveTimes, Neighbours, PairRate, PeerId, PeerState, PeerTerms, PlaceOutcome, PlaceReply, PlaceRequest,
    Protocol, Pull, PullPart, QuantisedSurvival, QuantisedTime, Refusal, RequestId, Role, Sampling, SwarmId, Term,
    Ticket, TicketId, TicketSecret, TokenId, Unfit, Version, VersionRange, Whereabouts,
};
use proptest::array::uniform;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::samples::signed;

fn peer() -> impl Strategy<Value = PeerId> {
    any::<[u8; 32]>().prop_map(PeerId)
}

fn model() -> impl Strategy<Value = ModelId> {
    any::<[u8; 32]>().prop_map(ModelId)
}

fn request() -> impl Strategy<Value = RequestId> {
    any::<[u8; 16]>().prop_map(RequestId)
}

fn ids() -> impl Strategy<Value = Vec<TokenId>> {
    vec(any::<u32>().prop_map(TokenId), 0..200)
}

fn text() -> impl Strategy<Value = String> {
    vec(any::<char>(), 0..60).prop_map(String::from_iter)
}

fn cause() -> impl Strategy<Value = DepartureCause> {
    use DepartureCause::{Battery, Crash, Network, OwnerReturned, Rule, Shutdown, Sleep, Unknown};
    select(vec![OwnerReturned, Sleep, Shutdown, Battery, Rule, Network, Crash, Unknown])
}

fn certificate() -> impl Strategy<Value = Certificate> {
    let role = select(vec![Role::Member, Role::MayInvite]);
    (any::<[u8; 32]>(), peer(), role, any::<u64>(), uniform::<_, 64>(any::<u8>())).prop_map(
        |(swarm, peer, role, not_after_s, signature)| Certificate {
            swarm: SwarmId(swarm),
            peer,
            role,
            not_after_s,
            signature,
        },
    )
}

pub(crate) fn chain() -> impl Strategy<Value = CertificateChain> {
    vec(certificate(), 1..=2).prop_map(CertificateChain)
}

pub(crate) fn hello() -> impl Strategy<Value = Hello> {
    let range = (any::<u16>(), any::<u16>()).prop_map(|(a, b)| VersionRange { min: Version(a), max: Version(b) });
    let versions = vec((select(Protocol::ALL.to_vec()), range), 0..=16);
    (any::<[u8; 32]>(), any::<[u8; 32]>(), any::<u64>(), versions)
        .prop_map(|(nonce, swarm_tag, boot, versions)| Hello { nonce, swarm_tag, boot: BootId(boot), versions })
}

pub(crate) fn credential() -> impl Strategy<Value = Credential> {
    let newcomer = (any::<[u8; 8]>(), any::<[u8; 32]>())
        .prop_map(|(ticket, proof)| Credential::Newcomer { ticket: TicketId(ticket), proof });
    prop_oneof![chain().prop_map(Credential::Member), newcomer]
}

pub(crate) fn hello_reply() -> impl Strategy<Value = HelloReply> {
    let refusal = select(vec![Refusal::OtherSwarm, Refusal::TicketUsed, Refusal::Clone, Refusal::Busy]);
    prop_oneof![
        (chain(), option::of(chain())).prop_map(|(listener, newcomer)| HelloReply::Welcome { listener, newcomer }),
        refusal.prop_map(HelloReply::Refused),
    ]
}

fn load() -> impl Strategy<Value = ModelLoad> {
    let rates = (0.0..1e6_f32, 0.0..1e6_f32);
    let counts = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>(), any::<u16>(), any::<u16>());
    (model(), any::<bool>(), rates, counts).prop_map(|(model, loaded, rates, counts)| ModelLoad {
        model,
        loaded,
        decode_tps: rates.0,
        prefill_tps: rates.1,
        decode_doubles_at: counts.4 ^ 1,
        prefill_doubles_at: counts.5 ^ 1,
        kv_bytes_per_token: counts.0,
        context_tokens: counts.1,
        kv_free_tokens: counts.2,
        queue_wait_ms: counts.3,
        running: counts.4,
        slots: counts.5,
    })
}

fn pair() -> impl Strategy<Value = PairRate> {
    (peer(), any::<u64>(), any::<u32>()).prop_map(|(peer, bytes_per_s, rtt_us)| PairRate { peer, bytes_per_s, rtt_us })
}

fn state() -> impl Strategy<Value = PeerState> {
    let leaving = (cause(), any::<u32>()).prop_map(|(cause, notice_ms)| PeerState::Leaving { cause, notice_ms });
    prop_oneof![Just(PeerState::Serving), Just(PeerState::Busy), leaving]
}

/// Any codes.
fn move_times(codes: u64) -> MoveTimes {
    let [hand_off, transfer_start, prefill_start, detection, ..] = codes.to_le_bytes().map(QuantisedTime);
    MoveTimes { hand_off, transfer_start, prefill_start, detection }
}

/// Any digest, also one that must shed pairs to be signed.
pub(crate) fn digest() -> impl Strategy<Value = Digest> {
    let who = (peer(), any::<u64>(), any::<u64>(), state(), any::<u32>());
    let survival = any::<[u8; 16]>().prop_map(|mut codes| {
        codes.sort_unstable();
        QuantisedSurvival(codes)
    });
    let coordinator =
        option::of((any::<u64>(), peer()).prop_map(|(term, leader)| CoordinatorView { term: Term(term), leader }));
    (who, survival, vec(load(), 0..=4), any::<(u64, u64)>(), vec(pair(), 0..=6), coordinator).prop_map(
        |(who, survival, models, rates, pairs, coordinator)| Digest {
            peer: who.0,
            boot: BootId(who.1),
            sequence: who.2,
            state: who.3,
            age_s: who.4,
            survival,
            models,
            up_bytes_per_s: rates.0,
            down_bytes_per_s: rates.1,
            move_times: move_times(rates.0 ^ rates.1),
            pairs,
            coordinator,
        },
    )
}

fn version() -> impl Strategy<Value = DigestVersion> {
    (peer(), any::<u64>(), any::<u64>()).prop_map(|(peer, boot, sequence)| DigestVersion {
        peer,
        boot: BootId(boot),
        sequence,
    })
}

fn election() -> impl Strategy<Value = ElectionMessage> {
    let term = || any::<u64>().prop_map(Term);
    prop_oneof![
        term().prop_map(|term| ElectionMessage::Beat { term }),
        (term(), peer()).prop_map(|(term, candidate)| ElectionMessage::RequestVote(Ballot { term, candidate })),
        (term(), any::<bool>()).prop_map(|(term, granted)| ElectionMessage::Vote { term, granted }),
        (term(), peer()).prop_map(|(term, successor)| ElectionMessage::HandOver { term, successor }),
    ]
}

fn place() -> impl Strategy<Value = PlaceRequest> {
    let counts = any::<(u32, u32, u32, u32)>();
    (request(), model(), counts, vec(peer(), 0..=32)).prop_map(|(request, model, counts, excluded)| PlaceRequest {
        request,
        attempt: counts.0,
        model,
        prompt_tokens: counts.1,
        expected_output_tokens: counts.2,
        done_tokens: counts.3,
        excluded,
    })
}

fn terms() -> impl Strategy<Value = PeerTerms> {
    use Unfit::{ContextTooLong, JustFailed, Leaving, NoModel, OwnerPresent, Unreachable};
    let unfit = option::of(select(vec![
        NoModel,
        ContextTooLong { context_tokens: 4096 },
        OwnerPresent,
        Leaving,
        JustFailed,
        Unreachable,
    ]));
    (peer(), unfit, [0.0..1e9, 0.0..1e9, 0.0..1e9, 0.0..1.0]).prop_map(|(peer, unfit, number)| PeerTerms {
        peer,
        unfit,
        wait_s: number[0],
        service_s: number[1],
        loss_s: number[2],
        leave_probability: number[3],
    })
}

fn placed() -> impl Strategy<Value = PlaceReply> {
    let run = (peer(), option::of(peer())).prop_map(|(worker, fallback)| PlaceOutcome::Run { worker, fallback });
    let outcome = prop_oneof![Just(PlaceOutcome::Nowhere), run];
    (request(), any::<u32>(), any::<u64>(), outcome, vec(terms(), 0..=16)).prop_map(
        |(request, attempt, term, outcome, terms)| PlaceReply { request, attempt, term: Term(term), outcome, terms },
    )
}

fn info() -> impl Strategy<Value = ModelInfo> {
    (model(), "[a-z0-9._-]{1,96}", any::<u64>(), any::<u32>())
        .prop_map(|(id, name, size_bytes, context_tokens)| ModelInfo { id, name, size_bytes, context_tokens })
}

fn neighbours() -> impl Strategy<Value = Neighbours> {
    let place = (any::<std::net::IpAddr>(), any::<u16>()).prop_map(std::net::SocketAddr::from);
    let about = (vec(place, 0..=MAX_PLACES_PER_MEMBER), any::<bool>());
    (any::<bool>(), btree_map(peer(), about, 0..=20)).prop_map(|(relays, members)| Neighbours {
        relays,
        members: members.into_iter().map(|(peer, (places, reserved))| Whereabouts { peer, places, reserved }).collect(),
    })
}

pub(crate) fn control() -> impl Strategy<Value = ControlMessage> {
    let some_signed = || digest().prop_map(|digest| signed(&digest, 2));
    prop_oneof![
        1 => any::<u64>().prop_map(|nonce| ControlMessage::Ping { nonce }),
        1 => any::<u64>().prop_map(|nonce| ControlMessage::Pong { nonce }),
        1 => some_signed().prop_map(ControlMessage::Digest),
        1 => version().prop_map(ControlMessage::Unchanged),
        1 => vec(version(), 0..=40).prop_map(ControlMessage::Versions),
        1 => vec(some_signed(), 0..=4).prop_map(ControlMessage::Digests),
        1 => election().prop_map(ControlMessage::Election),
        1 => place().prop_map(ControlMessage::Place),
        1 => placed().prop_map(ControlMessage::Placed),
        1 => (cause(), any::<u32>()).prop_map(|(cause, notice_ms)| ControlMessage::Goodbye { cause, notice_ms }),
        1 => vec(info(), 0..=10).prop_map(ControlMessage::Models),
        1 => neighbours().prop_map(ControlMessage::Neighbours),
        4 => crate::plans::any_control(),
    ]
}

fn sampling() -> impl Strategy<Value = Sampling> {
    let shares = (0.0..=10.0_f32, 0.0..=1.0_f32, 0.0..=1.0_f32, 0.01..=10.0_f32, -10.0..=10.0_f32, -10.0..=10.0_f32);
    (shares, any::<u32>(), any::<u32>(), any::<u64>()).prop_map(|(shares, top_k, penalty_last_n, seed)| Sampling {
        temperature: shares.0,
        top_k,
        top_p: shares.1,
        min_p: shares.2,
        repeat_penalty: shares.3,
        frequency_penalty: shares.4,
        presence_penalty: shares.5,
        penalty_last_n,
        seed,
    })
}

fn pull() -> impl Strategy<Value = Pull> {
    (peer(), select(vec![PullPart::Whole, PullPart::Rest])).prop_map(|(holder, part)| Pull { holder, part })
}

fn start() -> impl Strategy<Value = Box<JobStart>> {
    let input = prop_oneof![
        text().prop_map(|messages_json| JobInput::Chat { messages_json }),
        text().prop_map(|prompt| JobInput::Text { prompt }),
        (ids(), ids()).prop_map(|(prompt, generated)| JobInput::Tokens { prompt, generated }),
    ];
    let stop = vec(vec(any::<char>(), 1..60).prop_map(String::from_iter), 0..=16);
    let who = (request(), any::<u32>().prop_map(Epoch), model(), option::of(pull()));
    (who, input, sampling(), 1..=u32::MAX, stop).prop_map(
        |((request, epoch, model, pull), input, sampling, max_tokens, stop)| {
            Box::new(JobStart { request, epoch, model, input, sampling, max_tokens, stop, pull })
        },
    )
}

pub(crate) fn job_request() -> impl Strategy<Value = JobRequest> {
    let forward = (any::<u32>(), vec(any::<u32>().prop_map(TokenId), 1..200));
    let take_over = any::<(u32, u32)>();
    prop_oneof![
        9 => start().prop_map(JobRequest::Start),
        3 => start().prop_map(JobRequest::Prepare),
        1 => select(vec![JobRequest::Cancel, JobRequest::CatchUp, JobRequest::GoOn]),
        1 => forward.prop_map(|(from_index, ids)| JobRequest::Forward { from_index, ids }),
        1 => any::<bool>().prop_map(|warm| JobRequest::Keep { warm }),
        1 => take_over.prop_map(|(epoch, from_index)| JobRequest::TakeOver { epoch: Epoch(epoch), from_index }),
        1 => any::<u32>().prop_map(|index| JobRequest::StopAfter { index }),
        1 => option::of(peer()).prop_map(|to| JobRequest::Offer { to }),
    ]
}

pub(crate) fn job_event() -> impl Strategy<Value = JobEvent> {
    let epoch = || any::<u32>().prop_map(Epoch);
    let failure = prop_oneof![
        text().prop_map(JobFailure::Model),
        any::<(u32, u32)>().prop_map(|(a, b)| JobFailure::PromptTooLong { prompt_tokens: a, context_tokens: b }),
        text().prop_map(JobFailure::BadInput),
        text().prop_map(JobFailure::Engine),
        select(vec![JobFailure::Busy, JobFailure::Leaving, JobFailure::Restarting]),
    ];
    let reason = select(vec![FinishReason::Stop, FinishReason::Length]);
    prop_oneof![
        (epoch(), ids()).prop_map(|(epoch, prompt)| JobEvent::Accepted { epoch, prompt }),
        (epoch(), any::<(u32, u32)>()).prop_map(|(epoch, n)| JobEvent::Prefilled { epoch, done: n.0, total: n.1 }),
        (epoch(), any::<(u32, u32)>(), text()).prop_map(|(epoch, n, text)| JobEvent::Token {
            epoch,
            index: n.0,
            id: TokenId(n.1),
            text
        }),
        (epoch(), reason, text()).prop_map(|(epoch, reason, text)| JobEvent::Finished { epoch, reason, text }),
        (epoch(), failure).prop_map(|(epoch, failure)| JobEvent::Failed { epoch, failure }),
        (epoch(), cause(), any::<u32>()).prop_map(|(epoch, cause, n)| JobEvent::Leaving { epoch, cause, notice_ms: n }),
        (epoch(), any::<(u32, u32, u64)>()).prop_map(|(epoch, n)| JobEvent::Held {
            epoch,
            tokens: n.0,
            pulled_tokens: n.1,
            pulled_bytes: n.2
        }),
    ]
}

pub(crate) fn ticket() -> impl Strategy<Value = Ticket> {
    let secrets = (any::<[u8; 8]>(), any::<[u8; 32]>(), any::<u64>());
    (any::<[u8; 32]>(), peer(), vec("[ -~]{0,80}", 0..=8), secrets).prop_map(
        |(swarm, issuer, addresses, (id, secret, not_after_s))| Ticket {
            swarm: SwarmId(swarm),
            issuer,
            addresses,
            id: TicketId(id),
            secret: TicketSecret(secret),
            not_after_s,
        },
    )
}

pub(crate) fn bulk_request() -> impl Strategy<Value = BulkRequest> {
    let open = (peer(), request(), model(), any::<[u8; 32]>()).prop_map(|(origin, request, model, layout)| {
        BulkRequest::Context(ContextOpen { origin, request, model, layout: LayoutFingerprint(layout) })
    });
    prop_oneof![(1..=MAX_PROBE_BYTES).prop_map(|bytes| BulkRequest::Probe { bytes }), open]
}

/// A range of positions that a chunk may have.
fn range() -> impl Strategy<Value = (u32, u32)> {
    (0..u32::MAX - MAX_CHUNK_TOKENS, 1..=MAX_CHUNK_TOKENS).prop_map(|(from, count)| (from, from + count))
}

pub(crate) fn context_request() -> impl Strategy<Value = ContextRequest> {
    prop_oneof![
        range().prop_map(|(from, to)| ContextRequest::Pull { from, to }),
        any::<u64>().prop_map(|bytes| ContextRequest::Received { bytes }),
    ]
}

pub(crate) fn context_reply() -> impl Strategy<Value = ContextReply> {
    use ContextRefusal::{Busy, Gone, NotHeld, NotOffered, OtherLayout};
    let hashes = any::<([u8; 32], [u8; 32])>();
    let chunk =
        (model(), hashes, range(), 1..=MAX_CHUNK_BYTES).prop_map(|(model, (layout, hash), (from, to), bytes)| {
            ContextReply::Chunk(ChunkHeader { model, layout: LayoutFingerprint(layout), from, to, bytes, hash })
        });
    let refused = select(vec![NotOffered, OtherLayout, NotHeld, Busy, Gone]).prop_map(ContextReply::Refused);
    prop_oneof![chunk, refused]
}
