//! How a destination gets a context while its source goes on decoding, and what that takes: `policy.md` section 2.
//!
//! Four ways, each a function of the same rates. W is the time until the destination keeps up, S the stall that is seen
//! at the hand-off. S hardly depends on context and link: those say how long the preparation takes and what it costs.
//!
//! Deliberately absent: which way to take (`choice`), and whether to prepare at all (`policy`).

pub use idlewild_protocol::Way;

use super::Overheads;

/// Rates of one preparation. Positive and finite, but for `decode_tps` and `kv_tps`, which may be 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Route {
    /// c: tokens to move, as of now.
    pub context_tokens: f64,
    /// d_i: tokens a second that the source adds.
    pub decode_tps: f64,
    /// p_j: tokens a second that the destination prefills.
    pub prefill_tps: f64,
    /// b: tokens a second of KV that the link carries; 0 where KV cannot travel.
    pub kv_tps: f64,
    /// Kappa: bytes of KV a token.
    pub kv_bytes_per_token: f64,
    /// RTT: seconds there and back.
    pub round_trip_s: f64,
    /// O_k: seconds of one more round of the destination's prefill, beside its tokens.
    pub round_s: f64,
}

/// What a way takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Preparation {
    /// Which way.
    pub way: Way,
    /// Seconds until the first token is prefilled or arrives.
    pub begins_s: f64,
    /// W: seconds until the destination keeps up.
    pub ready_s: f64,
    /// S: seconds of stall at the hand-off.
    pub stall_s: f64,
    /// Seconds of the destination's prefill.
    pub destination_work_s: f64,
    /// Bytes over the link.
    pub bytes: f64,
    /// Tokens a second by which what the destination holds grows from then on.
    pub gain_tps: f64,
}

/// Bytes of an id on the wire.
const BYTES_PER_ID: f64 = 4.0;

/// Rounds after which a prefill that does not catch up never will.
const ROUNDS_MAX: u32 = 64;

/// O_k of a destination: its step passes over all weights however little it reads. One of a single token takes 1/d_j, of
/// which 1/p_j is the token's. Never less than nothing, and nothing where the rates are none.
pub fn round_s(decode_tps: f64, prefill_tps: f64) -> f64 {
    (1.0 / decode_tps - 1.0 / prefill_tps).max(0.0)
}

/// Ids only: rounds of prefill, each over what came during the one before: n' = d_i (O_k + n/p_j). None where it never
/// keeps up: the source outruns the prefill (rho >= 1), or the lag that the rounds settle at, d_i O_k/(1 - rho), is too
/// much for a hand-off.
pub fn ids_only(route: &Route, overheads: &Overheads) -> Option<Preparation> {
    let limit_tokens = overheads.lag_limit_tokens(route.decode_tps);
    let rho = route.decode_tps / route.prefill_tps;
    if rho >= 1.0 || route.decode_tps * route.round_s > limit_tokens * (1.0 - rho) {
        return None;
    }
    let (mut ready_s, mut round_overhead_s, mut lag_tokens) = (0.0, overheads.recompute_s, route.context_tokens);
    for _ in 0..ROUNDS_MAX {
        let round_s = round_overhead_s + lag_tokens / route.prefill_tps;
        ready_s += round_s;
        lag_tokens = route.decode_tps * round_s;
        round_overhead_s = route.round_s;
        if lag_tokens <= limit_tokens {
            let tokens = route.context_tokens + route.decode_tps * ready_s;
            return Some(Preparation {
                way: Way::Ids,
                begins_s: overheads.recompute_s,
                ready_s,
                stall_s: overheads.hand_off_s + route.round_trip_s + lag_tokens / route.prefill_tps,
                destination_work_s: tokens / route.prefill_tps,
                bytes: BYTES_PER_ID * tokens,
                gain_tps: route.prefill_tps,
            });
        }
    }
    None
}

/// KV pre-copy. None where the link is no faster than the source decodes.
pub fn pre_copy(route: &Route, overheads: &Overheads) -> Option<Preparation> {
    let closing_tps = route.kv_tps - route.decode_tps;
    if closing_tps <= 0.0 {
        return None;
    }
    let arriving_s = (route.context_tokens + route.decode_tps * overheads.transfer_s) / closing_tps;
    Some(Preparation {
        way: Way::PreCopy,
        begins_s: overheads.transfer_s,
        ready_s: overheads.transfer_s + arriving_s,
        stall_s: overheads.hand_off_s + route.round_trip_s + overheads.block_tokens / route.kv_tps,
        destination_work_s: 0.0,
        bytes: route.kv_tps * arriving_s * route.kv_bytes_per_token,
        gain_tps: route.kv_tps,
    })
}

/// Prefill from the front, KV from the middle on. None where both together are no faster than the source decodes, or no
/// KV can travel.
pub fn hybrid(route: &Route, overheads: &Overheads) -> Option<Preparation> {
    let gain_tps = route.prefill_tps + route.kv_tps;
    let closing_tps = gain_tps - route.decode_tps;
    if route.kv_tps <= 0.0 || closing_tps <= 0.0 {
        return None;
    }
    let working_s = (route.context_tokens + route.decode_tps * overheads.recompute_s) / closing_tps;
    let last_block_s = overheads.block_tokens / route.kv_tps.max(route.prefill_tps);
    Some(Preparation {
        way: Way::Hybrid,
        begins_s: overheads.recompute_s,
        ready_s: overheads.recompute_s + working_s,
        stall_s: overheads.hand_off_s + route.round_trip_s + last_block_s,
        destination_work_s: working_s,
        bytes: route.kv_tps * working_s * route.kv_bytes_per_token,
        gain_tps,
    })
}

/// The source has stopped: prefill from the front and KV from the back meet. Until they do, the stall lasts. One alone
/// does it where the other would only begin after that.
pub fn stopped_split(route: &Route, overheads: &Overheads) -> Preparation {
    let (prefill_tps, kv_tps) = (route.prefill_tps, route.kv_tps);
    let starts = prefill_tps * overheads.recompute_s + kv_tps * overheads.transfer_s;
    let together_s = (route.context_tokens + starts) / (prefill_tps + kv_tps);
    let prefill_s = overheads.recompute_s + route.context_tokens / prefill_tps;
    let copy_s = if kv_tps > 0.0 { overheads.transfer_s + route.context_tokens / kv_tps } else { f64::INFINITY };
    let stall_s = if together_s < overheads.transfer_s {
        prefill_s
    } else if together_s < overheads.recompute_s {
        copy_s
    } else {
        together_s
    };
    let destination_work_s = (stall_s - overheads.recompute_s).max(0.0);
    let sent_tokens = kv_tps * (stall_s - overheads.transfer_s).max(0.0);
    Preparation {
        way: Way::StoppedSplit,
        begins_s: overheads.recompute_s.min(overheads.transfer_s),
        ready_s: 0.0,
        stall_s,
        destination_work_s,
        bytes: sent_tokens * route.kv_bytes_per_token,
        gain_tps: prefill_tps + kv_tps,
    }
}
