//! Hadoop's XML files: properties in document order, with file and line, includes resolved.
use crate::dfs_log;
use crate::error::{Error, Result, Status};
use roxmltree::{Document, Node, ParsingOptions};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of one file: far above any real site file, far below what hurts.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Bytes of one file and all it includes: includes repeat, so a few small files could mean many.
const TOTAL_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Files of one load, for the same reason.
const FILE_COUNT_MAX: usize = 256;
/// Levels of includes.
const INCLUDE_DEPTH_MAX: usize = 16;
/// Levels of elements around a property.
const ELEMENT_DEPTH_MAX: usize = 32;
/// Elements, texts and comments of one file.
const NODES_MAX: u32 = 1_000_000;

/// One `<property>`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Property {
    /// Trimmed name.
    pub(super) name: String,
    /// Text exactly as written; `None` if absent or empty, which sets nothing.
    pub(super) value: Option<String>,
    /// Whether later files may not change it.
    pub(super) is_final: bool,
    /// The file it stands in.
    pub(super) file: Arc<Path>,
    /// Line of the `<property>` tag, from 1.
    pub(super) line: usize,
}

/// Reads one file and all it includes.
///
/// # Errors
/// `Status::Config`, naming file and line: the file is missing, unreadable, no regular file, too
/// large, not UTF-8 or malformed XML; has a DTD or a wrong root; includes itself or too much.
pub(super) fn load(path: &Path) -> Result<Vec<Property>> {
    let mut loader = Loader { open: Vec::new(), files: 0, bytes: 0, out: Vec::new() };
    loader.load(path)?;
    Ok(loader.out)
}

struct Loader {
    /// Canonical paths of the files that are being read, outermost first.
    open: Vec<PathBuf>,
    files: usize,
    bytes: u64,
    out: Vec<Property>,
}

/// Where a walk through one document stands.
struct Place<'a> {
    file: Arc<Path>,
    text: &'a str,
    offset: usize,
    line: usize,
}

impl Place<'_> {
    /// Line of a node. Nodes come in document order, so each line end is counted once.
    fn line_of(&mut self, node: Node<'_, '_>) -> usize {
        let start = node.range().start;
        if let Some(passed) = self.text.as_bytes().get(self.offset..start) {
            self.line += passed.iter().filter(|byte| **byte == b'\n').count();
            self.offset = start;
        }
        self.line
    }

    fn error(&mut self, node: Node<'_, '_>, what: impl std::fmt::Display) -> Error {
        let line = self.line_of(node);
        error_at(&self.file, line, what)
    }
}

fn error_at(path: &Path, line: usize, what: impl std::fmt::Display) -> Error {
    Error::new(Status::Config, format!("{}:{line}: {what}", path.display()))
}

fn error_in(path: &Path, what: impl std::fmt::Display) -> Error {
    Error::new(Status::Config, format!("cannot read {}: {what}", path.display()))
}

impl Loader {
    fn load(&mut self, path: &Path) -> Result<()> {
        let canonical = std::fs::canonicalize(path).map_err(|e| error_in(path, e))?;
        if self.open.contains(&canonical) {
            return Err(error_in(path, "the file includes itself"));
        }
        if self.open.len() > INCLUDE_DEPTH_MAX {
            let what = format!("more than {INCLUDE_DEPTH_MAX} levels of includes");
            return Err(error_in(path, what));
        }
        self.files += 1;
        if self.files > FILE_COUNT_MAX {
            return Err(error_in(path, format!("more than {FILE_COUNT_MAX} included files")));
        }
        let text = self.read(path)?;
        let options = ParsingOptions { nodes_limit: NODES_MAX, ..ParsingOptions::default() };
        let document =
            Document::parse_with_options(&text, options).map_err(|e| malformed(path, &text, &e))?;
        let root = document.root_element();
        let mut place = Place { file: path.into(), text: &text, offset: 0, line: 1 };
        self.open.push(canonical);
        match root.tag_name().name() {
            "configuration" => self.walk(root, &mut place, 0)?,
            "property" => self.property(root, &mut place),
            other => {
                let what = format!("the root element is <{other}>, not <configuration>");
                return Err(place.error(root, what));
            }
        }
        self.open.pop();
        Ok(())
    }

