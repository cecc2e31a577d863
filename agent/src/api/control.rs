//! The routes of this machine's own command line. Shapes: [`super::wire`].

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path, State};
use idlewild_protocol::RequestId;

use super::wire::{
    DoctorReply, ExplainReply, HazardReply, InviteReply, InviteRequest, ModelsReply, MoveReply, MoveRequest,
    RequestsReply, StatusReply, StopReply, code,
};
use super::{Api, ApiError, body};
use crate::driver::{Ask, InviteRefused, NoAnswer};
use crate::origin::MoveRefused;
use crate::store::StoreError;

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

/// The end, as on SIGTERM.
pub(super) async fn stop(State(api): State<Api>) -> Result<Json<StopReply>, ApiError> {
    Ok(Json(api.desk.ask(Ask::Stop).await?))
}
