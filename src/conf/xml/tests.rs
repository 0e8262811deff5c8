use super::*;
use std::fs;
use tempfile::TempDir;

fn dir(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

/// Loads `a.xml` with this inside `<configuration>`.
fn body(text: &str) -> Vec<Property> {
    let dir = dir(&[("a.xml", &format!("<configuration>{text}</configuration>"))]);
    load(&dir.path().join("a.xml")).unwrap()
}

fn one(text: &str) -> (String, Option<String>, bool) {
    let mut found = body(text);
    assert_eq!(found.len(), 1, "{text}");
    let Property { name, value, is_final, .. } = found.remove(0);
    (name, value, is_final)
}

/// The message of the error, with the directory cut out.
fn error(files: &[(&str, &str)]) -> String {
    let dir = dir(files);
    let error = load(&dir.path().join("a.xml")).unwrap_err();
    assert_eq!(error.status(), Status::Config);
    error.message().replace(&format!("{}/", dir.path().display()), "")
}

fn pairs(properties: &[Property]) -> Vec<(&str, &str)> {
    properties.iter().map(|p| (p.name.as_str(), p.value.as_deref().unwrap_or("-"))).collect()
}

const XI: &str = "xmlns:xi='http://www.w3.org/2001/XInclude'";

fn include(href: &str, inside: &str) -> String {
    format!(
        "<configuration {XI}>\n<xi:include href=\"{href}\">{inside}</xi:include></configuration>"
    )
}

fn property(name: &str, value: &str) -> String {
    format!("<property><name>{name}</name><value>{value}</value></property>")
}

/// The cases and results are those of Hadoop 3.5's `Configuration`.
#[test]
fn properties_are_read_as_by_java() {
    let text = |s: &str| Some(s.to_owned());
    let a = || "a".to_owned();
    for (xml, expected) in [
        ("<property><name> a </name><value>1</value></property>", (a(), text("1"), false)),
        ("<property><name>a</name><value>  x  </value></property>", (a(), text("  x  "), false)),
        (
            "<property><name>a</name><value><![CDATA[x<y]]></value></property>",
            (a(), text("x<y"), false),
        ),
        (
            "<property><name>a</name><value>1<!-- c -->2</value></property>",
            (a(), text("12"), false),
        ),
        (
            "<property><name>a</name><value>&lt;&#65;&amp;</value></property>",
            (a(), text("<A&"), false),
        ),
        ("<property><name>a</name><value></value></property>", (a(), None, false)),
        ("<property><name>a</name><value/></property>", (a(), None, false)),
        ("<property><name>a</name><value> </value></property>", (a(), text(" "), false)),
        ("<property><name>a</name><final>true</final></property>", (a(), None, true)),
        ("<property><name>a</name><final> true </final></property>", (a(), None, false)),
        ("<property><name>a</name><final>false</final></property>", (a(), None, false)),
        ("<property name='a' value='1' final='true'/>", (a(), text("1"), true)),
        ("<property name='a' value='1'><value>3</value></property>", (a(), text("3"), false)),
        ("<x><property><name>a</name><value>1</value></property></x>", (a(), text("1"), false)),
        (
            "<property><description>d</description><name>a</name><source>s</source></property>",
            (a(), None, false),
        ),
    ] {
        assert_eq!(one(xml), expected, "{xml}");
    }
    assert_eq!(
        body("<property><value>1</value></property><property><name> </name></property>"),
        []
    );
}

#[test]
fn lines_are_those_of_the_property_tags() {
    let found = body(
        "\n<property><name>a</name></property>\n\n<!-- \n -->\n  <property>\n\
         <name>b</name></property><property name='c'/>",
    );
    assert_eq!(found.iter().map(|p| p.line).collect::<Vec<_>>(), [2, 6, 7]);
    assert!(found[0].file.ends_with("a.xml"));
}

#[test]
fn malformed_files_are_named_with_their_line() {
    for (text, start) in [
        ("<configuration>\n<property>\n</configuration>", "a.xml:3: malformed XML: "),
        ("<configuration>\n<property>\n", "a.xml:2: malformed XML: "),
        ("", "a.xml:1: malformed XML: "),
        ("\n\nnot xml", "a.xml:3: malformed XML: "),
        ("<configuration>\n&nope;</configuration>", "a.xml:2: malformed XML: "),
        ("<configuration/>\n<configuration/>", "a.xml:2: malformed XML: "),
        ("\n<html/>", "a.xml:2: the root element is <html>, not <configuration>"),
        (
            "<?xml version='1.0' encoding='ISO-8859-1'?>\n<configuration>é</configuration>",
            "a.xml:1: encoding ISO-8859-1 is not read, only UTF-8",
        ),
    ] {
        let message = error(&[("a.xml", text)]);
        assert!(message.starts_with(start), "{text:?}: {message}");
    }
}

#[test]
fn encodings_other_than_utf8_are_refused_where_they_matter() {
    let dir = dir(&[]);
    let path = dir.path().join("a.xml");
    fs::write(&path, b"<configuration>\n\n\xE9</configuration>").unwrap();
    let message = load(&path).unwrap_err().message().to_owned();
    assert!(message.ends_with("a.xml:3: not UTF-8, the only encoding that is read"), "{message}");
    for declaration in ["encoding='ISO-8859-1'", "encoding=\"utf-8\" standalone='yes'", ""] {
        let text = format!("\u{feff}<?xml version='1.0' {declaration}?><configuration/>");
        fs::write(&path, text).unwrap();
        assert_eq!(load(&path).unwrap(), [], "{declaration}");
    }
}

#[test]
fn what_is_no_file_is_refused() {
    let dir = dir(&[("d/x", "")]);
    let message = |path: &Path| load(path).unwrap_err().message().to_owned();
    let missing = message(&dir.path().join("missing.xml"));
    assert!(missing.contains("missing.xml: No such file"), "{missing}");
    assert!(message(&dir.path().join("d")).ends_with("/d: it is a directory"));
    assert!(message(Path::new("/dev/zero")).ends_with("/dev/zero: it is not a regular file"));
}

#[test]
fn an_unreadable_file_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let dir = dir(&[("a.xml", "<configuration/>")]);
    let path = dir.path().join("a.xml");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    // Root may read anything; then a link that leads in a circle is what cannot be read.
    let (path, reason) = if File::open(&path).is_ok() {
        let link = dir.path().join("loop.xml");
        std::os::unix::fs::symlink(&link, &link).unwrap();
        (link, "symbolic link")
    } else {
        (path, "Permission denied")
    };
    let message = load(&path).unwrap_err().message().to_owned();
    assert!(message.contains(&path.display().to_string()), "{message}");
    assert!(message.contains(reason), "{message}");
}