    fn read(&mut self, path: &Path) -> Result<String> {
        let kind = std::fs::metadata(path).map_err(|e| error_in(path, e))?;
        if kind.is_dir() {
            return Err(error_in(path, "it is a directory"));
        }
        // Opening a FIFO would wait for a writer.
        if !kind.is_file() {
            return Err(error_in(path, "it is not a regular file"));
        }
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
            .map_err(|e| error_in(path, e))?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(error_in(path, format!("it is longer than {FILE_BYTES_MAX} bytes")));
        }
        self.bytes += bytes.len() as u64;
        if self.bytes > TOTAL_BYTES_MAX {
            let what = format!("with its includes it is longer than {TOTAL_BYTES_MAX} bytes");
            return Err(error_in(path, what));
        }
        let text = String::from_utf8(bytes).map_err(|e| {
            let good = e.utf8_error().valid_up_to();
            let line = 1 + e.as_bytes().iter().take(good).filter(|b| **b == b'\n').count();
            error_at(path, line, "not UTF-8, the only encoding that is read")
        })?;
        match foreign_encoding(&text) {
            Some(name) => {
                let what = format!("encoding {name} is not read, only UTF-8");
                Err(error_at(path, 1, what))
            }
            None => Ok(text),
        }
    }

    /// Properties and includes below `parent`.
    // Hadoop 3.4 Configuration.Parser#parse: a property counts wherever it stands.
    fn walk(&mut self, parent: Node<'_, '_>, place: &mut Place<'_>, depth: usize) -> Result<()> {
        if depth > ELEMENT_DEPTH_MAX {
            let what = format!("more than {ELEMENT_DEPTH_MAX} levels of elements");
            return Err(place.error(parent, what));
        }
        for child in parent.children().filter(Node::is_element) {
            match child.tag_name().name() {
                "property" => self.property(child, place),
                "include" => self.include(child, place, depth)?,
                _ => self.walk(child, place, depth + 1)?,
            }
        }
        Ok(())
    }

    // Hadoop 3.4 Configuration.Parser#handleEndElement: names are trimmed and values are not, an
    // empty value sets nothing, `final` is exactly "true", elements win over attributes.
    fn property(&mut self, node: Node<'_, '_>, place: &mut Place<'_>) {
        let line = place.line_of(node);
        let mut name = node.attribute("name").map(str::to_owned);
        let mut value = node.attribute("value").map(str::to_owned);
        let mut is_final = node.attribute("final") == Some("true");
        for child in node.children().filter(Node::is_element) {
            let text = text_of(child);
            match child.tag_name().name() {
                "name" if !text.is_empty() => name = Some(text),
                "value" if !text.is_empty() => value = Some(text),
                "final" => is_final = text == "true",
                _ => {}
            }
        }
        match name.as_deref().map(str::trim) {
            Some(name) if !name.is_empty() => self.out.push(Property {
                name: name.to_owned(),
                value,
                is_final,
                file: place.file.clone(),
                line,
            }),
            _ => dfs_log!(Warn, "{}:{line}: property without a name", place.file.display()),
        }
    }

    fn include(&mut self, node: Node<'_, '_>, place: &mut Place<'_>, depth: usize) -> Result<()> {
        let Some(href) = node.attribute("href") else {
            return Err(place.error(node, "include without href"));
        };
        if let Some(parse) = node.attribute("parse").filter(|parse| *parse != "xml") {
            return Err(place.error(node, format!("include with parse=\"{parse}\", not \"xml\"")));
        }
        let target = local_path(href, &place.file);
        if let Some(target) = target.as_deref().filter(|target| target.exists()) {
            let line = place.line_of(node);
            return self
                .load(target)
                .map_err(|e| e.context(format!("included at {}:{line}", place.file.display())));
        }
        // Hadoop 3.4 Configuration.Parser#handleInclude: only a missing file leads to the
        // fallback; one that is there and wrong is an error.
        let mut fallbacks = node
            .children()
            .filter(|child| child.is_element() && child.tag_name().name() == "fallback")
            .peekable();
        if fallbacks.peek().is_none() {
            let what = match target {
                Some(target) => format!("included file {} does not exist", target.display()),
                None => format!("include of {href}: only local files can be included"),
            };
            return Err(place.error(node, format!("{what}, and there is no fallback")));
        }
        for fallback in fallbacks {
            self.walk(fallback, place, depth + 1)?;
        }
        Ok(())
    }
}

/// The file that `href` in `file` means; `None` for URLs of other kinds.
fn local_path(href: &str, file: &Path) -> Option<PathBuf> {
    let path = match href.strip_prefix("file:") {
        Some(path) => path.strip_prefix("//").unwrap_or(path),
        None if href.contains("://") => return None,
        None => href,
    };
    // `join` keeps absolute paths as they are.
    Some(file.parent().unwrap_or(Path::new("")).join(path))
}

/// All text below a node; comments do not interrupt it.
fn text_of(node: Node<'_, '_>) -> String {
    node.descendants().filter(Node::is_text).filter_map(|text| text.text()).collect()
}

/// The declared encoding, if reading the document as UTF-8 would change its meaning.
fn foreign_encoding(text: &str) -> Option<&str> {
    let text = text.trim_start_matches('\u{feff}');
    let declaration = text.strip_prefix("<?xml")?;
    let (declaration, _) = declaration.split_once("?>")?;
    let (_, value) = declaration.split_once("encoding")?;
    let name = value.trim_start().strip_prefix('=')?.trim().trim_matches(['"', '\'']);
    let name = name.split(['"', '\'']).next()?;
    (!name.eq_ignore_ascii_case("utf-8") && !text.is_ascii()).then_some(name)
}

/// A parser's error with file and line.
fn malformed(path: &Path, text: &str, error: &roxmltree::Error) -> Error {
    use roxmltree::Error as E;
    let line_at = |offset: usize| 1 + text.bytes().take(offset).filter(|b| *b == b'\n').count();
    match error {
        E::DtdDetected => {
            let line = line_at(text.find("<!DOCTYPE").unwrap_or(0));
            let what = "a document type declaration (DTD) is refused: use xi:include or ${...}";
            error_at(path, line, what)
        }
        E::NodesLimitReached => error_in(path, format!("it has more than {NODES_MAX} nodes")),
        // These have no position: the fault shows at the end.
        E::NoRootNode | E::UnclosedRootNode | E::UnexpectedEndOfStream => {
            error_at(path, line_at(text.trim_end().len()), format!("malformed XML: {error}"))
        }
        _ => error_at(path, error.pos().row as usize, format!("malformed XML: {error}")),
    }
}

#[cfg(test)]
mod tests;
