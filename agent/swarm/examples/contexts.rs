//! How fast a context is pulled over a link, what that costs, and how prompt a job's stream stays meanwhile.
//!
//! On one machine (or in one network namespace) `contexts hold`, on another
//! `contexts pull HOST:14355 MIB [PULLS]`: pulls that many mebibytes in chunks of 1.5 MB, with so many pulls under way, and
//! says the rate, both ends' processor seconds a gibibyte, and the round trips of a job's stream before and meanwhile.
//! `raw-hold` and `raw-pull HOST:14356 MIB` do the same over plain TCP, to compare with.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use idlewild_protocol::{
    BootId, Certificate, CertificateChain, ContextOpen, Epoch, JobEvent, JobInput, JobRequest, JobStart,
    LayoutFingerprint, ModelId, PeerId, RequestId, Role, Sampling, SwarmId,
};
use idlewild_swarm::{
    ContextServer, Identity, InterfaceFilter, JobClient, JobServer, Membership, Pulled, RelayMode, Swarm, SwarmConfig,
    SwarmEvent, start,
};
use tokio::sync::mpsc;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Everybody's key to the trial swarm.
const SWARM_SEED: [u8; 32] = [201; 32];

/// Certificates count this long.
const DAY: Duration = Duration::from_hours(24);

const PORT: u16 = 14_355;
const RAW_PORT: u16 = 14_356;

/// Bytes of a chunk: 64 tokens of a small model.
const CHUNK_BYTES: usize = 1_500_000;

/// Between two questions on the job's stream.
const ASK_INTERVAL: Duration = Duration::from_millis(50);

/// How long round trips are taken before the transfer.
const BEFORE: Duration = Duration::from_secs(3);

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["hold"] => hold().await,
        ["pull", address, mib] => pull(address, mib.parse()?, 4).await,
        ["pull", address, mib, pulls] => pull(address, mib.parse()?, pulls.parse()?).await,
        ["raw-hold"] => raw_hold(),
        ["raw-pull", address, mib] => raw_pull(address, mib.parse()?),
        _ => Err("hold | pull HOST:PORT MIB [PULLS] | raw-hold | raw-pull HOST:PORT MIB".into()),
    }
}

async fn hold() -> Result<(), Failure> {
    let (_swarm, mut events) = member(1, PORT, Vec::new()).await?;
    let chunk: Arc<Vec<u8>> = Arc::new(noise(CHUNK_BYTES));
    while let Some(event) = events.recv().await {
        match event {
            SwarmEvent::Context { context, .. } => drop(tokio::spawn(serve(context, Arc::clone(&chunk)))),
            SwarmEvent::Job { job, .. } => drop(tokio::spawn(answer(job))),
            SwarmEvent::Connected { .. }
            | SwarmEvent::Departed { .. }
            | SwarmEvent::Control { .. }
            | SwarmEvent::Prepare { .. }
            | SwarmEvent::Refused { .. }
            | SwarmEvent::Listening(_)
            | SwarmEvent::Hint(_) => {}
        }
    }
    Ok(())
}

async fn serve(mut context: ContextServer, chunk: Arc<Vec<u8>>) {
    let before = cpu();
    let mut bytes = 0;
    while context.next().await.is_ok() {
        if context.send(chunk.to_vec()).await.is_err() {
            break;
        }
        bytes += chunk.len();
    }
    say(&format!("sent {bytes} bytes: {:.2} CPU s/GiB", a_gibibyte(cpu() - before, bytes)));
}

/// Answers each word of the origin with a token.
async fn answer(mut job: JobServer) {
    while job.next().await.is_ok() {
        let event = JobEvent::Prefilled { epoch: Epoch(1), done: 0, total: 0 };
        if job.send(event).await.is_err() {
            return;
        }
    }
}

async fn pull(address: &str, mib: usize, pulls: usize) -> Result<(), Failure> {
    let (swarm, _events) = member(2, 0, vec![address.to_owned()]).await?;
    let holder = connected(&swarm).await;
    let job = swarm.open_job(holder, job()).await?;
    let (is_over, in_transfer) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let asking = tokio::spawn(ask(job, Arc::clone(&in_transfer), Arc::clone(&is_over)));
    tokio::time::sleep(BEFORE).await;
    in_transfer.store(true, Ordering::Relaxed);
    let chunks = (mib * 1024 * 1024).div_ceil(CHUNK_BYTES);
    let (begun, cpu_before) = (Instant::now(), cpu());
    let first = transfer(&swarm, holder, chunks, pulls).await?;
    let (elapsed, used) = (begun.elapsed(), cpu() - cpu_before);
    is_over.store(true, Ordering::Relaxed);
    let (before, meanwhile) = asking.await??;
    let bytes = chunks * CHUNK_BYTES;
    let rate = bytes as f64 / 1e6 / elapsed.as_secs_f64();
    let link = swarm.peers().into_iter().find(|link| link.peer == holder);
    say(&format!(
        "{rate:.2} MB/s ({bytes} bytes in {elapsed:.2?}, first chunk after {first:.2?}), {:.2} CPU s/GiB here; \
         link measured: {:?} B/s; round trip before: {}; meanwhile: {}; still connected: {}",
        a_gibibyte(used, bytes),
        link.as_ref().and_then(|link| link.down_bytes_per_s),
        shown(before),
        shown(meanwhile),
        link.is_some(),
    ));
    Ok(())
}

