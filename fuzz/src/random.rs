//! Random changes to well-formed bytes, for machines without libFuzzer: `random SECONDS [TARGET]`.
//! `random seeds DIR` writes the well-formed bytes as a first corpus for libFuzzer.
//!
//! There is no feedback from coverage, so it is weaker than libFuzzer. Checksums are put right after most changes,
//! because almost no random change would get past them. A failure prints the bytes and the seed.

#![forbid(unsafe_code)]

use std::fs;
use std::panic;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use neurogc_fuzz::{FuzzTarget, TARGETS, put_right};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next().unwrap_or_default();
    if first == "seeds" {
        return write_seeds(Path::new(&arguments.next().unwrap_or_default()));
    }
    let seconds = first.parse().unwrap_or(10);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |it| it.as_nanos() as u64);
    let seed = now | 1;
    let only = arguments.next();
    println!("fuzz: random changes for {seconds} s on each target, seed {seed}");
    let mut whole = true;
    for target in TARGETS.iter().filter(|target| only.as_deref().is_none_or(|only| only == target.name)) {
        whole &= drive(target, Duration::from_secs(seconds), Random(seed));
    }
    if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn write_seeds(folder: &Path) -> ExitCode {
    for target in &TARGETS {
        let folder = folder.join(target.name);
        for (number, seed) in (target.seeds)().into_iter().enumerate() {
            let written =
                fs::create_dir_all(&folder).and_then(|()| fs::write(folder.join(format!("seed-{number}")), seed));
            if let Err(error) = written {
                eprintln!("fuzz: {} cannot be written: {error}", folder.display());
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn drive(target: &FuzzTarget, time: Duration, mut random: Random) -> bool {
    let seeds = (target.seeds)();
    let end = Instant::now() + time;
    let mut rounds = 0_u64;
    while Instant::now() < end {
        for _ in 0..1_000 {
            rounds += 1;
            let bytes = changed(&seeds[random.below(seeds.len())], &mut random);
            if panic::catch_unwind(|| (target.check)(&bytes)).is_err() {
                println!("fuzz: {} failed in round {rounds} on {bytes:?}", target.name);
                return false;
            }
        }
    }
    println!("fuzz: {}: {rounds} inputs, all held", target.name);
    true
}

fn changed(seed: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..1 + random.below(8) {
        let at = random.below(bytes.len() + 1);
        match random.below(6) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, random.next() as u8),
            2 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            3 if at < bytes.len() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
            4 if at < bytes.len() => drop(bytes.remove(at)),
            _ => {
                let from = random.below(bytes.len() + 1);
                let piece = bytes[from.min(at)..from.max(at)].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    if random.below(4) > 0 {
        put_right(&mut bytes);
    }
    bytes
}

/// xorshift64*: small, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 33) as usize % limit.max(1)
    }
}
