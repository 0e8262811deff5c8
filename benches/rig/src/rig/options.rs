//! Command line of `dfs-bench run`.
use super::scenario::{self, Scenario};
use crate::api::Result;
use std::path::PathBuf;

pub(crate) const USAGE: &str = "usage: dfs-bench run [OPTIONS]

  --list              names the scenarios and ends
  --scenario NAME     only those whose name begins with NAME; may be repeated
  --rounds N          rounds that count, after one to warm up (5)
  --quick             a tenth of the work, 2 rounds: to see that it runs
  --clients A,B       only these clients, by name
  --peer NAME=COMMAND one more client that speaks the protocol of docs/benchmarks.md;
                      the command is split at spaces; may be repeated
  --lib PATH          libdfs.so to measure (the one built with this program)";

/// What to run.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) list: bool,
    pub(crate) rounds: usize,
    pub(crate) quick: bool,
    pub(crate) clients: Vec<String>,
    pub(crate) peers: Vec<(String, Vec<String>)>,
    pub(crate) lib: Option<PathBuf>,
    names: Vec<String>,
}

impl Options {
    pub(crate) fn parse(args: &[&str]) -> Result<Options> {
        let mut options = Options {
            list: false,
            rounds: 5,
            quick: false,
            clients: Vec::new(),
            peers: Vec::new(),
            lib: None,
            names: Vec::new(),
        };
        let mut rounds = None;
        let mut args = args.iter().copied();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            match arg {
                "--list" => options.list = true,
                "--quick" => options.quick = true,
                "--scenario" => options.names.push(value()?.to_owned()),
                "--clients" => options.clients.extend(value()?.split(',').map(str::to_owned)),
                "--lib" => options.lib = Some(value()?.into()),
                "--rounds" => {
                    let n = value()?.parse().ok().filter(|n| *n > 0);
                    rounds = Some(n.ok_or("--rounds needs a number above 0")?);
                }
                "--peer" => {
                    let text = value()?;
                    let (name, command) =
                        text.split_once('=').ok_or_else(|| format!("--peer {text}: no ="))?;
                    let words = command.split_whitespace().map(str::to_owned).collect();
                    options.peers.push((name.to_owned(), words));
                }
                _ => return Err(format!("unknown option {arg}\n{USAGE}")),
            }
        }
        options.rounds = rounds.unwrap_or(if options.quick { 2 } else { 5 });
        Ok(options)
    }

    /// The chosen scenarios.
    pub(crate) fn scenarios(&self) -> Result<Vec<&'static Scenario>> {
        if self.names.is_empty() {
            return Ok(scenario::ALL.iter().collect());
        }
        for name in &self.names {
            if !scenario::ALL.iter().any(|s| s.name.starts_with(name)) {
                return Err(format!("no scenario begins with {name}; see --list"));
            }
        }
        let chosen = |s: &&Scenario| self.names.iter().any(|n| s.name.starts_with(n));
        Ok(scenario::ALL.iter().filter(chosen).collect())
    }

    /// Whether a client is wanted.
    pub(crate) fn wants(&self, client: &str) -> bool {
        self.clients.is_empty() || self.clients.iter().any(|c| c == client)
    }

    /// Length of the files that are written and read sequentially.
    pub(crate) fn file_bytes(&self) -> u64 {
        if self.quick { 128 << 20 } else { 1 << 30 }
    }

    /// How often to do what is done `n` times in a full run.
    pub(crate) fn count(&self, n: usize) -> usize {
        if self.quick { n.div_ceil(10) } else { n }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_choose_scenarios_and_clients() {
        let options =
            Options::parse(&["--scenario", "sink-h", "--quick", "--clients", "a,b"]).unwrap();
        let names: Vec<_> = options.scenarios().unwrap().iter().map(|s| s.name).collect();
        assert!(!names.is_empty() && names.iter().all(|n| n.starts_with("sink-h")), "{names:?}");
        assert!(options.wants("b") && !options.wants("c") && options.rounds == 2);
        let options = Options::parse(&["--peer", "x=/bin/y -z", "--rounds", "9"]).unwrap();
        assert_eq!(options.peers, [("x".to_owned(), vec!["/bin/y".into(), "-z".into()])]);
        assert_eq!((options.rounds, options.count(1000)), (9, 1000));
        for bad in [&["--rounds", "0"][..], &["--what"], &["--scenario"], &["--peer", "x"]] {
            assert!(Options::parse(bad).is_err(), "{bad:?}");
        }
        assert!(Options::parse(&["--scenario", "nonesuch"]).unwrap().scenarios().is_err());
    }
}
