//! One end of a stream is ours, the other says what no honest peer would, or nothing.

use core::time::Duration;

use futures::io::{ReadHalf, WriteHalf};
use idlewild_protocol::{
    BulkRequest, ChunkHeader, ContextOpen, ContextRefusal, ContextReply, ContextRequest, DecodeError,
    LayoutFingerprint, ModelId, PeerId, RequestId, frame,
};
use tokio::io::DuplexStream;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt};

use super::{ContextClient, ContextRange, ContextServer, PULLS_MAX, Pulled, Terms};
use crate::frames::{FrameReader, FrameWriter, framed};
use crate::{AnswerError, ContextFault, ContextLost, PullError};

/// How long anything may take that should happen at once, on a loaded machine.
const SOON: Duration = Duration::from_secs(20);

/// What is between the two ends.
const PIPE_BYTES: usize = 64 * 1024;

type Ends = (FrameReader<ReadHalf<Compat<DuplexStream>>>, FrameWriter<WriteHalf<Compat<DuplexStream>>>);

fn pipe() -> (Ends, Ends) {
    let (one, other) = tokio::io::duplex(PIPE_BYTES);
    (framed(one.compat()), framed(other.compat()))
}

fn terms(silence_limit: Duration) -> Terms {
    Terms { peer: PeerId([1; 32]), silence_limit }
}

fn context() -> ContextOpen {
    ContextOpen {
        origin: PeerId([1; 32]),
        request: RequestId([5; 16]),
        model: ModelId([6; 32]),
        layout: LayoutFingerprint([7; 32]),
    }
}

fn header(bytes: &[u8]) -> ChunkHeader {
    let ContextOpen { model, layout, .. } = context();
    let length = u32::try_from(bytes.len()).unwrap();
    ChunkHeader { model, layout, from: 64, to: 128, bytes: length, hash: *blake3::hash(bytes).as_bytes() }
}

/// A client that has pulled positions 64 to 128, and the holder's ends, which have heard of it.
async fn pulled(silence_limit: Duration) -> (ContextClient, Ends) {
    let (ours, mut theirs) = pipe();
    let mut client = ContextClient::over(ours, context(), terms(silence_limit), |_rate| {});
    client.pull(64, 128).unwrap();
    let opened: BulkRequest = theirs.0.next().await.unwrap();
    assert_eq!(opened, BulkRequest::Context(context()));
    let pull: ContextRequest = theirs.0.next().await.unwrap();
    assert_eq!(pull, ContextRequest::Pull { from: 64, to: 128 });
    (client, theirs)
}

fn server(silence_limit: Duration) -> (ContextServer, Ends) {
    let (ours, theirs) = pipe();
    let server = ContextServer::over(ours, context(), &Handle::current(), (None, terms(silence_limit)), |_rate| {});
    (server, theirs)
}

async fn next(client: &mut ContextClient) -> Result<Pulled, ContextLost> {
    timeout(SOON, client.next()).await.expect("the client should hear by now")
}

#[tokio::test]
async fn a_chunk_that_is_not_what_was_asked_for_is_not_believed() {
    let bytes = vec![9; 1_000];
    let good = header(&bytes);
    let cases = [
        (ChunkHeader { from: 63, ..good }, ContextFault::OtherRange),
        (ChunkHeader { to: 127, ..good }, ContextFault::OtherRange),
        (ChunkHeader { model: ModelId([0; 32]), ..good }, ContextFault::OtherModel),
        (ChunkHeader { layout: LayoutFingerprint([0; 32]), ..good }, ContextFault::OtherLayout),
        (ChunkHeader { hash: [0; 32], ..good }, ContextFault::Hash),
        (ChunkHeader { bytes: 999, ..good }, ContextFault::Hash),
    ];
    for (header, fault) in cases {
        let (mut client, (_reader, mut writer)) = pulled(SOON).await;
        writer.push(&frame(&ContextReply::Chunk(header)).unwrap());
        writer.push(&bytes);
        writer.flush().await.unwrap();
        assert_eq!(next(&mut client).await, Err(ContextLost::Faulty(fault)));
        assert_eq!(next(&mut client).await, Err(ContextLost::Faulty(fault)), "it stays lost");
    }
    let (mut client, (_reader, mut writer)) = pulled(SOON).await;
    writer.push(&frame(&ContextReply::Chunk(good)).unwrap());
    writer.push(&bytes);
    writer.push(&frame(&ContextReply::Chunk(good)).unwrap());
    writer.flush().await.unwrap();
    assert_eq!(next(&mut client).await, Ok(Pulled::Chunk { header: good, bytes }));
    assert_eq!(next(&mut client).await, Err(ContextLost::Faulty(ContextFault::Unasked)));
}

