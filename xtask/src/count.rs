//! Counts of tests, read from what the test programs print.

/// Tests by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Ignored or skipped: counts as a failure of the run, since nothing is skipped silently.
    pub(crate) skipped: u64,
}

impl Count {
    /// Adds another count.
    pub(crate) fn add(&mut self, other: Count) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// What a suite's program prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// `cargo test`: a `test result:` line per binary.
    Cargo,
    /// Python's unittest: `Ran N tests`, then `OK` or `FAILED (failures=1, skipped=1)`.
    Unittest,
    /// Maven Surefire: the last `Tests run: N, Failures: N, Errors: N, Skipped: N`.
    Surefire,
    /// Our own programs: `N passed, N failed` lines, which are summed.
    Plain,
}

/// Reads the counts.
pub(crate) fn read(format: Format, output: &str) -> Count {
    let mut count = Count::default();
    match format {
        Format::Cargo => {
            for line in output.lines().filter(|l| l.trim_start().starts_with("test result:")) {
                count.add(Count {
                    passed: before(line, " passed"),
                    failed: before(line, " failed"),
                    skipped: before(line, " ignored"),
                });
            }
        }
        Format::Unittest => {
            for line in output.lines() {
                if let Some(rest) = line.strip_prefix("Ran ") {
                    count.passed += rest.split(' ').next().map_or(0, number);
                } else if line.starts_with("FAILED (") || line.starts_with("OK (") {
                    let failed = after(line, "failures=") + after(line, "errors=");
                    // Errors of set-up code may lie outside the tests that ran.
                    count.failed += failed;
                    count.skipped += after(line, "skipped=");
                    let unexpected = after(line, "unexpected successes=");
                    count.failed += unexpected;
                }
            }
            count.passed = count.passed.saturating_sub(count.failed + count.skipped);
        }
        Format::Surefire => {
            let last = output.lines().rfind(|l| l.contains("Tests run: ") && !l.contains("Time"));
            if let Some(line) = last {
                count.failed = after(line, "Failures: ") + after(line, "Errors: ");
                count.skipped = after(line, "Skipped: ");
                let all = after(line, "Tests run: ");
                count.passed = all.saturating_sub(count.failed + count.skipped);
            }
        }
        Format::Plain => {
            for line in output.lines() {
                let Some((left, right)) = line.trim().split_once(" passed, ") else { continue };
                let failed = right.strip_suffix(" failed").and_then(|n| n.parse::<u64>().ok());
                if let (Ok(passed), Some(failed)) = (left.parse::<u64>(), failed) {
                    count.add(Count { passed, failed, skipped: 0 });
                }
            }
        }
    }
    count
}

/// The number right before `word`; 0 without one.
fn before(line: &str, word: &str) -> u64 {
    let Some((left, _)) = line.split_once(word) else { return 0 };
    left.rsplit([' ', ';']).next().map_or(0, number)
}

/// The number right behind `word`; 0 without one.
fn after(line: &str, word: &str) -> u64 {
    let Some((_, right)) = line.split_once(word) else { return 0 };
    let end = right.find(|c: char| !c.is_ascii_digit()).unwrap_or(right.len());
    number(right.get(..end).unwrap_or(""))
}

fn number(text: &str) -> u64 {
    text.trim().parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(passed: u64, failed: u64, skipped: u64) -> Count {
        Count { passed, failed, skipped }
    }

    #[test]
    fn cargo_results_are_summed() {
        let text = "running 3 tests\n\
            test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n\
            test result: FAILED. 10 passed; 2 failed; 1 ignored; 0 measured; 7 filtered out\n\
            this line has 99 passed and is none\n";
        assert_eq!(read(Format::Cargo, text), count(13, 2, 1));
        assert_eq!(read(Format::Cargo, ""), count(0, 0, 0));
    }

    #[test]
    fn unittest_results() {
        assert_eq!(read(Format::Unittest, "Ran 7 tests in 0.1s\n\nOK\n"), count(7, 0, 0));
        let text = "Ran 9 tests in 0.1s\n\nFAILED (failures=1, errors=2, skipped=1)\n";
        assert_eq!(read(Format::Unittest, text), count(5, 3, 1));
        assert_eq!(read(Format::Unittest, "Ran 2 tests in 1s\n\nOK (skipped=1)\n"), count(1, 0, 1));
    }

    #[test]
    fn surefire_counts_the_sum_line_only() {
        let text = "[INFO] Tests run: 4, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 1 s\n\
            [INFO] Tests run: 6, Failures: 1, Errors: 1, Skipped: 1\n";
        assert_eq!(read(Format::Surefire, text), count(3, 2, 1));
    }

    #[test]
    fn plain_lines_are_summed_and_must_stand_alone() {
        let text = "3 passed, 0 failed\nx\n 4 passed, 1 failed\nabout 5 passed, 1 failed\n";
        assert_eq!(read(Format::Plain, text), count(7, 1, 0));
    }
}
