//! The rules of the repository hold, and each rule catches what it is there for.
#[path = "../xtask/src/tidy/mod.rs"]
mod tidy;

use std::path::Path;
use tidy::layers::{self, EXCEPTIONS, LAYERS};
use tidy::source::{self, Source};
use tidy::{Finding, text};

#[test]
fn the_repository_is_tidy() {
    let findings = tidy::check(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} findings:\n{}", lines.len(), lines.join("\n"));
}

/// The line numbers at which `rule` finds something in `text`.
fn lines_of(rule: fn(&str, &Source) -> Vec<Finding>, path: &str, text: &str) -> Vec<usize> {
    rule(path, &Source::new(text)).iter().map(|f| f.line).collect()
}

#[test]
fn the_layer_table_is_whole() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for entry in std::fs::read_dir(root).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.strip_suffix(".rs").unwrap_or(&name);
        let listed = LAYERS.iter().any(|(name, _)| *name == module);
        assert!(listed || ["lib", "testing"].contains(&module), "{name} has no layer");
    }
    for (from, to, reason) in EXCEPTIONS {
        let known = |name: &str| LAYERS.iter().any(|(n, _)| *n == name);
        assert!(known(from) && known(to) && reason.len() > 10, "{from} -> {to}");
    }
}

#[test]
fn imports_from_above_or_beside_are_found() {
    let check = |path, text| lines_of(layers::check_file, path, text);
    assert_eq!(check("src/wire/packet.rs", "use crate::error::Error;\n"), []);
    assert_eq!(check("src/wire/packet.rs", "\nuse crate::net::tcp;\n"), [2]);
    // Any path counts, not only `use`.
    assert_eq!(check("src/ipc/retry.rs", "fn f() { crate::client::open() }\n"), [1]);
    assert_eq!(check("src/read/mod.rs", "use crate::write::OutputStream;\n"), [1]);
    assert_eq!(check("src/datanode/peer.rs", "use crate::namenode::NameNode;\n"), [1]);
    assert_eq!(check("src/datanode/peer.rs", "use crate::ipc::Proxy;\n"), []);
    // Layer 0 may import itself; a macro belongs to its module.
    assert_eq!(check("src/buf/pool.rs", "use crate::time::now;\nuse crate::dfs_log;\n"), []);
    assert_eq!(check("src/time.rs", "use crate::conf::keys;\n"), [1]);
    // The boundary sees the client, not the parts below.
    assert_eq!(check("src/capi/open.rs", "use crate::client::FileSystem;\n"), []);
    assert_eq!(check("src/capi/open.rs", "use crate::ipc::Proxy;\n"), [1]);
    assert_eq!(check("src/newcomer.rs", "fn f() {}\n"), [0]);
    assert_eq!(check("src/wire/packet.rs", "use crate::nowhere::x;\n"), [1]);
    assert_eq!(check("src/lib.rs", "use crate::client::FileSystem;\n"), []);
}

#[test]
fn groups_supers_tests_and_literals_are_understood() {
    let check = |path, text| lines_of(layers::check_file, path, text);
    let group = "use crate::{\n    error::Error,\n    client::{self, FileSystem},\n    read,\n};\n";
    assert_eq!(check("src/wire/packet.rs", group), [3, 3, 4]);
    // `super` reaches the root from depth 1 and, one module deeper, from depth 2.
    assert_eq!(check("src/wire/mod.rs", "use super::client::FileSystem;\n"), [1]);
    assert_eq!(check("src/wire/packet.rs", "use super::varint;\n"), []);
    assert_eq!(check("src/wire/packet.rs", "use super::super::client::FileSystem;\n"), [1]);
    let inline = "mod inner {\n    use super::super::super::client::X;\n}\n";
    assert_eq!(check("src/wire/packet.rs", inline), [2]);
    // Tests may reach for anything; comments and literals are no imports.
    let test = "#[cfg(test)]\nmod tests {\n    use crate::client::X;\n}\nuse crate::read::Y;\n";
    assert_eq!(check("src/wire/packet.rs", test), [5]);
    let literals = "// crate::client::a\n/* crate::read::b */\n\
        const A: &str = \"crate::write::c\";\nconst B: &str = r#\"crate::write::\"d\"#;\n\
        const C: char = '\"';\nuse crate::read::e;\n";
    assert_eq!(check("src/wire/packet.rs", literals), [6]);
}

#[test]
fn state_machines_stay_pure() {
    let check = |text| lines_of(layers::check_state_machine, "src/write/pipeline_state.rs", text);
    assert_eq!(check("use crate::error::Error;\nuse std::time::{Duration, Instant};\n"), []);
    assert_eq!(check("use crate::sys::socket::Socket;\n"), [1]);
    assert_eq!(check("use std::net::TcpStream;\nuse std::thread;\n"), [1, 2]);
    assert_eq!(check("use crate::time::{Deadline, now};\n"), [1]);
    assert_eq!(check("fn f() { let a = std::time::Instant::now(); }\n"), [1]);
    assert_eq!(check("fn f(at: Instant) { Instant::now(); }\n"), [1]);
    assert_eq!(check("use crate::dfs_log;\nuse parking_lot::Mutex;\n"), [1, 2]);
    assert_eq!(check("fn f() { crate::log::write(); }\n"), [1]);
    // Only files of that name.
    let other = lines_of(layers::check_state_machine, "src/a.rs", "use std::thread;\n");
    assert_eq!(other, []);
}

