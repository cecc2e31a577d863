//! The routes of this machine's own command line. Shapes: [`super::wire`].

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use idlewild_protocol::RequestId;

use super::wire::{
    DoctorReply, ExplainReply, HazardReply, InviteReply, InviteRequest, ModelsReply, MoveReply, MoveRequest,
    PauseReply, PauseRequest, RequestsReply, RulesReply, StatusReply, StopReply, code,
};
use super::{Api, ApiError, body};
use crate::driver::{Ask, InviteRefused, NoAnswer};
use crate::origin::MoveRefused;
use crate::owner::rules::Pause;
use crate::store::{StoreError, unix_s};

impl From<NoAnswer> for ApiError {
    fn from(none: NoAnswer) -> Self {
        Self::unavailable(none.to_string(), Duration::from_secs(1))
    }
}

impl From<InviteRefused> for ApiError {
    fn from(refused: InviteRefused) -> Self {
        let message = refused.to_string();
        match refused {
            InviteRefused::MayNotInvite => Self::forbidden(code::MAY_NOT_INVITE, message),
            InviteRefused::BadTime { .. } => Self::bad_request(Some("invalid_value"), Some("ttl_s"), message),
            InviteRefused::NotKept(_) | InviteRefused::NoAddress => Self::unavailable(message, Duration::from_secs(5)),
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        Self::unavailable(error.to_string(), Duration::from_secs(5))
    }
}

impl From<MoveRefused> for ApiError {
    fn from(refused: MoveRefused) -> Self {
        let message = refused.to_string();
        match refused {
            MoveRefused::UnknownRequest => Self::not_found(code::UNKNOWN_REQUEST, message),
            MoveRefused::UnknownPeer => Self::not_found(code::UNKNOWN_PEER, message),
            MoveRefused::Ended
            | MoveRefused::LacksModel
            | MoveRefused::TakesNoWork
            | MoveRefused::AlreadyThere
            | MoveRefused::BeingPlaced
            | MoveRefused::Refused(_) => Self::conflict(code::CANNOT_MOVE, message),
        }
    }
}

/// The view, the owner's state, the engine.
pub(super) async fn status(State(api): State<Api>) -> Result<Json<StatusReply>, ApiError> {
    Ok(Json(api.desk.ask(Ask::Status).await?))
}

/// How the owner is looked for, and what is seen.
pub(super) async fn doctor(State(api): State<Api>) -> Result<Json<DoctorReply>, ApiError> {
    Ok(Json(api.desk.ask(Ask::Doctor).await?))
}

/// The models of the swarm.
pub(super) async fn models(State(api): State<Api>) -> Result<Json<ModelsReply>, ApiError> {
    Ok(Json(api.desk.ask(Ask::Models).await?))
}

/// The models of the swarm, once those on disk have been read anew.
pub(super) async fn reread_models(State(api): State<Api>) -> Result<Json<ModelsReply>, ApiError> {
    Ok(Json(api.desk.ask(Ask::Reread).await?))
}

/// How long this peer's session is expected to last.
pub(super) async fn hazard(State(api): State<Api>) -> Result<Json<HazardReply>, ApiError> {
    Ok(Json(api.desk.ask(Ask::Hazard).await??))
}

/// The same once the sessions on record have been read anew.
pub(super) async fn reread_sessions(State(api): State<Api>) -> Result<Json<HazardReply>, ApiError> {
    Ok(Json(api.desk.ask(Ask::RereadSessions).await??))
}

/// Why a request ran where it ran.
pub(super) async fn explain(
    State(api): State<Api>,
    request: Result<Path<String>, PathRejection>,
) -> Result<Json<ExplainReply>, ApiError> {
    let Path(request) = request?;
    let request: RequestId = request
        .parse()
        .map_err(|error| ApiError::bad_request(Some("invalid_value"), Some("request"), format!("{error}")))?;
    api.desk.records().explain(request).await.map(Json).ok_or_else(|| {
        let message = format!("no record of {request} at this peer; it is kept where the request was asked");
        ApiError::not_found(code::UNKNOWN_REQUEST, message)
    })
}

/// The last requests.
pub(super) async fn requests(State(api): State<Api>) -> Json<RequestsReply> {
    Json(RequestsReply { requests: api.desk.records().latest().await })
}

/// A running request is to go on elsewhere.
pub(super) async fn move_request(
    State(api): State<Api>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<MoveReply>, ApiError> {
    let asked: MoveRequest = body::parse(&api, body)?;
    let answer = api.desk.ask(|reply| Ask::Move(asked, reply)).await?;
    match answer {
        Err(MoveRefused::UnknownRequest) if api.desk.records().explain(asked.request).await.is_some() => {
            Err(MoveRefused::Ended.into())
        }
        answer => Ok(Json(answer?)),
    }
}

/// A ticket.
pub(super) async fn invite(
    State(api): State<Api>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<InviteReply>, ApiError> {
    let asked: InviteRequest = body::parse(&api, body)?;
    Ok(Json(api.desk.ask(|reply| Ask::Invite(asked, reply)).await??))
}

/// What every rule says.
pub(super) async fn rules(State(api): State<Api>) -> Result<Json<RulesReply>, ApiError> {
    Ok(Json(api.desk.ask(Ask::Rules).await?))
}

/// Longest pause with an end of its own, in seconds: a year.
const PAUSE_S_MAX: u64 = 31_536_000;

/// No work until it is resumed, or for a while.
pub(super) async fn pause(
    State(api): State<Api>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<PauseReply>, ApiError> {
    let asked: PauseRequest = body::parse(&api, body)?;
    let pause = match asked.for_s {
        None => Pause::UntilResumed,
        Some(for_s) if (1..=PAUSE_S_MAX).contains(&for_s) => Pause::Until { unix_s: unix_s().saturating_add(for_s) },
        Some(_) => {
            let message = format!("a pause lasts 1 to {PAUSE_S_MAX} seconds");
            return Err(ApiError::bad_request(Some(code::INVALID_VALUE), Some("for_s"), message));
        }
    };
    set_pause(&api, pause).await
}

/// The owner has nothing against work any more.
pub(super) async fn resume(State(api): State<Api>) -> Result<Json<PauseReply>, ApiError> {
    set_pause(&api, Pause::None).await
}

async fn set_pause(api: &Api, pause: Pause) -> Result<Json<PauseReply>, ApiError> {
    let kept = api.desk.ask(|reply| Ask::Pause(pause, reply)).await?;
    let forgets = |why| format!("it counts now, but not after a restart: {why}");
    kept.map_err(|why| ApiError::unavailable(forgets(why), Duration::from_secs(5)))?;
    let until_s = match pause {
        Pause::Until { unix_s } => Some(unix_s),
        Pause::None | Pause::UntilResumed => None,
    };
    Ok(Json(PauseReply { is_paused: pause != Pause::None, until_s }))
}

/// The end, as on SIGTERM.
pub(super) async fn stop(State(api): State<Api>) -> Result<Json<StopReply>, ApiError> {
    Ok(Json(api.desk.ask(Ask::Stop).await?))
}