#[test]
fn document_types_are_refused_before_entities_grow() {
    let mut laughs = String::from("<?xml version='1.0'?>\n<!DOCTYPE lolz [\n<!ENTITY l0 'lol'>\n");
    for i in 1..30 {
        laughs += &format!("<!ENTITY l{i} '{}'>\n", format!("&l{};", i - 1).repeat(10));
    }
    laughs += "]>\n<configuration><property><name>a</name><value>&l29;</value></property>";
    laughs += "</configuration>";
    let outside = "\n<!DOCTYPE c [<!ENTITY e SYSTEM 'file:///etc/passwd'>]>\n\
                   <configuration>&e;</configuration>";
    for text in [&laughs, outside] {
        let message = error(&[("a.xml", text)]);
        assert!(message.starts_with("a.xml:2: a document type declaration"), "{message}");
    }
}

#[test]
fn sizes_and_depths_are_bounded() {
    let long = format!("<configuration>{}</configuration>", " ".repeat(FILE_BYTES_MAX as usize));
    assert!(error(&[("a.xml", &long)]).contains("it is longer than 16777216 bytes"));
    let many = format!("<configuration>{}</configuration>", "<a/>".repeat(NODES_MAX as usize));
    assert!(error(&[("a.xml", &many)]).contains("it has more than 1000000 nodes"));
    let deep =
        format!("{}{}", "<configuration>".repeat(200_000), "</configuration>".repeat(200_000));
    assert!(error(&[("a.xml", &deep)]).contains("more than 32 levels of elements"));
}

