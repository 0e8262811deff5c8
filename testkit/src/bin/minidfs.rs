//! minidfs as a program: a small HDFS for a first try and for measuring clients.
//!
//! Prints `minidfs ready hdfs://127.0.0.1:<port>` and runs until its standard input ends or it
//! gets SIGTERM or SIGINT.
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::sync::mpsc;

use dfs_testkit::minidfs::{Builder, MiniDfs};

const USAGE: &str = "usage: minidfs [--port N] [--datanodes N] [--replication N] \
[--block-size BYTES] [--dir DIR] [--ha] [--sink] [--virtual-length BYTES] [--seed N]

  --port N              port of the NameNode; a free one by default
  --datanodes N         number of DataNodes (3; 1 with --sink)
  --replication N       default replication (the smaller of 3 and the DataNodes)
  --block-size BYTES    default block size, with suffix k, m or g if wanted (128m)
  --dir DIR             keeps replicas there; a temporary directory by default
  --ha                  two NameNodes over one namespace; the second address is printed as well
  --sink                acknowledges writes without storing them, serves zeros below /virt
  --virtual-length B    length of each file below /virt (1g)
  --seed N              seed of block placement";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("minidfs: {message}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), String> {
    let Some(builder) = parse(std::env::args().skip(1))? else {
        println!("{USAGE}");
        return Ok(());
    };
    let signals = signals::block().map_err(|e| format!("cannot block signals: {e}"))?;
    let cluster = builder.start().map_err(|e| e.to_string())?;
    let mut line = format!("minidfs ready {}", cluster.uri());
    if let Some(second) = cluster.namenode_addr(1) {
        line += &format!(" hdfs://{second}");
    }
    println!("{line}");
    io::stdout().flush().map_err(|e| format!("cannot write to standard output: {e}"))?;
    wait_for_end(signals).map_err(|e| e.to_string())?;
    drop(cluster);
    Ok(())
}

/// Returns when standard input ends or a signal asks for the end.
fn wait_for_end(signals: signals::Blocked) -> io::Result<()> {
    let (tell, told) = mpsc::channel();
    let tell_input = tell.clone();
    std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        let mut rest = [0u8; 1024];
        // An error of standard input is its end, too.
        while matches!(io::stdin().read(&mut rest), Ok(n) if n > 0) {}
        let _ended = tell_input.send(());
    })?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        signals.wait();
        let _ended = tell.send(());
    })?;
    told.recv().map_err(io::Error::other)
}

/// The cluster that the arguments ask for; none when they ask for help.
fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Builder>, String> {
    let mut builder = MiniDfs::builder();
    let (mut datanodes, mut replication, mut sink) = (None, None, false);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value\n{USAGE}"));
        match arg.as_str() {
            "--help" | "-h" => return Ok(None),
            "--ha" => builder = builder.ha(true),
            "--sink" => sink = true,
            "--port" => builder = builder.port(number(&arg, &value()?)?),
            "--datanodes" => datanodes = Some(number(&arg, &value()?)?),
            "--replication" => replication = Some(number(&arg, &value()?)?),
            "--seed" => builder = builder.seed(number(&arg, &value()?)?),
            "--block-size" => builder = builder.block_size(size(&arg, &value()?)?),
            "--virtual-length" => {
                let length = size(&arg, &value()?)?;
                builder = builder.configure(|c| c.virtual_length = length);
            }
            "--dir" => {
                let dir = value()?;
                builder = builder.configure(|c| c.dir = Some(dir.into()));
            }
            other => return Err(format!("unknown option {other}\n{USAGE}")),
        }
    }
    let nodes: usize = datanodes.unwrap_or(if sink { 1 } else { 3 });
    if nodes == 0 {
        return Err("--datanodes must be at least 1".to_owned());
    }
    let most = u32::try_from(nodes).unwrap_or(u32::MAX);
    let replication = replication.unwrap_or(if sink { 1 } else { most.min(3) });
    Ok(Some(builder.datanodes(nodes).replication(replication).configure(|c| c.sink = sink)))
}

fn number<T: std::str::FromStr>(option: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{option}: {text} is not a number in range"))
}

/// Bytes, with an optional suffix.
fn size(option: &str, text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let (digits, shift) = match lower.as_bytes().last() {
        Some(b'k') => (lower.trim_end_matches('k'), 10),
        Some(b'm') => (lower.trim_end_matches('m'), 20),
        Some(b'g') => (lower.trim_end_matches('g'), 30),
        _ => (lower.as_str(), 0),
    };
    let count: u64 = number(option, digits)?;
    count.checked_mul(1 << shift).ok_or_else(|| format!("{option}: {text} is too large"))
}

/// SIGTERM and SIGINT as something a thread can wait for, so that the temporary directory goes.
mod signals {
    use std::io;
    use std::mem::MaybeUninit;

    pub(super) struct Blocked(libc::sigset_t);

    /// Blocks both signals in this thread and all it starts.
    pub(super) fn block() -> io::Result<Blocked> {
        let mut set = MaybeUninit::uninit();
        // SAFETY: the pointer is valid for the write of a whole signal set.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        // SAFETY: sigemptyset has initialised the set.
        let mut set: libc::sigset_t = unsafe { set.assume_init() };
        for signal in [libc::SIGTERM, libc::SIGINT] {
            // SAFETY: the set is initialised and the signal number is valid.
            unsafe { libc::sigaddset(&mut set, signal) };
        }
        // SAFETY: the set is initialised, and a null pointer for the old mask is allowed.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) } {
            0 => Ok(Blocked(set)),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }

    impl Blocked {
        /// Returns when one of the signals has arrived.
        pub(super) fn wait(&self) {
            let mut signal = 0;
            // SAFETY: both pointers are valid, and the signals of the set are blocked.
            unsafe { libc::sigwait(&self.0, &mut signal) };
        }
    }
}
