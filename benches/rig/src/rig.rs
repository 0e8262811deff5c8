//! The rig: servers, client processes in turns, results.
mod options;
mod peer;
mod report;
mod scenario;
mod server;
mod stats;

use crate::api::Result;
use crate::sys;
use options::Options;
use peer::Peer;
use report::{Report, Row};
use scenario::{Scenario, Site};
use server::Server;
use std::path::{Path, PathBuf};

pub(crate) use options::USAGE;

/// Runs what the arguments ask for.
pub(crate) fn run(args: &[&str]) -> Result<()> {
    let options = Options::parse(args)?;
    let chosen = options.scenarios()?;
    if options.list {
        for scenario in chosen {
            println!("{:16} {}", scenario.name, scenario.about);
        }
        return Ok(());
    }
    let directory = target_dir()?.join("bench");
    std::fs::create_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    let mut report = Report::new(&options);
    for site in [Site::Real, Site::Sink] {
        let here: Vec<_> = chosen.iter().filter(|s| s.site == site).collect();
        if here.is_empty() {
            continue;
        }
        let server = Server::start(site)?;
        report.note(server.description());
        let mut peers = start_peers(&options, &server, &directory, &mut report)?;
        prepare(&options, &server, &mut peers, here.iter().any(|s| s.is_ycsb()))?;
        for scenario in here {
            let rows = measure(&options, scenario, &server, &mut peers)?;
            report.add(scenario, rows);
        }
    }
    report.write(&directory)
}

/// The directory that holds this program's build, `target` mostly.
fn target_dir() -> Result<PathBuf> {
    let exe = std::env::current_exe().map_err(|e| format!("where is this program? {e}"))?;
    let found = exe.parent().and_then(Path::parent).map(Path::to_owned);
    found.ok_or_else(|| format!("{} lies in no target directory", exe.display()))
}

/// Every client that can be had on this server; the others are named in the report.
fn start_peers(
    options: &Options,
    server: &Server,
    directory: &Path,
    report: &mut Report,
) -> Result<Vec<Peer>> {
    let mut peers = Vec::new();
    for (name, command) in peer::commands(options, server)? {
        let command = match command {
            Ok(command) => command,
            Err(why) => {
                report.missing(&name, &why);
                continue;
            }
        };
        match Peer::start(&name, &command, server.uri(), directory) {
            Ok(peer) => {
                report.version(&name, peer.version());
                peers.push(peer);
            }
            Err(why) => report.missing(&name, &why),
        }
    }
    if peers.is_empty() {
        return Err("no client could be started".to_owned());
    }
    Ok(peers)
}

/// Writes the file that the reading scenarios use (the sink has its own).
fn prepare(options: &Options, server: &Server, peers: &mut [Peer], ycsb: bool) -> Result<()> {
    if server.site() == Site::Sink {
        return Ok(());
    }
    let first = peers.first_mut().ok_or("no client")?;
    if ycsb {
        first.call(&scenario::write_ycsb())?;
    }
    first.call(&scenario::write(scenario::DATA_FILE, options, 1)).map(drop)
}

/// All rounds of one scenario, the clients in turns; the first round is not counted.
fn measure(
    options: &Options,
    scenario: &Scenario,
    server: &Server,
    peers: &mut [Peer],
) -> Result<Vec<Row>> {
    println!("\n{}: {}", scenario.name, scenario.about);
    let all: Vec<usize> = (0..sys::cpu_count()).collect();
    let one = [all.len() - 1];
    let cpus: &[usize] = if scenario.pinned { &one } else { &all };
    for pid in server.pids().iter().copied().chain(peers.iter().map(Peer::pid)) {
        sys::set_affinity(pid, cpus).map_err(|e| format!("cannot pin process {pid}: {e}"))?;
    }
    let mut peers: Vec<&mut Peer> =
        peers.iter_mut().filter(|peer| scenario.suits(peer.name())).collect();
    let mut rows: Vec<Row> = peers.iter().map(|peer| Row::new(peer.name())).collect();
    for round in 0..=options.rounds {
        for (peer, row) in peers.iter_mut().zip(&mut rows) {
            if row.error.is_some() {
                continue;
            }
            let command = scenario.command(options, peer.name(), round);
            let before = server.cpu_seconds();
            let opened = sys::tcp_opens();
            match peer.call(&command) {
                Ok(answer) if round > 0 => {
                    let opens = sys::tcp_opens().zip(opened).map(|(now, then)| now - then);
                    row.push(&answer, server.cpu_seconds() - before, opens);
                }
                Ok(_) => {}
                Err(why) => row.error = Some(why),
            }
        }
    }
    print!("{}", report::table(scenario, &rows));
    Ok(rows)
}
