//! A client process: commands on standard input, one answer line each on standard output.
use crate::api::{Fs, Result};
use crate::command::{Command, encode};
use crate::json::Json;
use crate::{c_api, floor, rust_api, workload};
use std::io::{self, BufRead, Write};
use std::path::Path;

/// Which client this process is.
pub(crate) enum Kind {
    /// libdfs as a C program uses it.
    C(c_api::Loaded),
    /// libdfs through its Rust interface.
    Rust,
    /// Prebuilt packets on one socket.
    Floor,
    /// The crate hdfs-native.
    #[cfg(feature = "hdfs-native")]
    HdfsNative,
}

impl Kind {
    /// libdfs from this shared library.
    pub(crate) fn c(path: &str) -> Result<Kind> {
        c_api::load(Path::new(path)).map(Kind::C)
    }

    fn connect(&self, uri: &str, settings: &[(String, String)]) -> Result<Box<dyn Fs>> {
        match self {
            Kind::C(library) => library.connect(uri, settings),
            Kind::Rust => rust_api::connect(uri, settings),
            Kind::Floor => floor::connect(uri, settings),
            #[cfg(feature = "hdfs-native")]
            Kind::HdfsNative => crate::native::connect(uri, settings),
        }
    }

    fn version(&self) -> String {
        match self {
            Kind::C(library) => library.version(),
            Kind::Rust | Kind::Floor => env!("CARGO_PKG_VERSION").to_owned(),
            #[cfg(feature = "hdfs-native")]
            Kind::HdfsNative => "of this build's Cargo.lock".to_owned(),
        }
    }
}

/// A connection and the settings that it was made with.
type Connected = Option<(Vec<(String, String)>, Box<dyn Fs>)>;

/// Serves commands until standard input ends.
pub(crate) fn serve(kind: &Kind) -> Result<()> {
    let mut connected: Connected = None;
    let mut output = io::stdout().lock();
    let mut say = |line: String| {
        writeln!(output, "{line}")
            .and_then(|()| output.flush())
            .map_err(|e| format!("cannot answer: {e}"))
    };
    say(format!("READY {}", kind.version()))?;
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|e| format!("cannot read a command: {e}"))?;
        match answer(kind, &mut connected, &line) {
            Ok(json) => say(json.to_string())?,
            Err(error) => say(format!("ERR Error {}", encode(&error)))?,
        }
    }
    Ok(())
}

fn answer(kind: &Kind, connected: &mut Connected, line: &str) -> Result<Json> {
    let command = Command::parse(line)?;
    let settings: Vec<_> = command
        .args
        .iter()
        .filter_map(|(k, v)| Some((k.strip_prefix("conf.")?.to_owned(), v.clone())))
        .collect();
    if connected.as_ref().is_none_or(|(before, _)| *before != settings) {
        let uri = command.text("conf.fs.defaultFS")?;
        *connected = Some((settings.clone(), kind.connect(uri, &settings)?));
    }
    let (_, fs) = connected.as_ref().ok_or("not connected")?;
    let mut answer = workload::run(fs.as_ref(), &command)?;
    if let (Kind::C(_), Json::Object(members)) = (kind, &mut answer) {
        // The library has an allocator of its own, which is not counted.
        members.retain(|(name, _)| !name.starts_with("alloc"));
    }
    Ok(answer)
}