#[test]
fn includes_stand_in_place_relative_to_their_file() {
    let a = format!(
        "<configuration {XI}>{}<xi:include href='sub/b.xml' parse='xml'/>{}</configuration>",
        property("a", "1"),
        property("z", "9")
    );
    let b = include("c.xml", "<xi:fallback><property name='no' value='0'/></xi:fallback>");
    let c = format!("<configuration>{}</configuration>", property("c", "3"));
    let dir = dir(&[("a.xml", &a), ("sub/b.xml", &b), ("sub/c.xml", &c)]);
    let found = load(&dir.path().join("a.xml")).unwrap();
    assert_eq!(pairs(&found), [("a", "1"), ("c", "3"), ("z", "9")]);
    assert!(found[1].file.ends_with("sub/c.xml"));

    // Absolute paths, as such and as file URLs.
    let absolute = dir.path().join("sub/c.xml");
    for href in [format!("{}", absolute.display()), format!("file://{}", absolute.display())] {
        fs::write(dir.path().join("d.xml"), include(&href, "")).unwrap();
        assert_eq!(pairs(&load(&dir.path().join("d.xml")).unwrap()), [("c", "3")]);
    }
}

#[test]
fn a_fallback_serves_for_a_missing_file_only() {
    let fallback = format!("<xi:fallback>{}</xi:fallback>", property("f", "1"));
    for href in ["nope.xml", "http://localhost/x.xml"] {
        let dir = dir(&[("a.xml", &include(href, &fallback))]);
        assert_eq!(pairs(&load(&dir.path().join("a.xml")).unwrap()), [("f", "1")]);
        let dir = self::dir(&[("a.xml", &include(href, "<xi:fallback/>"))]);
        assert_eq!(load(&dir.path().join("a.xml")).unwrap(), []);
    }
    assert_eq!(
        error(&[("a.xml", &include("nope.xml", ""))]),
        "a.xml:2: included file nope.xml does not exist, and there is no fallback"
    );
    let message = error(&[("a.xml", &include("http://localhost/x.xml", ""))]);
    assert!(message.contains("a.xml:2: ") && message.contains("only local files"), "{message}");
    let message =
        error(&[("a.xml", &include("b.xml", &fallback)), ("b.xml", "<configuration>\n<")]);
    assert!(message.starts_with("included at a.xml:2: b.xml:2: malformed XML: "), "{message}");
    let message = error(&[("a.xml", &include("b", &fallback)), ("b/x", "")]);
    assert!(message.ends_with("cannot read b: it is a directory"), "{message}");
}

#[test]
fn wrong_includes_are_errors() {
    let a = format!("<configuration {XI}><xi:include/></configuration>");
    assert_eq!(error(&[("a.xml", &a)]), "a.xml:1: include without href");
    let a = format!("<configuration {XI}><xi:include href='x' parse='text'/></configuration>");
    assert_eq!(error(&[("a.xml", &a)]), "a.xml:1: include with parse=\"text\", not \"xml\"");
}

#[test]
fn circles_and_chains_of_includes_end() {
    let message = error(&[("a.xml", &include("./a.xml", ""))]);
    assert!(message.ends_with("cannot read ./a.xml: the file includes itself"), "{message}");
    let message = error(&[("a.xml", &include("b.xml", "")), ("b.xml", &include("a.xml", ""))]);
    assert!(message.ends_with("cannot read a.xml: the file includes itself"), "{message}");

    // A chain without a circle.
    let names: Vec<String> = (0..20).map(|i| format!("{i}.xml")).collect();
    let mut files = vec![("a.xml".to_owned(), include("0.xml", ""))];
    files.extend((0..19).map(|i| (names[i].clone(), include(&names[i + 1], ""))));
    files.push((names[19].clone(), "<configuration/>".to_owned()));
    let chain: Vec<_> = files.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
    assert!(error(&chain).ends_with("more than 16 levels of includes"));

    // Each file includes the next one twice.
    let twice = |href: &str| {
        let one = format!("<xi:include href='{href}'/>");
        format!("<configuration {XI}>{one}{one}</configuration>")
    };
    let mut files = vec![("a.xml".to_owned(), twice("0.xml"))];
    files.extend((0..12).map(|i| (names[i].clone(), twice(&names[i + 1]))));
    files.push((names[12].clone(), "<configuration/>".to_owned()));
    let tree: Vec<_> = files.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
    assert!(error(&tree).ends_with("more than 256 included files"));
}
