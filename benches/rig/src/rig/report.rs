//! Results as tables, Markdown and JSON.
use super::options::Options;
use super::scenario::Scenario;
use super::stats::{Spread, spread};
use crate::api::Result;
use crate::json::{Json, object};
use std::fmt::Write as _;
use std::path::Path;

/// One client's rounds of a scenario: each measure by name.
pub(super) struct Row {
    client: String,
    measures: Vec<(&'static str, Vec<f64>)>,
    pub(super) error: Option<String>,
}

/// A column: measure, title, decimals.
type Column = (&'static str, &'static str, usize);

const OP_COLUMNS: &[Column] = &[
    ("p50_us", "p50 µs", 1),
    ("p95_us", "p95 µs", 1),
    ("p99_us", "p99 µs", 1),
    ("p999_us", "p999 µs", 0),
    ("ops_per_s", "ops/s", 0),
    ("cpu_us_per_op", "CPU µs/op", 1),
    ("server_us_per_op", "server µs/op", 1),
    ("switches_per_op", "switches/op", 2),
    ("connects_per_1000", "connects/1000", 2),
    ("allocs_per_op", "allocs/op", 2),
    ("alloc_bytes_per_op", "alloc B/op", 0),
];

const BULK_COLUMNS: &[Column] = &[
    ("wall_s", "wall s", 3),
    ("gb_per_s", "GB/s", 2),
    ("cpu_s_per_gib", "CPU s/GiB", 3),
    ("user_s_per_gib", "user s/GiB", 3),
    ("server_s_per_gib", "server s/GiB", 3),
    ("vcsw", "switches", 0),
    ("allocs", "allocs", 0),
    ("close_s", "close s", 3),
];

/// Measures that are compared between clients.
const COMPARED: &[(&str, &str)] = &[
    ("p50_us", "p50"),
    ("p95_us", "p95"),
    ("p99_us", "p99"),
    ("ops_per_s", "ops/s"),
    ("cpu_us_per_op", "CPU"),
    ("gb_per_s", "speed"),
    ("cpu_s_per_gib", "CPU"),
];

/// Measures that are kept as a client gives them.
const AS_THEY_ARE: &[&str] = &[
    "wall_s",
    "cpu_s",
    "p50_us",
    "p95_us",
    "p99_us",
    "p999_us",
    "max_us",
    "close_s",
    "vcsw",
    "allocs",
    "alloc_bytes_per_op",
    "gc_count",
    "gc_ms",
];

impl Row {
    pub(super) fn new(client: &str) -> Row {
        Row { client: client.to_owned(), measures: Vec::new(), error: None }
    }

    /// Takes in one round.
    pub(super) fn push(&mut self, answer: &Json, server_s: f64, tcp_opens: Option<f64>) {
        let measures = &mut self.measures;
        let mut add = |name: &'static str, value: Option<f64>| {
            let Some(value) = value else { return };
            match measures.iter_mut().find(|(n, _)| *n == name) {
                Some((_, values)) => values.push(value),
                None => measures.push((name, vec![value])),
            }
        };
        let get = |name: &str| answer.number(name);
        for name in AS_THEY_ARE {
            add(name, get(name));
        }
        let (user, cpu) = (get("user_s"), get("cpu_s"));
        add("server_s", Some(server_s));
        let ops = get("count").filter(|n| *n > 0.0);
        let per_op = |value: Option<f64>, scale: f64| value.zip(ops).map(|(v, n)| v * scale / n);
        add("ops_per_s", ops.zip(get("wall_s")).map(|(n, wall)| n / wall));
        add("cpu_us_per_op", per_op(cpu, 1e6));
        add("server_us_per_op", per_op(Some(server_s), 1e6));
        // A client that counts knows better than the system, which counts for everybody.
        add("connects_per_1000", per_op(get("connects").or(tcp_opens), 1e3));
        add("switches_per_op", per_op(get("vcsw"), 1.0));
        add("allocs_per_op", per_op(get("allocs"), 1.0));
        let bytes = get("bytes").zip(ops).map(|(bytes, n)| bytes * n).filter(|n| *n > 0.0);
        let per_gib = |v: Option<f64>| v.zip(bytes).map(|(v, b)| v * f64::from(1 << 30) / b);
        add("gb_per_s", bytes.zip(get("wall_s")).map(|(b, wall)| b / wall / 1e9));
        add("cpu_s_per_gib", per_gib(cpu));
        add("user_s_per_gib", per_gib(user));
        add("server_s_per_gib", per_gib(Some(server_s)));
    }

