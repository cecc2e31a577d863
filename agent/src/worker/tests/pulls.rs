//! Pulls that come to little: the sequence goes on from the ids, and soon.

use super::*;

/// A source that stands still after twenty tokens, its context offered to the destination. With the prompt and those twenty.
async fn parked(source: &Peer, destination: &Peer, prompt: usize) -> (OriginEnd, Vec<TokenId>, Vec<TokenId>) {
    let mut running = source.runs(job(1, 1, words(prompt), None));
    say(&mut running, JobRequest::StopAfter { index: 19 }).await;
    let ids = prompt_of(&mut running).await;
    let said = tokens(&mut running, 0, 20).await;
    say(&mut running, JobRequest::Offer { to: Some(destination.id()) }).await;
    (running, ids, said)
}

#[tokio::test]
async fn a_standby_whose_holder_says_nothing_makes_the_context_itself_however_many_ids_come_meanwhile() {
    let world = World::new();
    let source = Peer::start(&world, Nature { gives: Gives::Nothing, ..ABLE }, &[]).await;
    let destination = Peer::start(&world, ABLE, &[&source]).await;
    let prompt: Vec<TokenId> = (400..500).map(TokenId).collect();
    let mut standby = source.has_prepared(&destination, job(1, 0, ids(&prompt, &[]), Some(whole_from(&source)))).await;
    prompt_of(&mut standby).await;
    // A source that decodes: a token ten times in the holder's second, until the destination holds the prompt.
    let began = Instant::now();
    let mut sent = 0;
    loop {
        assert!(began.elapsed() < SOON, "{sent} tokens later it holds nothing");
        let ids = vec![TokenId(400 + sent % 100)];
        say(&mut standby, JobRequest::Forward { from_index: sent, ids }).await;
        sent += 1;
        let held = |event: &JobEvent| if let JobEvent::Held { tokens, .. } = event { Some(*tokens) } else { None };
        let news = hear("what it holds", &mut standby, held);
        if timeout(Duration::from_millis(100), news).await.is_ok_and(|held| held >= 100) {
            return;
        }
    }
}

#[tokio::test]
async fn a_holder_whose_steps_are_slow_as_it_says_is_waited_for() {
    let world = World::new();
    // Longer than a holder of which nothing is known may take.
    let rates = FakeRates { decode_tps: 0.4, ..STEADY };
    let source = Peer::start(&world, Nature { rates, ..ABLE }, &[]).await;
    let destination = Peer::start(&world, Nature { rates: UNABLE_TO_PREFILL, ..ABLE }, &[&source]).await;
    let mut running = source.runs(job(1, 1, words(34), None));
    say(&mut running, JobRequest::Offer { to: Some(destination.id()) }).await;
    let prompt = prompt_of(&mut running).await;
    // It reads the prompt and draws the first token.
    tokens(&mut running, 0, 1).await;
    destination.worker.heard(source.id(), &source.worker.loads());
    let mut standby = source.has_prepared(&destination, job(1, 0, ids(&prompt, &[]), Some(whole_from(&source)))).await;
    assert_eq!(until_held(&mut standby, 32).await, 32);
}

#[tokio::test]
async fn a_context_that_is_refused_is_asked_for_once() {
    let world = World::new();
    let source = Peer::start(&world, ABLE, &[]).await;
    let destination = Peer::start(&world, ABLE, &[&source]).await;
    let prompt: Vec<TokenId> = (400..500).map(TokenId).collect();
    // The source has no such context.
    let mut standby = source.has_prepared(&destination, job(1, 0, ids(&prompt, &[]), Some(whole_from(&source)))).await;
    assert_eq!(until_held(&mut standby, 100).await, 0);
    assert_eq!(*source.pulled_by.borrow(), 1);
}

#[tokio::test]
async fn a_link_that_turns_out_to_be_slow_is_helped_on_the_same_stream() {
    let world = World::new();
    let slow = Gives::Slowly(Duration::from_millis(600));
    let source = Peer::start(&world, Nature { gives: slow, ..ABLE }, &[]).await;
    // It prefills the context in a second or two: less than three times as fast as the chunks come.
    let rates = FakeRates { prefill_tps: 400.0, ..STEADY };
    let destination = Peer::start(&world, Nature { rates, ..ABLE }, &[&source]).await;
    let (_running, prompt, said) = parked(&source, &destination, 1200).await;
    let start = job(1, 0, ids(&prompt, &said[..10]), Some(whole_from(&source)));
    let mut standby = source.has_prepared(&destination, start).await;
    assert!(until_held(&mut standby, 1210).await > 0, "what came was used");
    assert_eq!(*source.pulled_by.borrow(), 1, "no stream was left");
}

