//! A whole hand-over between two engines, in every order in which its parts may happen.

use std::sync::atomic::Ordering;

use super::meddler::meddled;
use super::*;
use crate::blob::Blob;

/// One thing that happens; numbers are taken modulo what there is.
#[derive(Debug, Clone, Copy)]
enum Act {
    StepSource,
    StepDestination,
    /// Ids that the source has said, from `back` before the last forwarded one on.
    Forward {
        back: u32,
        count: u32,
    },
    /// Ids with a hole before them.
    ForwardGap,
    /// Positions that the source holds go to the pool.
    Export {
        from: u32,
        count: u32,
    },
    /// A chunk of the pool goes to the destination, perhaps damaged.
    Import {
        which: usize,
        is_damaged: bool,
    },
    Expect(Option<u32>),
    StopAfter {
        ahead: u32,
    },
    GoOn,
    Pause(bool),
    /// Somebody waits for the destination.
    GetReady,
    /// In the middle of the destination's or the source's step after so many.
    Halt {
        at_source: bool,
        steps: u32,
    },
    LiftHalts,
    /// Somebody else's job at the destination.
    Companion,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => Just(Act::StepSource),
        6 => Just(Act::StepDestination),
        4 => (0_u32..3, 1_u32..9).prop_map(|(back, count)| Act::Forward { back, count }),
        1 => Just(Act::ForwardGap),
        4 => (0_u32..60, 1_u32..12).prop_map(|(from, count)| Act::Export { from, count }),
        4 => (any::<usize>(), prop::bool::weighted(0.1)).prop_map(|(which, is_damaged)| Act::Import { which, is_damaged }),
        1 => prop::option::of(0_u32..40).prop_map(Act::Expect),
        2 => (0_u32..6).prop_map(|ahead| Act::StopAfter { ahead }),
        1 => Just(Act::GoOn),
        1 => any::<bool>().prop_map(Act::Pause),
        1 => Just(Act::GetReady),
        2 => (any::<bool>(), 1_u32..4).prop_map(|(at_source, steps)| Act::Halt { at_source, steps }),
        2 => Just(Act::LiftHalts),
        1 => Just(Act::Companion),
    ]
}

/// One of the two engines.
struct Side {
    batcher: Batcher,
    halt: Arc<Halt>,
    orders: Arc<Orders>,
    stories: BTreeMap<u64, Story>,
}

impl Side {
    fn new() -> Self {
        let (batcher, halt, orders) = meddled(3, 160);
        Self { batcher, halt, orders, stories: BTreeMap::new() }
    }

    fn collect(&mut self) {
        collect(&mut self.batcher, &mut self.stories);
    }

    fn story(&self) -> Story {
        self.stories.get(&0).cloned().unwrap_or_default()
    }

    /// Until nothing is left to do.
    fn settle(&mut self) {
        for _ in 0..1000 {
            self.collect();
            if !self.batcher.has_work() {
                return;
            }
            self.batcher.step();
        }
        panic!("it never rests: {:?}", self.stories);
    }
}

/// A request that moves.
struct Move {
    job: EngineJob,
    source: Side,
    destination: Side,
    forwarded: u32,
    pool: Vec<(u32, u32, Vec<u8>)>,
    companions: u64,
    /// Whether the destination has a slot that nobody may take, or will get one.
    is_safe: bool,
}

impl Move {
    /// The source has said `begun` tokens when the destination is told to get ready.
    fn new(job: EngineJob, begun: u32) -> Self {
        let (mut source, mut destination) = (Side::new(), Side::new());
        source.batcher.run(0, &job);
        for _ in 0..begun {
            source.batcher.step();
        }
        source.collect();
        let story = source.story();
        let forwarded = story.tokens.len() as u32;
        destination.batcher.stand_by(0, &resumed(&job, &story, forwarded as usize));
        Self { job, source, destination, forwarded, pool: Vec::new(), companions: 0, is_safe: false }
    }

    fn tell(&mut self, command: SequenceCommand) {
        self.destination.batcher.say(0, command);
    }

    fn forward(&mut self, from_index: u32, count: u32) {
        let ids = self.source.story().ids();
        let to = (from_index + count).min(ids.len() as u32);
        if to > from_index {
            let ids = ids[from_index as usize..to as usize].to_vec();
            self.tell(SequenceCommand::Extend { from_index, ids });
            self.forwarded = self.forwarded.max(to);
        }
    }

    fn export(&mut self, from: u32, count: u32) {
        let held = self.source.batcher.placed.first().map_or(0, Sequence::held);
        if held > 0 {
            let from = from % held;
            let to = (from + count).min(held);
            let bytes = self.source.batcher.export(0, from, to).unwrap();
            self.pool.push((from, to, bytes));
        }
    }