/// Pulls chunks, and gives when the first had come.
async fn transfer(swarm: &Swarm, holder: PeerId, chunks: usize, pulls: usize) -> Result<Duration, Failure> {
    let begun = Instant::now();
    let open = ContextOpen {
        origin: PeerId([1; 32]),
        request: RequestId([5; 16]),
        model: ModelId([6; 32]),
        layout: LayoutFingerprint([7; 32]),
    };
    let mut client = swarm.open_context(holder, open).await?;
    let mut first = None;
    let mut asked = 0;
    for _ in 0..chunks {
        while client.under_way() < pulls && asked < chunks {
            let from = u32::try_from(asked)? * 64;
            client.pull(from, from + 64)?;
            asked += 1;
        }
        match client.next().await? {
            Pulled::Chunk { .. } => first = first.or_else(|| Some(begun.elapsed())),
            Pulled::Refused { refusal, .. } => return Err(refusal.into()),
        }
    }
    first.ok_or_else(|| "nothing was pulled".into())
}

type RoundTrips = (Vec<Duration>, Vec<Duration>);

/// Asks on a job's stream, and gives the round trips before the transfer and meanwhile.
async fn ask(
    mut job: JobClient,
    in_transfer: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
) -> Result<RoundTrips, Failure> {
    let mut round_trips = RoundTrips::default();
    while !is_over.load(Ordering::Relaxed) {
        let asked = Instant::now();
        job.send(JobRequest::GoOn).await?;
        job.next().await?;
        let taken = asked.elapsed();
        if in_transfer.load(Ordering::Relaxed) {
            round_trips.1.push(taken);
        } else {
            round_trips.0.push(taken);
        }
        tokio::time::sleep(ASK_INTERVAL).await;
    }
    Ok(round_trips)
}

async fn connected(swarm: &Swarm) -> PeerId {
    loop {
        if let Some(link) = swarm.peers().into_iter().find(|link| link.has_bulk && link.rtt_us > 0) {
            return link.peer;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn raw_hold() -> Result<(), Failure> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, RAW_PORT))?;
    let chunk = noise(CHUNK_BYTES);
    loop {
        let (mut stream, _) = listener.accept()?;
        let (before, mut bytes) = (cpu(), 0);
        while stream.write_all(&chunk).is_ok() {
            bytes += chunk.len();
        }
        say(&format!("sent {bytes} bytes: {:.2} CPU s/GiB", a_gibibyte(cpu() - before, bytes)));
    }
}

fn raw_pull(address: &str, mib: usize) -> Result<(), Failure> {
    let mut stream = TcpStream::connect(address)?;
    let mut room = vec![0; 256 * 1024];
    let (begun, before, mut bytes) = (Instant::now(), cpu(), 0);
    while bytes < mib * 1024 * 1024 {
        bytes += stream.read(&mut room)?;
    }
    let elapsed = begun.elapsed();
    let rate = bytes as f64 / 1e6 / elapsed.as_secs_f64();
    say(&format!("raw {rate:.2} MB/s ({bytes} bytes in {elapsed:.2?}), {:.2} CPU s/GiB here", {
        a_gibibyte(cpu() - before, bytes)
    }));
    Ok(())
}

async fn member(
    number: u8,
    port: u16,
    static_peers: Vec<String>,
) -> Result<(Swarm, mpsc::Receiver<SwarmEvent>), Failure> {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let identity = Identity::from_seed([number; 32]);
    let swarm_key = Identity::from_seed(SWARM_SEED);
    let swarm = SwarmId(swarm_key.peer_id().0);
    let not_after_s = now_s + DAY.as_secs();
    let certificate =
        Certificate::issue(swarm, identity.peer_id(), Role::Member, not_after_s, |bytes| swarm_key.sign(bytes));
    let config = SwarmConfig {
        identity,
        membership: Membership { swarm, chain: CertificateChain(vec![certificate]) },
        boot: BootId(now_s),
        port,
        listen: vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)],
        mdns: false,
        static_peers,
        address_book: None,
        interfaces: InterfaceFilter::default(),
        relay: RelayMode::default(),
        desk: None,
    };
    Ok(start(config).await?)
}

fn job() -> JobStart {
    JobStart {
        request: RequestId([5; 16]),
        epoch: Epoch(1),
        model: ModelId([6; 32]),
        input: JobInput::Text { prompt: String::new() },
        sampling: Sampling::default(),
        max_tokens: 1,
        stop: Vec::new(),
        pull: None,
    }
}

/// Bytes that nothing compresses.
fn noise(bytes: usize) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    blake3::Hasher::new().finalize_xof().fill(&mut noise);
    noise
}

/// Processor seconds of this process so far: fields 14 and 15 of its stat, in ticks of 10 ms.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks: u64 = fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}

fn a_gibibyte(seconds: f64, bytes: usize) -> f64 {
    seconds * f64::from(1 << 30) / bytes as f64
}

fn shown(mut round_trips: Vec<Duration>) -> String {
    round_trips.sort_unstable();
    let at = |share: usize| round_trips.get(round_trips.len() * share / 100).copied().unwrap_or_default();
    format!("median {:.1?}, 95 % {:.1?}, worst {:.1?}", at(50), at(95), round_trips.last().copied().unwrap_or_default())
}

fn say(line: &str) {
    // A closed terminal ends the measurement no sooner.
    drop(writeln!(std::io::stdout(), "{line}"));
}