#[test]
fn unsafe_code_has_its_places_and_reasons() {
    let places = |path, text| lines_of(source::unsafe_places, path, text);
    assert_eq!(places("src/read/a.rs", "fn f() {\n    unsafe { g() }\n}\n"), [2]);
    assert_eq!(places("src/sys/a.rs", "fn f() {\n    unsafe { g() }\n}\n"), []);
    assert_eq!(places("src/read/a.rs", "// unsafe\nconst A: &str = \"unsafe\";\n"), []);
    let reasons = |text| lines_of(source::safety_comments, "src/sys/a.rs", text);
    assert_eq!(reasons("unsafe { g() }\n"), [1]);
    assert_eq!(reasons("// SAFETY: g asks for nothing.\nunsafe { g() }\n"), []);
    assert_eq!(reasons("// SAFETY: as above.\nlet a =\n    unsafe { g() };\n"), []);
    // A comment belongs to the next statement only.
    assert_eq!(reasons("// SAFETY: g.\nunsafe { g() };\nunsafe { h() };\n"), [3]);
    assert_eq!(reasons("unsafe impl Send for A {}\n"), [1]);
    assert_eq!(reasons("/// Does.\npub unsafe fn f() {}\n"), [2]);
    assert_eq!(reasons("/// Does.\n///\n/// # Safety\n/// Never.\npub unsafe fn f() {}\n"), []);
    assert_eq!(reasons("pub(crate) unsafe fn f() {}\n"), [1]);
    // The trait says it once for all.
    assert_eq!(reasons("impl A for B {\n    unsafe fn f() {}\n}\n"), []);
    assert_eq!(reasons("type F = unsafe extern \"C\" fn(i32);\n"), []);
}

#[test]
fn leftovers_are_found() {
    let check = |path, text| lines_of(source::banned_macros, path, text);
    assert_eq!(check("src/a.rs", concat!("fn f() { to", "do!() }\n")), [1]);
    assert_eq!(check("tests/a.rs", concat!("fn f() { db", "g!(1); }\n")), [1]);
    assert_eq!(check("src/a.rs", "fn f() { println!() }\n"), [1]);
    assert_eq!(check("xtask/src/a.rs", "fn f() { println!() }\n"), []);
    assert_eq!(check("src/a.rs", "#[cfg(test)]\nmod tests { fn f() { println!() } }\n"), []);
    assert_eq!(check("src/a.rs", "fn f(todo: bool) { assert!(todo != print) }\n"), []);
}

#[test]
fn lengths_are_limited() {
    let lines = |path, text: &str| -> Vec<usize> {
        text::lengths(path, text).iter().map(|f| f.line).collect()
    };
    assert_eq!(lines("src/a.rs", &"x\n".repeat(700)), []);
    assert_eq!(lines("src/a.rs", &"x\n".repeat(701)), [0]);
    assert_eq!(lines("src/a.rs", &format!("\n{}\n", "é".repeat(100))), []);
    assert_eq!(lines("src/a.rs", &format!("\n// {}\n", "é".repeat(98))), [2]);
}

#[test]
fn folders_of_one_machine_are_found() {
    let home = concat!("/ro", "ot/.cargo");
    assert_eq!(text::forbidden_words("a.md", &format!("see\n{home}\n")).len(), 1);
    assert_eq!(text::forbidden_words("a.md", "a/root/b is below the root").len(), 0);
    assert_eq!(text::forbidden_words("a.md", "the root of the tree").len(), 0);
}

#[test]
fn dead_links_are_found() {
    let exists = |path: &Path| path == Path::new("docs/abi.md");
    let check = |text| text::dead_links("docs/index.md", text, exists).len();
    assert_eq!(check("[a](abi.md#x), [b](../docs/abi.md), [c](https://a.example/b)"), 0);
    assert_eq!(check("[a](gone.md)\n```\n[b](gone.md)\n```\n[c](#here)"), 1);
}

#[test]
fn dependencies_need_a_reason() {
    let manifest = "[dependencies]\nlibc = \"0.2\"\ndfs = { path = \"..\" }\n# a = \"1\"\n\
        [dev-dependencies]\ntempfile = \"3\"\n[dependencies.prost]\nversion = \"1\"\n\
        [features]\nx = [\"y\"]\n";
    let names: Vec<String> = text::dependencies(manifest).into_iter().map(|(n, _)| n).collect();
    assert_eq!(names, ["libc", "tempfile", "prost"]);
    let manifests = [("Cargo.toml".to_owned(), manifest.to_owned())];
    let check = |page: &str| text::undocumented_dependencies(&manifests, "d.md", page);
    let libc = "| `libc` | system calls, declared once |\n| `prost` | protobuf messages |\n";
    let all = format!("{libc}| `tempfile` | folders for tests |\n");
    assert_eq!(check(&all), []);
    assert_eq!(check(libc).len(), 1);
    assert_eq!(check(&format!("{all}| `serde` | nobody uses it |\n")).len(), 1);
    assert_eq!(check(&all.replace("folders for tests", "x")).len(), 1);
}
