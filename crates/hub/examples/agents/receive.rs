//! A receiver of remote write that keeps nothing: what hubs send is counted, not what a database makes of it.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What has come. A hub opens one connection for all messages of a moment.
#[derive(Default)]
struct Received {
    messages: u64,
    bytes: u64,
    rounds_ms: Vec<f64>,
}

pub(crate) fn run(lasts: Duration) -> Result<(), Box<dyn Error>> {
    let received = Arc::new(Mutex::new(Received::default()));
    crate::runtime()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?.port());
        let taking = Arc::clone(&received);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(take(stream, Arc::clone(&taking)));
            }
        });
        tokio::time::sleep(lasts).await;
        Ok::<_, std::io::Error>(())
    })?;
    let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
    received.rounds_ms.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let last = received.rounds_ms.len().saturating_sub(1);
        received.rounds_ms.get((share * last as f64) as usize).copied().unwrap_or(0.0)
    };
    println!(
        "{{\"messages\": {}, \"bytes\": {}, \"rounds\": {}, \"round_p50_ms\": {:.0}, \"round_max_ms\": {:.0}}}",
        received.messages,
        received.bytes,
        received.rounds_ms.len(),
        at(0.5),
        at(1.0)
    );
    Ok(())
}

async fn take(stream: TcpStream, received: Arc<Mutex<Received>>) -> Result<(), std::io::Error> {
    let mut stream = BufReader::new(stream);
    let (mut began, mut last) = (None, Instant::now());
    let mut line = String::new();
    let mut body = Vec::new();
    loop {
        let mut length = 0;
        let is_over = loop {
            line.clear();
            if stream.read_line(&mut line).await? == 0 {
                break true;
            }
            began.get_or_insert_with(Instant::now);
            let words = line.trim_end();
            if words.is_empty() {
                break false;
            }
            if let Some((name, value)) = words.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap_or(0);
            }
        };
        if is_over {
            break;
        }
        body.resize(length, 0);
        stream.read_exact(&mut body).await?;
        stream.get_mut().write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await?;
        last = Instant::now();
        let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
        received.messages += 1;
        received.bytes += length as u64;
    }
    if let Some(began) = began {
        let took = last.duration_since(began).as_secs_f64() * 1e3;
        received.lock().unwrap_or_else(PoisonError::into_inner).rounds_ms.push(took);
    }
    Ok(())
}
