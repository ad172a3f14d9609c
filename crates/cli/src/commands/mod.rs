//! The verbs of the command line, one file each: `Arguments` with its help, and `run`.

#[cfg(target_arch = "x86_64")]
pub(crate) mod attach;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod collect;
pub(crate) mod completions;
pub(crate) mod demo;
#[cfg(target_arch = "x86_64")]
pub(crate) mod detach;
pub(crate) mod doctor;
#[cfg(any(test, not(target_arch = "x86_64")))]
pub(crate) mod elsewhere;
pub(crate) mod gpu;
pub(crate) mod heap;
pub(crate) mod hub;
pub(crate) mod man;
pub(crate) mod memory;
pub(crate) mod policy;
pub(crate) mod ps;
pub(crate) mod run;
pub(crate) mod simulate;
pub(crate) mod stalls;
pub(crate) mod status;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod train;

use std::io::Write;

use clap::Subcommand;

use crate::failure::CommandResult;

/// All verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Run(run::Arguments),
    #[cfg(target_arch = "x86_64")]
    Attach(attach::Arguments),
    #[cfg(target_arch = "x86_64")]
    Detach(detach::Arguments),
    #[cfg(not(target_arch = "x86_64"))]
    Attach(elsewhere::Arguments),
    #[cfg(not(target_arch = "x86_64"))]
    Detach(elsewhere::Arguments),
    Ps(ps::Arguments),
    Status(status::Arguments),
    Stalls(stalls::Arguments),
    Top(top::Arguments),
    Policy(policy::Arguments),
    Collect(collect::Arguments),
    Memory(memory::Arguments),
    #[command(subcommand)]
    Heap(heap::HeapVerb),
    Gpu(gpu::Arguments),
    Check(check::Arguments),
    Doctor(doctor::Arguments),
    #[command(subcommand)]
    Trace(trace::TraceVerb),
    Simulate(simulate::Arguments),
    Train(train::Arguments),
    Bench(bench::Arguments),
    Demo(demo::Arguments),
    Hub(Box<hub::Arguments>),
    Completions(completions::Arguments),
    Man(man::Arguments),
}

impl Verb {
    /// Does what was asked, and writes what there is to report to `out`.
    pub(crate) fn run(self, out: &mut dyn Write) -> CommandResult {
        match self {
            Self::Run(arguments) => run::run(arguments),
            #[cfg(target_arch = "x86_64")]
            Self::Attach(arguments) => attach::run(arguments, out),
            #[cfg(target_arch = "x86_64")]
            Self::Detach(arguments) => detach::run(&arguments, out),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Attach(_) => elsewhere::run("attach"),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Detach(_) => elsewhere::run("detach"),
            Self::Ps(arguments) => ps::run(&arguments, out),
            Self::Status(arguments) => status::run(&arguments, out),
            Self::Stalls(arguments) => stalls::run(&arguments, out),
            Self::Top(arguments) => top::run(&arguments),
            Self::Policy(arguments) => policy::run(&arguments, out),
            Self::Collect(arguments) => collect::run(&arguments, out),
            Self::Memory(arguments) => memory::run(arguments, out),
            Self::Heap(verb) => verb.run(out),
            Self::Gpu(arguments) => gpu::run(&arguments, out),
            Self::Check(arguments) => check::run(&arguments, out),
            Self::Doctor(arguments) => doctor::run(&arguments, out),
            Self::Trace(verb) => verb.run(out),
            Self::Simulate(arguments) => simulate::run(&arguments, out),
            Self::Train(arguments) => train::run(&arguments, out),
            Self::Bench(arguments) => bench::run(arguments, out),
            Self::Demo(arguments) => demo::run(&arguments, out),
            Self::Hub(arguments) => hub::run(*arguments, out),
            Self::Completions(arguments) => completions::run(&arguments, out),
            Self::Man(arguments) => man::run(&arguments, out),
        }
    }
}
