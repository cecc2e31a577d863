//! Streams without workers: what each brings, and whose turn it is.

use idlewild_protocol::DepartureCause;

use super::*;

const WORKER: PeerId = PeerId([1; 32]);
const DESTINATION: PeerId = PeerId([2; 32]);
const EPOCH: Epoch = Epoch(1);
const PREPARATION: Preparation = Preparation(1);

/// A worker's stream and a destination's, with what brings their news.
struct Bench {
    streams: Streams,
    worker: mpsc::Sender<News>,
    destination: mpsc::Sender<News>,
    _told: [mpsc::Receiver<JobRequest>; 2],
}

impl Bench {
    fn new() -> Self {
        let mut streams = Streams::new();
        let (pump, told_worker, worker) = Pump::bare();
        streams.add(StreamName::Assignment(EPOCH), WORKER, pump);
        let (pump, told_destination, destination) = Pump::bare();
        streams.pulled = Some((PREPARATION, Pulled::default()));
        streams.add(StreamName::Preparation(PREPARATION), DESTINATION, pump);
        Self { streams, worker, destination, _told: [told_worker, told_destination] }
    }
}

fn held(epoch: Epoch, tokens: u32, pulled_tokens: u32) -> News {
    News::Event(JobEvent::Held { epoch, tokens, pulled_tokens, pulled_bytes: 100 })
}

fn token(index: u32) -> News {
    News::Event(JobEvent::Token { epoch: EPOCH, index, id: TokenId(5), text: String::new() })
}

fn is_token(input: Option<&Input>) -> bool {
    matches!(input, Some(Input::Event { event: JobEvent::Token { .. }, .. }))
}

#[tokio::test]
async fn a_stream_that_brings_news_without_pause_leaves_the_others_their_turns() {
    let mut bench = Bench::new();
    let mut tokens = 0;
    for index in 0..50 {
        bench.worker.try_send(token(index)).unwrap();
    }
    for _ in 0..100 {
        while bench.destination.try_send(held(Epoch(0), 1, 0)).is_ok() {}
        tokens += u32::from(is_token(bench.streams.next().await.as_ref()));
    }
    assert_eq!(tokens, 50, "every other turn is the worker's");
}

#[tokio::test]
async fn what_was_pulled_only_the_destination_says() {
    let mut bench = Bench::new();
    bench.destination.try_send(held(Epoch(0), 30, 20)).unwrap();
    assert!(matches!(bench.streams.next().await, Some(Input::Standby { .. })));
    assert_eq!(bench.streams.pulled(), Pulled { tokens: 20, bytes: 100 });
    for epoch in [Epoch(0), EPOCH] {
        bench.worker.try_send(held(epoch, 999, 999)).unwrap();
        bench.streams.next().await;
        assert_eq!(bench.streams.pulled().tokens, 20, "a worker's word");
    }
    bench.destination.try_send(held(Epoch(0), 30, 5000)).unwrap();
    bench.streams.next().await;
    assert_eq!(bench.streams.pulled().tokens, 30, "no more than it holds");
}

#[tokio::test]
async fn what_a_destination_says_beside_its_progress_is_nothing_to_the_request() {
    let mut bench = Bench::new();
    let accepted = JobEvent::Accepted { epoch: Epoch(0), prompt: vec![TokenId(1)] };
    bench.destination.try_send(News::Event(accepted)).unwrap();
    assert_eq!(bench.streams.next().await, None);
    let loads = JobEvent::Prefilled { epoch: Epoch(0), done: 0, total: 0 };
    bench.destination.try_send(News::Event(loads)).unwrap();
    let alive = Input::Standby { preparation: PREPARATION, news: StandbyNews::Alive };
    assert_eq!(bench.streams.next().await, Some(alive));
    let leaving = JobEvent::Leaving { epoch: Epoch(0), cause: DepartureCause::Sleep, notice_ms: 1 };
    bench.destination.try_send(News::Event(leaving)).unwrap();
    let news = StandbyNews::Leaving(DepartureCause::Sleep);
    assert_eq!(bench.streams.next().await, Some(Input::Standby { preparation: PREPARATION, news }));
}

#[tokio::test]
async fn a_stream_that_ends_without_a_last_word_is_lost_once() {
    let Bench { mut streams, worker, destination, _told } = Bench::new();
    drop(worker);
    assert_eq!(streams.next().await, Some(Input::Lost { epoch: EPOCH, why: LossReason::Closed }));
    destination.try_send(held(Epoch(0), 1, 0)).unwrap();
    assert!(matches!(streams.next().await, Some(Input::Standby { .. })));
}
