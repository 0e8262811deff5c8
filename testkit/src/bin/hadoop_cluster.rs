//! Starts a Hadoop cluster and keeps it until standard input ends.
//!
//! ```text
//! hadoop-cluster [--datanodes N] [--version V] [--conf-dir DIR] [--ha] [--full-jit]
//!                [--heap-mib N] [--set KEY=VALUE]...
//! ```
//!
//! Prints `hadoop ready URI` once clients can use it. `--conf-dir` gets `core-site.xml` and
//! `hdfs-site.xml` for them.

use dfs_testkit::hadoop::{Cluster, ClusterConfig, HarnessError};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

struct Options {
    config: ClusterConfig,
    conf_dir: Option<PathBuf>,
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut config = ClusterConfig::new();
    let mut conf_dir = None;
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number = |text: String| {
            text.parse::<u32>().map_err(|_| format!("{word} needs a number, not {text:?}"))
        };
        config = match word.as_str() {
            "--datanodes" => config.datanodes(number(value()?)? as usize),
            "--version" => config.version(&value()?),
            "--heap-mib" => config.heap_mib(number(value()?)?),
            "--ha" => config.high_availability(),
            "--full-jit" => config.full_jit(),
            "--set" => {
                let pair = value()?;
                let (key, value) = pair
                    .split_once('=')
                    .ok_or_else(|| format!("--set needs KEY=VALUE, not {pair:?}"))?;
                config.set(key, value)
            }
            "--conf-dir" => {
                conf_dir = Some(PathBuf::from(value()?));
                config
            }
            _ => return Err(format!("unknown option {word}")),
        };
    }
    Ok(Options { config, conf_dir })
}

fn run(options: Options) -> Result<(), HarnessError> {
    let cluster = Cluster::start(options.config)?;
    if let Some(directory) = options.conf_dir {
        cluster.write_conf(&directory)?;
    }
    let failed = |e| HarnessError::new(format!("standard input or output: {e}"));
    let mut out = std::io::stdout();
    writeln!(out, "hadoop ready {}", cluster.uri()).and_then(|()| out.flush()).map_err(failed)?;
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).map_err(failed)?;
    Ok(())
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("hadoop-cluster: {message}");
            return ExitCode::from(2);
        }
    };
    match run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("hadoop-cluster: {e}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> impl Iterator<Item = String> {
        text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().into_iter()
    }

    #[test]
    fn options_are_checked() {
        assert!(parse(words("--datanodes 1 --conf-dir /c --set a=b=c --ha")).is_ok());
        for bad in ["--datanodes", "--datanodes x", "--set a", "--what"] {
            assert!(parse(words(bad)).is_err(), "{bad}");
        }
    }
}