    fn import(&mut self, which: usize, is_damaged: bool) {
        if !self.pool.is_empty() {
            let (from, to, mut bytes) = self.pool[which % self.pool.len()].clone();
            bytes[5] ^= u8::from(is_damaged);
            self.tell(SequenceCommand::Import { from, to, bytes: Blob::new(bytes).unwrap() });
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::StepSource => self.source.batcher.step(),
            Act::StepDestination => self.destination.batcher.step(),
            Act::Forward { back, count } => self.forward(self.forwarded.saturating_sub(back), count),
            Act::ForwardGap => {
                let from_index = self.forwarded + 1;
                self.tell(SequenceCommand::Extend { from_index, ids: vec![TokenId(400)] });
            }
            Act::Export { from, count } => self.export(from, count),
            Act::Import { which, is_damaged } => self.import(which, is_damaged),
            Act::Expect(from) => self.tell(SequenceCommand::Expect { from }),
            Act::StopAfter { ahead } => {
                let index = self.source.story().tokens.len() as u32 + ahead;
                self.source.batcher.say(0, SequenceCommand::StopAfter { index });
            }
            Act::GoOn => self.source.batcher.say(0, SequenceCommand::GoOn),
            Act::Pause(paused) => self.tell(SequenceCommand::Pause(paused)),
            Act::GetReady => {
                self.is_safe |= self.destination.story().end.is_none();
                self.tell(SequenceCommand::GetReady);
            }
            Act::Halt { at_source, steps } => {
                let side = if at_source { &self.source } else { &self.destination };
                side.orders.halt_in.store(steps, Ordering::SeqCst);
            }
            Act::LiftHalts => self.lift_halts(),
            Act::Companion => {
                self.companions += 1;
                self.destination.batcher.run(self.companions, &job("x y z", 5));
            }
        }
        self.source.collect();
        self.destination.collect();
    }

    fn lift_halts(&mut self) {
        for side in [&self.source, &self.destination] {
            side.orders.halt_in.store(0, Ordering::SeqCst);
            side.halt.set(false);
        }
    }

    /// The hand-off after `ahead` tokens more, if the source has not finished by then. What the client sees.
    fn hand_over(mut self, ahead: u32) -> Story {
        self.act(Act::StopAfter { ahead });
        self.lift_halts();
        self.source.settle();
        let mut seen = self.source.story();
        let from_index = seen.tokens.len() as u32;
        self.forward(self.forwarded, from_index);
        self.destination.settle();
        assert_eq!(self.destination.story().tokens, [], "a standby says nothing");
        if seen.end.is_some() {
            self.destination.batcher.cancel(SequenceId(0));
        } else {
            self.tell(SequenceCommand::TakeOver { from_index });
            self.source.batcher.cancel(SequenceId(0));
        }
        self.destination.settle();
        assert!(is_clean(&self.source.batcher) && is_clean(&self.destination.batcher), "nothing is left behind");
        let taken = self.destination.story();
        if seen.end.is_none() {
            if taken.end == Some(SequenceEvent::Failed(JobFailure::Busy)) {
                // Its slot was wanted: the request is placed again, from its ids.
                assert!(!self.is_safe, "{taken:?}");
                let rest = alone(&resumed(&self.job, &seen, from_index as usize));
                seen.tokens.extend(rest.tokens);
                seen.end = rest.end;
            } else {
                assert!(taken.first_index.is_none_or(|first| first == from_index), "{taken:?}");
                seen.tokens.extend(taken.tokens);
                seen.end = taken.end;
            }
        }
        seen
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_happens_the_answer_is_the_undisturbed_one(
        seed: u64, length in 1_u32..45, words in 1_usize..15, begun in 1_u32..20, ahead in 0_u32..10,
        acts in prop::collection::vec(act(), 0..60), stop in prop::sample::select(vec![vec![], vec![" kalo"], vec!["\u{e9} s"]])
    ) {
        let sampling = Sampling { seed, temperature: 0.9, top_k: 40, repeat_penalty: 1.1, ..Sampling::default() };
        let stop = stop.iter().map(|&s| s.to_owned()).collect();
        let job = EngineJob { sampling, stop, ..job(&vec!["w"; words].join(" "), length) };
        let undisturbed = alone(&job);
        let mut this = Move::new(job, begun);
        for act in &acts {
            this.act(*act);
        }
        let seen = this.hand_over(ahead);
        prop_assert_eq!((seen.tokens, seen.end), (undisturbed.tokens, undisturbed.end));
    }
}