#[tokio::test]
async fn a_holder_that_stops_in_mid_chunk_is_given_up_after_the_silence_limit() {
    let (mut client, (_reader, mut writer)) = pulled(Duration::from_millis(100)).await;
    writer.push(&frame(&ContextReply::Chunk(header(&[9; 1_000]))).unwrap());
    writer.push(&[9; 999]);
    writer.flush().await.unwrap();
    assert_eq!(next(&mut client).await, Err(ContextLost::Stalled));
    assert_eq!(client.received_bytes(), 999);
    let (mut client, _ends) = pulled(Duration::from_millis(100)).await;
    assert_eq!(next(&mut client).await, Err(ContextLost::Stalled), "and one that says nothing at all, too");
}

#[tokio::test]
async fn a_stream_that_ends_in_mid_chunk_is_closed_and_bytes_that_are_no_message_are_told() {
    let (mut client, (reader, mut writer)) = pulled(SOON).await;
    writer.push(&frame(&ContextReply::Chunk(header(&[9; 1_000]))).unwrap());
    writer.push(&[9; 999]);
    writer.flush().await.unwrap();
    drop((reader, writer));
    assert_eq!(next(&mut client).await, Err(ContextLost::Closed));
    assert_eq!(client.pull(128, 192), Err(PullError::Ended));

    let (mut client, (_reader, mut writer)) = pulled(SOON).await;
    writer.push(&[1, 0, 0, 0, 77]);
    writer.flush().await.unwrap();
    assert_eq!(next(&mut client).await, Err(ContextLost::Malformed(DecodeError::Malformed)));
}

#[tokio::test]
async fn a_holder_that_refuses_the_stream_as_a_whole_says_so() {
    let (ours, mut theirs) = pipe();
    let mut client = ContextClient::over(ours, context(), terms(SOON), |_rate| {});
    theirs.1.send(&ContextReply::Refused(ContextRefusal::Busy)).await.unwrap();
    assert_eq!(next(&mut client).await, Err(ContextLost::Refused(ContextRefusal::Busy)));
}

#[tokio::test]
async fn no_more_is_pulled_than_may_be_and_no_range_that_a_chunk_cannot_have() {
    let (mut client, _ends) = pulled(SOON).await;
    for (from, to) in [(5, 5), (6, 5), (0, 1_025)] {
        assert_eq!(client.pull(from, to), Err(PullError::BadRange));
    }
    for n in 1..PULLS_MAX {
        assert_eq!(client.pull(0, 1_024), Ok(()), "{n}");
    }
    assert_eq!(client.pull(0, 1), Err(PullError::Full));
    assert_eq!(client.under_way(), PULLS_MAX);
}

