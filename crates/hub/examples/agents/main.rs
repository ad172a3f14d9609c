//! Agents that report without any program behind them: what a hub has to bear is made by `bench/hub.py` with this.
//!
//! `agents follow FOLDER COUNT EVENTS SECONDS` starts COUNT processes, since a hub believes a process only what the kernel
//! says about it too. Each listens on its socket in FOLDER and sends EVENTS a second to a hub that follows it, in ten frames,
//! and figures once a second. `agents push …` posts as agents on other machines do, and `agents receive …` takes remote
//! write. At the end each prints what was sent or received.
#![expect(clippy::print_stdout, reason = "its output is its result")]

mod push;
mod receive;

use std::env;
use std::error::Error;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use neurogc_wire::control::{Answer, socket_path};
use neurogc_wire::report::{Report, Sample, encode};
use neurogc_wire::stop::StopKind;
use neurogc_wire::trace::{BlockWriter, Place, Record};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

const ROUND: Duration = Duration::from_millis(100);
const ROUNDS_A_SECOND: u64 = 10;

#[derive(Default)]
struct Sent {
    frames: AtomicU64,
    events: AtomicU64,
    bytes: AtomicU64,
    followers: AtomicU64,
}

struct Fake {
    host: String,
    pid: u32,
    key: String,
    installed: Instant,
    started_unix_ms: u64,
    sample: Sample,
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = env::args().collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [_, "one", folder, events, seconds] => one(Path::new(folder), events.parse()?, seconds.parse()?),
        [own, "follow", folder, count, events, seconds] => many(own, folder, count.parse()?, events, seconds),
        [_, "push", hub, token, figures, count, first, every, events, seconds] => push::run(&push::PushPlan {
            hub: hub.parse()?,
            token: token.to_owned(),
            figures: Path::new(figures),
            agents: first.parse()?..first.parse::<u32>()? + count.parse::<u32>()?,
            every: Duration::try_from_secs_f64(every.parse()?)?,
            events: events.parse()?,
            lasts: Duration::from_secs(seconds.parse()?),
        }),
        [_, "receive", seconds] => receive::run(Duration::from_secs(seconds.parse()?)),
        _ => Err("usage: agents follow FOLDER COUNT EVENTS SECONDS | \
                  agents push HUB TOKEN FIGURES COUNT FIRST EVERY EVENTS SECONDS | agents receive SECONDS"
            .into()),
    }
}