#[tokio::test]
async fn a_rest_that_is_had_is_followed_when_the_hand_over_is_near() {
    let world = World::new();
    let source = Peer::start(&world, ABLE, &[]).await;
    let rates = FakeRates { prefill_tps: 400.0, ..STEADY };
    let destination = Peer::start(&world, Nature { rates, ..ABLE }, &[&source]).await;
    let (mut running, prompt, said) = parked(&source, &destination, 600).await;
    let rest = Pull { holder: source.id(), part: PullPart::Rest };
    let mut standby = source.has_prepared(&destination, job(1, 0, ids(&prompt, &said), Some(rest))).await;
    let before = until_held(&mut standby, 620).await;
    assert!(before > 0, "the rest was pulled");
    say(&mut standby, JobRequest::CatchUp).await;
    say(&mut running, JobRequest::GoOn).await;
    // What comes from here on is pulled as it is made, as soon as the pull has heard that.
    let mut pulled = before;
    for index in 20..TOKENS - 1 {
        let ids = tokens(&mut running, index, 1).await;
        say(&mut standby, JobRequest::Forward { from_index: index, ids }).await;
        let news = until_held(&mut standby, 620 + index - 20);
        pulled = timeout(Duration::from_millis(100), news).await.unwrap_or(pulled);
        if pulled > before {
            break;
        }
    }
    assert!(pulled > before, "what came later was made");
    assert_eq!(*source.pulled_by.borrow(), 1, "on the same stream");
}

#[tokio::test]
async fn what_a_leaving_peer_has_read_of_a_prompt_is_pulled_from_the_front() {
    let world = World::new();
    let rates = FakeRates { prefill_tps: 400.0, ..STEADY };
    let source = Peer::start(&world, Nature { rates, ..ABLE }, &[]).await;
    let destination = Peer::start(&world, Nature { rates, ..ABLE }, &[&source]).await;
    let mut reading = source.runs(job(1, 1, words(1500), None));
    let prompt = prompt_of(&mut reading).await;
    let much = |event: &JobEvent| {
        if let JobEvent::Prefilled { done, .. } = event { (*done >= 500).then_some(*done) } else { None }
    };
    hear("that it has read a third", &mut reading, much).await;
    let (cause, notice_ms) = (DepartureCause::OwnerReturned, 20_000);
    source.gate.send_replace(Gate::Shut { cause, notice_ms });
    let left = |event: &JobEvent| matches!(event, JobEvent::Leaving { .. }).then_some(());
    hear("a goodbye", &mut reading, left).await;
    say(&mut reading, JobRequest::Offer { to: Some(destination.id()) }).await;
    let start = job(1, 2, ids(&prompt, &[]), Some(Pull { holder: source.id(), part: PullPart::Rest }));
    let mut successor = source.has_run(&destination, start).await;
    let pulled =
        |event: &JobEvent| if let JobEvent::Held { pulled_tokens, .. } = event { Some(*pulled_tokens) } else { None };
    assert!(hear("what it has pulled", &mut successor, pulled).await > 0);
}

#[tokio::test]
async fn a_worker_that_gets_ready_shows_life_while_a_chunk_is_under_way() {
    let world = World::new();
    let source = Peer::start(&world, Nature { gives: Gives::Nothing, ..ABLE }, &[]).await;
    let destination = Peer::start(&world, Nature { rates: UNABLE_TO_PREFILL, ..ABLE }, &[&source]).await;
    let (_running, prompt, said) = parked(&source, &destination, 300).await;
    // As slow as it says it is, it is waited for longer than a sign of life takes.
    let mut loads = source.worker.loads();
    for load in &mut loads {
        load.decode_tps = 0.4;
    }
    destination.worker.heard(source.id(), &loads);
    let start = job(1, 2, ids(&prompt, &said[..10]), Some(Pull { holder: source.id(), part: PullPart::Rest }));
    let mut successor = source.has_run(&destination, start).await;
    prompt_of(&mut successor).await;
    let alive = |event: &JobEvent| matches!(event, JobEvent::Prefilled { total: 310, .. }).then_some(());
    hear("a sign of life", &mut successor, alive).await;
}
