//! Agents that post to a hub, each on a connection of its own, as agents on other machines do.

use std::error::Error;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use neurogc_wire::buckets::Buckets;
use neurogc_wire::report::{INGEST_PATH, Sample};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{MissedTickBehavior, interval_at};

use crate::{Fake, unix_ms};

/// Processes on one made-up machine.
const EACH_HOST: u32 = 50;

/// How long an agent may take to connect anew after an error.
const PAUSE: Duration = Duration::from_secs(1);

/// What to send where.
pub(crate) struct PushPlan<'p> {
    pub(crate) hub: SocketAddr,
    pub(crate) token: String,
    /// A file with the status of a real process, as JSON.
    pub(crate) figures: &'p Path,
    /// Their numbers.
    pub(crate) agents: Range<u32>,
    pub(crate) every: Duration,
    /// Events in each report.
    pub(crate) events: u64,
    pub(crate) lasts: Duration,
}

/// What all of them have sent, and how long it took until the hub had taken it.
#[derive(Default)]
struct Posted {
    reports: u64,
    events: u64,
    bytes: u64,
    failed: u64,
    lag: Buckets,
}

pub(crate) fn run(plan: &PushPlan<'_>) -> Result<(), Box<dyn Error>> {
    if !plan.hub.ip().is_loopback() {
        return Err("only a hub on loopback is loaded".into());
    }
    let sample = Sample { status: serde_json::from_slice(&std::fs::read(plan.figures)?)?, ..Sample::default() };
    let posted = Arc::new(Mutex::new(Posted::default()));
    crate::runtime()?.block_on(async {
        let began = Instant::now();
        for number in plan.agents.clone() {
            let fake = Fake {
                host: format!("host-{}", number / EACH_HOST),
                pid: 1000 + number,
                key: format!("key-{number}"),
                installed: began,
                started_unix_ms: unix_ms(),
                sample: sample.clone(),
            };
            // They do not all speak at once.
            let share = f64::from(number - plan.agents.start) / plan.agents.len() as f64;
            let agent = Agent { first: began + plan.every.mul_f64(share), every: plan.every, events: plan.events };
            tokio::spawn(agent.report(fake, plan.hub, plan.token.clone(), Arc::clone(&posted)));
        }
        println!("ready");
        tokio::time::sleep(plan.lasts).await;
    });
    let Posted { reports, events, bytes, failed, lag } = &*posted.lock().unwrap_or_else(PoisonError::into_inner);
    let [p50, p99, most] = [0.5, 0.99, 1.0].map(|share| lag.quantile_ms(share).unwrap_or(0.0));
    println!(
        "{{\"reports\": {reports}, \"events\": {events}, \"bytes\": {bytes}, \"failed\": {failed}, \
         \"lag_p50_ms\": {p50:.2}, \"lag_p99_ms\": {p99:.2}, \"lag_max_ms\": {most:.1}}}"
    );
    Ok(())
}

struct Agent {
    first: Instant,
    every: Duration,
    events: u64,
}

impl Agent {
    /// Reports for ever. A report that the hub does not take is counted, and the next one comes on a new connection.
    async fn report(self, mut fake: Fake, hub: SocketAddr, token: String, posted: Arc<Mutex<Posted>>) {
        let mut ticks = interval_at(self.first.into(), self.every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        // A service of a few workers on each machine.
        fake.sample.status.service = format!("service-{}", fake.pid % EACH_HOST / 4);
        fake.sample.status.role = format!("worker {}", fake.pid % 4);
        let mut connection: Option<BufReader<TcpStream>> = None;
        for round in 0.. {
            let planned = Instant::from(ticks.tick().await);
            let Ok(frame) = fake.frame(round, self.events, true) else { return };
            let is_old = connection.is_some();
            let mut sent = post(&mut connection, hub, &token, &frame).await;
            if is_old && sent.is_err() {
                // The hub closes a connection on which nothing comes for ten seconds.
                connection = None;
                sent = post(&mut connection, hub, &token, &frame).await;
            }
            let is_taken = sent.as_ref().is_ok_and(|status| *status == 200);
            {
                let mut posted = posted.lock().unwrap_or_else(PoisonError::into_inner);
                if is_taken {
                    posted.reports += 1;
                    posted.events += self.events;
                    posted.bytes += frame.len() as u64;
                    posted.lag.add(planned.elapsed().as_nanos() as u64, 1);
                } else {
                    posted.failed += 1;
                }
            }
            if sent.is_err() {
                connection = None;
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Posts a frame and gives the status of the answer.
async fn post(
    connection: &mut Option<BufReader<TcpStream>>,
    hub: SocketAddr,
    token: &str,
    frame: &[u8],
) -> Result<u16, Box<dyn Error + Send + Sync>> {
    let stream = match connection {
        Some(stream) => stream,
        none => none.insert(BufReader::new(TcpStream::connect(hub).await?)),
    };
    let length = frame.len();
    let mut message =
        format!("POST {INGEST_PATH} HTTP/1.1\r\nHost: {hub}\r\nAuthorization: Bearer {token}\r\nContent-Length: {length}\r\n\r\n")
            .into_bytes();
    message.extend_from_slice(frame);
    stream.get_mut().write_all(&message).await?;
    let (mut status, mut length, mut line) = (0, 0, String::new());
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Err("the hub has closed the connection".into());
        }
        let words = line.trim_end();
        if words.is_empty() {
            break;
        }
        if let Some(rest) = words.strip_prefix("HTTP/1.1 ") {
            status = rest.split(' ').next().unwrap_or_default().parse()?;
        } else if let Some((name, value)) = words.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse()?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(status)
}
