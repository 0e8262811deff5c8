//! Replays the fuzz corpora and a bounded, repeatable run of mutations of them, so that every
//! ordinary test run checks the decoders, without a nightly compiler or libFuzzer.
#[path = "../fuzz/entry.rs"]
mod entry;
// For the sources that entry.rs compiles again.
use dfs::{checksum, error, proto, wire};

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Mutated inputs of each target; a fifth of it for files.
const MUTATIONS: usize = 20_000;
/// Longest mutated input, bytes.
const INPUT_BYTES_MAX: usize = 4096;

/// Marsaglia's xorshift64*: the same inputs on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`; 0 for a bound of 0.
    fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { (self.next() >> 16) as usize % bound }
    }
}

/// The corpus of a target, sorted by name.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{folder:?}: {e}"));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let inputs: Vec<_> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert!(inputs.len() >= 3, "{folder:?} has only {} inputs", inputs.len());
    inputs
}

/// Changes `input` in one to four places.
fn mutate(random: &mut Random, mut input: Vec<u8>, others: &[Vec<u8>]) -> Vec<u8> {
    const BYTES: [u8; 10] = [0, 1, 2, 0x7f, 0x80, 0xfe, 0xff, b'<', b'$', b'9'];
    for _ in 0..=random.below(4) {
        let at = random.below(input.len());
        match random.below(8) {
            0 if !input.is_empty() => input[at] ^= 1 << random.below(8),
            1 if !input.is_empty() => input[at] = BYTES[random.below(BYTES.len())],
            2 if !input.is_empty() => input[at] = random.next() as u8,
            3 => input.insert(at, BYTES[random.below(BYTES.len())]),
            4 if !input.is_empty() => drop(input.remove(at)),
            5 => input.truncate(at),
            6 => {
                // A piece of the input once more, at another place.
                let end = at + random.below((input.len() - at).min(64) + 1);
                let piece = input[at..end].to_vec();
                let to = random.below(input.len() + 1);
                input.splice(to..to, piece);
            }
            _ => {
                let other = &others[random.below(others.len())];
                let from = random.below(other.len());
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
        }
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

/// Runs one input; a panic is reported with the input, so that it can become a corpus file.
fn run((name, target): entry::Target, input: &[u8], what: &str) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(input))) {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("a panic");
        panic!("{name}, {what}: {text}; input: {}", input.escape_ascii());
    }
}

fn check(name: &str) {
    let target = *entry::TARGETS.iter().find(|(n, _)| *n == name).unwrap();
    let inputs = corpus(name);
    for (index, input) in inputs.iter().enumerate() {
        run(target, input, &format!("corpus file {index}"));
    }
    // Removed however the test ends.
    struct Scratch;
    impl Drop for Scratch {
        fn drop(&mut self) {
            // Only one target makes it.
            drop(std::fs::remove_dir_all(entry::scratch_folder()));
        }
    }
    let _scratch = (name == "config_xml").then_some(Scratch);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    // Each of these costs a file.
    let count = if name == "config_xml" { MUTATIONS / 5 } else { MUTATIONS };
    for index in 0..count {
        let seed = inputs[random.below(inputs.len())].clone();
        let input = mutate(&mut random, seed, &inputs);
        run(target, &input, &format!("mutation {index}"));
    }
}

macro_rules! targets {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            check(stringify!($name));
        })*

        /// A target cannot be forgotten in one of the lists.
        #[test]
        fn every_target_has_a_program_a_corpus_and_a_test() {
            let tested = [$(stringify!($name)),*];
            let listed: Vec<&str> = entry::TARGETS.iter().map(|(name, _)| *name).collect();
            assert_eq!(listed, tested);
            let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
            let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
            for name in tested {
                let program = std::fs::read_to_string(fuzz.join(format!("targets/{name}.rs")));
                assert!(program.unwrap().contains(&format!("entry::{name}(data)")), "{name}");
                assert!(manifest.contains(&format!("path = \"targets/{name}.rs\"")), "{name}");
            }
        }
    };
}

targets!(
    varint_fields,
    rpc_response,
    rpc_frames,
    packet_header,
    pipeline_ack,
    op_response,
    packet_stream,
    config_xml,
    config_value,
);