    fn spread(&self, name: &str) -> Option<Spread> {
        self.measures.iter().find(|(n, _)| *n == name).and_then(|(_, values)| spread(values))
    }

    fn json(&self) -> Json {
        let measures = self.measures.iter().map(|(name, values)| {
            let values = values.iter().map(|v| Json::from(*v)).collect();
            ((*name).to_owned(), Json::List(values))
        });
        let mut members = vec![
            ("client".to_owned(), self.client.as_str().into()),
            ("rounds".to_owned(), Json::Object(measures.collect())),
        ];
        members.extend(self.error.as_ref().map(|e| ("error".to_owned(), e.as_str().into())));
        Json::Object(members)
    }
}

fn columns(scenario: &Scenario) -> &'static [Column] {
    if scenario.is_bulk() { BULK_COLUMNS } else { OP_COLUMNS }
}

/// The table of a scenario: a header, a line a client, a line a comparison; cells split by `|`.
fn cells(scenario: &Scenario, rows: &[Row]) -> Vec<Vec<String>> {
    let shown: Vec<_> = columns(scenario)
        .iter()
        .filter(|(name, ..)| rows.iter().any(|row| row.spread(name).is_some()))
        .collect();
    let mut head = vec!["client".to_owned()];
    head.extend(shown.iter().map(|(_, title, _)| (*title).to_owned()));
    let mut table = vec![head];
    for row in rows {
        let mut line = vec![row.client.clone()];
        line.extend(shown.iter().map(|(name, _, digits)| {
            row.spread(name).map_or("-".to_owned(), |s| {
                format!("{:.d$} [{:.d$}..{:.d$}]", s.median, s.min, s.max, d = *digits)
            })
        }));
        table.push(line);
    }
    table
}

/// How the first client stands to each other one, and errors.
fn remarks(scenario: &Scenario, rows: &[Row]) -> Vec<String> {
    let mut lines: Vec<String> = rows
        .iter()
        .filter_map(|row| row.error.as_ref().map(|e| format!("{} failed: {e}", row.client)))
        .collect();
    let Some((first, others)) = rows.split_first() else { return lines };
    for other in others {
        let ratios: Vec<String> = COMPARED
            .iter()
            .filter(|(name, _)| columns(scenario).iter().any(|(shown, ..)| shown == name))
            .filter_map(|(name, title)| {
                let (a, b) = (first.spread(name)?.median, other.spread(name)?.median);
                (b > 0.0).then(|| format!("{title} {:.2}", a / b))
            })
            .collect();
        if !ratios.is_empty() {
            lines.push(format!("{} / {}: {}", first.client, other.client, ratios.join(", ")));
        }
    }
    lines
}