#[tokio::test]
async fn a_destination_that_asks_and_does_not_read_is_dropped_and_holds_little() {
    let (mut server, (_reader, mut writer)) = server(Duration::from_millis(100));
    for _ in 0..PULLS_MAX {
        writer.send(&ContextRequest::Pull { from: 0, to: 64 }).await.unwrap();
    }
    let mut taken = 0;
    let lost = loop {
        server.next().await.unwrap();
        match timeout(SOON, server.send(vec![9; 1_000_000])).await.expect("it should be given up by now") {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(lost, AnswerError::Lost(ContextLost::Stalled));
    assert!(taken <= 2, "{taken} chunks in memory");
    let mut left = 0;
    while server.next().await.is_ok() {
        left += 1;
    }
    assert_eq!(server.next().await, Err(ContextLost::Stalled));
    assert!(left <= PULLS_MAX);
}

#[tokio::test]
async fn a_flood_of_pulls_ends_the_stream() {
    let (mut server, (_reader, mut writer)) = server(SOON);
    for _ in 0..=PULLS_MAX {
        writer.push(&frame(&ContextRequest::Pull { from: 0, to: 64 }).unwrap());
    }
    writer.flush().await.unwrap();
    for _ in 0..PULLS_MAX {
        assert_eq!(server.next().await, Ok(ContextRange { from: 0, to: 64 }));
    }
    let fault = ContextLost::Faulty(ContextFault::TooManyPulls);
    assert_eq!(timeout(SOON, server.next()).await.unwrap(), Err(fault));
    assert_eq!(server.refuse(ContextRefusal::Gone).await, Err(AnswerError::Lost(fault)));
}

#[tokio::test]
async fn a_destination_that_breaks_the_rules_ends_its_stream() {
    let received = frame(&ContextRequest::Received { bytes: 1 }).unwrap();
    let cases = [
        (received, ContextLost::Faulty(ContextFault::WrongCount)),
        (vec![1, 0, 0, 0, 77], ContextLost::Malformed(DecodeError::Malformed)),
        (vec![17, 0, 0, 0], ContextLost::Malformed(DecodeError::TooLong { size: 17, limit: 16 })),
    ];
    for (bytes, lost) in cases {
        let (mut server, (_reader, mut writer)) = server(SOON);
        writer.push(&bytes);
        writer.flush().await.unwrap();
        assert_eq!(timeout(SOON, server.next()).await.unwrap(), Err(lost));
    }
}

#[tokio::test]
async fn an_answer_needs_a_pull_and_a_chunk_needs_bytes() {
    let (mut server, (mut reader, mut writer)) = server(SOON);
    assert_eq!(server.send(vec![9]).await, Err(AnswerError::NotPulled));
    assert_eq!(server.refuse(ContextRefusal::Gone).await, Err(AnswerError::NotPulled));
    writer.send(&ContextRequest::Pull { from: 0, to: 64 }).await.unwrap();
    server.next().await.unwrap();
    assert_eq!(server.send(Vec::new()).await, Err(AnswerError::BadSize));
    assert_eq!(server.send(vec![9; 8 * 1024 * 1024 + 1]).await, Err(AnswerError::BadSize));
    server.refuse(ContextRefusal::NotHeld).await.unwrap();
    let reply: ContextReply = timeout(SOON, reader.next()).await.unwrap().unwrap();
    assert_eq!(reply, ContextReply::Refused(ContextRefusal::NotHeld));
}

#[tokio::test]
async fn what_was_answered_arrives_though_the_holder_drops_its_end() {
    let (ours, theirs) = pipe();
    let mut client = ContextClient::over(ours, context(), terms(SOON), |_rate| {});
    client.pull(64, 128).unwrap();
    let (mut reader, writer) = theirs;
    let opened: BulkRequest = reader.next().await.unwrap();
    assert_eq!(opened, BulkRequest::Context(context()));
    let ends = (reader, writer);
    let mut server = ContextServer::over(ends, context(), &Handle::current(), (None, terms(SOON)), |_rate| {});
    server.next().await.unwrap();
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    server.send(bytes.clone()).await.unwrap();
    drop(server);
    assert_eq!(next(&mut client).await, Ok(Pulled::Chunk { header: header(&bytes), bytes }));
    assert_eq!(next(&mut client).await, Err(ContextLost::Closed));
}

#[tokio::test]
async fn a_context_that_is_refused_as_a_whole_is_so_for_a_destination_that_has_pulled_and_for_one_that_has_not() {
    for pulls in [false, true] {
        let (ours, theirs) = pipe();
        let mut client = ContextClient::over(ours, context(), terms(SOON), |_rate| {});
        if pulls {
            client.pull(64, 128).unwrap();
        }
        let (mut reader, writer) = theirs;
        let opened: BulkRequest = reader.next().await.unwrap();
        assert_eq!(opened, BulkRequest::Context(context()));
        let ends = (reader, writer);
        let server = ContextServer::over(ends, context(), &Handle::current(), (None, terms(SOON)), |_rate| {});
        server.refuse_all(ContextRefusal::OtherLayout).await.unwrap();
        let refusal = match next(&mut client).await {
            Ok(Pulled::Refused { refusal, .. }) | Err(ContextLost::Refused(refusal)) => refusal,
            other => panic!("{other:?}"),
        };
        assert_eq!(refusal, ContextRefusal::OtherLayout);
    }
}