/// A runtime on this thread.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Starts so many of them and adds up what they sent.
fn many(own: &str, folder: &str, count: usize, events: &str, seconds: &str) -> Result<(), Box<dyn Error>> {
    let start =
        || Command::new(own).args(["one", folder, events, seconds]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut agents = (0..count).map(|_| start()).collect::<io::Result<Vec<_>>>()?;
    let mut outputs: Vec<_> =
        agents.iter_mut().filter_map(|agent| agent.stdout.take()).map(|out| BufReader::new(out).lines()).collect();
    for output in &mut outputs {
        if output.next().transpose()?.as_deref() != Some("ready") {
            return Err("an agent did not begin".into());
        }
    }
    println!("ready");
    let mut sums = [0; 4];
    for output in &mut outputs {
        let line = output.next().transpose()?.unwrap_or_default();
        for (sum, number) in sums.iter_mut().zip(line.split(' ')) {
            *sum += number.parse::<u64>()?;
        }
    }
    agents.iter_mut().try_for_each(|agent| agent.wait().map(drop))?;
    let [frames, events, bytes, followers] = sums;
    println!("{{\"frames\": {frames}, \"events\": {events}, \"bytes\": {bytes}, \"followers\": {followers}}}");
    Ok(())
}

fn one(folder: &Path, events: u64, seconds: u64) -> Result<(), Box<dyn Error>> {
    let sent = Arc::new(Sent::default());
    runtime()?.block_on(async {
        let pid = std::process::id();
        let path = socket_path(folder, pid);
        let _ = std::fs::remove_file(&path);
        tokio::spawn(listen(UnixListener::bind(path)?, pid, events, Arc::clone(&sent)));
        println!("ready");
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        Ok::<_, io::Error>(())
    })?;
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!("{} {} {} {}", read(&sent.frames), read(&sent.events), read(&sent.bytes), read(&sent.followers));
    Ok(())
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

async fn listen(listener: UnixListener, pid: u32, events: u64, sent: Arc<Sent>) {
    let started_unix_ms = unix_ms();
    while let Ok((stream, _)) = listener.accept().await {
        sent.followers.fetch_add(1, Ordering::Relaxed);
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
        let (key, sample) = (String::new(), Sample::default());
        let fake = Fake { host, pid, key, installed: Instant::now(), started_unix_ms, sample };
        let _ = fake.tell(stream, events / ROUNDS_A_SECOND, &sent).await;
    }
}

impl Fake {
    async fn tell(mut self, mut stream: UnixStream, events: u64, sent: &Sent) -> Result<(), Box<dyn Error>> {
        let mut question = vec![0; stream.read_u32_le().await? as usize];
        stream.read_exact(&mut question).await?;
        stream.write_all(&neurogc_wire::control::encode(&Answer::Following)?).await?;
        // They do not all speak at once.
        tokio::time::sleep(ROUND * (self.pid % 97) / 97).await;
        let mut rounds = tokio::time::interval(ROUND);
        for round in 0.. {
            rounds.tick().await;
            let frame = self.frame(round, events, round.is_multiple_of(ROUNDS_A_SECOND))?;
            stream.write_all(&frame).await?;
            sent.frames.fetch_add(1, Ordering::Relaxed);
            sent.events.fetch_add(events, Ordering::Relaxed);
            sent.bytes.fetch_add(frame.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    /// A report with so many events, and with figures or without.
    fn frame(&mut self, round: u64, count: u64, figures: bool) -> Result<Vec<u8>, Box<dyn Error>> {
        let now = self.installed.elapsed();
        let ns = now.as_nanos() as u64;
        let mut writer = BlockWriter::new();
        for number in 0..count {
            let at = ns.saturating_sub((count - number) * 1_000_000);
            let pause = 100_000 + (self.pid as u64 * 7919 + round * 31 + number * 17) % 900_000;
            let kind = StopKind::of_generation((number % 3) as u8);
            let place = if number % 2 == 0 { Place::InGap } else { Place::InRequest };
            let (collected, uncollectable, order) = (100, 0, None);
            writer.push(&Record::Collection { at, pause, kind, place, collected, uncollectable, order });
            self.sample.pauses[kind].buckets.add(pause, 1);
            self.sample.latency.buckets.add(pause * 20, 3);
        }
        let sample = figures.then(|| Box::new(self.figures(now.as_secs_f64())));
        let report = Report {
            host: self.host.clone(),
            pid: self.pid,
            key: self.key.clone(),
            started_unix_ms: self.started_unix_ms,
            at_s: now.as_secs_f64(),
            sample,
            ..Report::default()
        };
        Ok(encode(&report, &writer.take())?)
    }

    fn figures(&mut self, uptime_s: f64) -> Sample {
        let status = &mut self.sample.status;
        status.pid = self.pid;
        if status.command.is_empty() {
            status.command = "uvicorn shop.app:app --workers 4 --port 8000".to_owned();
            status.python = "CPython 3.12.1".to_owned();
            status.neurogc = env!("CARGO_PKG_VERSION").to_owned();
            status.policy = "gap".to_owned();
        }
        status.uptime_s = uptime_s;
        status.requests.count = self.sample.latency.buckets.count();
        status.requests.max_ms = 20.0;
        status.gc.young.count += 10;
        status.gc.young.max_ms = 1.0;
        status.memory.rss = (200 << 20) + u64::from(self.pid % 1000) * 4096;
        status.memory.pss = Some(180 << 20);
        status.cpu.percent = 42.0;
        self.sample.gil_busy_ms += 300.0;
        self.sample.gil_idle_ms += 700.0;
        self.sample.clone()
    }
}