/// The result of a scenario for a terminal.
pub(super) fn table(scenario: &Scenario, rows: &[Row]) -> String {
    let table = cells(scenario, rows);
    let width = |column: usize| {
        let lens = table.iter().filter_map(|line| line.get(column)).map(|c| c.chars().count());
        lens.max().unwrap_or(0)
    };
    let mut text = String::new();
    for line in &table {
        for (column, cell) in line.iter().enumerate() {
            let pad = width(column) - cell.chars().count();
            text.push_str(cell);
            text.extend(std::iter::repeat_n(' ', pad + 2));
        }
        text.push('\n');
    }
    for line in remarks(scenario, rows) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// Everything that a run found.
pub(super) struct Report {
    facts: Vec<(&'static str, String)>,
    notes: Vec<String>,
    versions: Vec<(String, String)>,
    results: Vec<(&'static Scenario, Vec<Row>)>,
}

fn output_of(program: &str, args: &[&str]) -> String {
    let output = std::process::Command::new(program).args(args).output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => "unknown".to_owned(),
    }
}

fn cpu_model() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    line.and_then(|l| l.split_once(": ")).map_or("unknown", |(_, model)| model).to_owned()
}

impl Report {
    pub(super) fn new(options: &Options) -> Report {
        let dirty = !output_of("git", &["status", "--porcelain", "-uno"]).is_empty();
        let commit = output_of("git", &["rev-parse", "HEAD"]);
        let commit = if dirty { format!("{commit}, with changes") } else { commit };
        let args: Vec<String> = std::env::args().skip(1).collect();
        let facts = vec![
            ("date", output_of("date", &["-u", "+%Y-%m-%d %H:%M UTC"])),
            ("commit", commit),
            ("command", format!("dfs-bench {}", args.join(" "))),
            ("CPU", format!("{} x {}", crate::sys::cpu_count(), cpu_model())),
            ("kernel", output_of("uname", &["-sr"])),
            ("load before", std::fs::read_to_string("/proc/loadavg").unwrap_or_default()),
            ("rounds", format!("{} after 1 to warm up", options.rounds)),
        ];
        let facts = facts.into_iter().map(|(k, v)| (k, v.trim().to_owned())).collect();
        Report { facts, notes: Vec::new(), versions: Vec::new(), results: Vec::new() }
    }

    /// A fact about the servers.
    pub(super) fn note(&mut self, text: &str) {
        println!("{text}");
        self.notes.push(text.to_owned());
    }

    /// A client that could not be had.
    pub(super) fn missing(&mut self, client: &str, why: &str) {
        self.note(&format!("client {client} is missing: {why}"));
    }

    pub(super) fn version(&mut self, client: &str, version: &str) {
        if !self.versions.iter().any(|(name, _)| name == client) {
            self.versions.push((client.to_owned(), version.to_owned()));
        }
    }

    pub(super) fn add(&mut self, scenario: &'static Scenario, rows: Vec<Row>) {
        self.results.push((scenario, rows));
    }

    /// Writes `report.md` and `report.json` to `directory`.
    pub(super) fn write(&self, directory: &Path) -> Result<()> {
        let (markdown, json) = (directory.join("report.md"), directory.join("report.json"));
        for (path, text) in [(&markdown, self.markdown()), (&json, self.json().to_string())] {
            std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        println!("\nwritten: {} and {}", markdown.display(), json.display());
        Ok(())
    }

    fn markdown(&self) -> String {
        let mut text = String::from("# Benchmark\n\n");
        for (name, value) in &self.facts {
            let _ = writeln!(text, "- {name}: {value}");
        }
        for (client, version) in &self.versions {
            let _ = writeln!(text, "- client {client}: version {version}");
        }
        for note in &self.notes {
            let _ = writeln!(text, "- {note}");
        }
        text.push_str("\nMedian [min..max] of the rounds; a ratio is the quotient of medians.\n");
        for (scenario, rows) in &self.results {
            let _ = writeln!(text, "\n## {}: {}\n", scenario.name, scenario.about);
            for (i, line) in cells(scenario, rows).iter().enumerate() {
                let _ = writeln!(text, "| {} |", line.join(" | "));
                if i == 0 {
                    let _ = writeln!(text, "|{}", " --- |".repeat(line.len()));
                }
            }
            text.push('\n');
            for line in remarks(scenario, rows) {
                let _ = writeln!(text, "- {line}");
            }
        }
        text
    }

    fn json(&self) -> Json {
        let texts = |list: &[(String, String)]| {
            Json::Object(list.iter().map(|(k, v)| (k.clone(), v.as_str().into())).collect())
        };
        let facts = self.facts.iter().map(|(k, v)| ((*k).to_owned(), v.as_str().into()));
        let results = self.results.iter().map(|(scenario, rows)| {
            object([
                ("scenario", scenario.name.into()),
                ("about", scenario.about.into()),
                ("pinned", Json::Bool(scenario.pinned)),
                ("clients", Json::List(rows.iter().map(Row::json).collect())),
            ])
        });
        object([
            ("facts", Json::Object(facts.collect())),
            ("versions", texts(&self.versions)),
            ("notes", Json::List(self.notes.iter().map(|n| n.as_str().into()).collect())),
            ("results", Json::List(results.collect())),
        ])
    }
}
