//! Raw values from files and from the application.
use super::expand;
use super::keys;
use super::xml::{self, Property};
use crate::dfs_log;
use crate::error::{Error, Result, Status};
use crate::sys;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files of a configuration directory, in the order in which they are read.
const SITE_FILES: [&str; 2] = ["core-site.xml", "hdfs-site.xml"];
/// Characters of a value that an error message repeats.
const SHOWN_CHARS_MAX: usize = 200;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    File { path: Arc<Path>, line: usize },
    Application,
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Application => f.write_str("dfs_config_set"),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// A value before expansion.
#[derive(Clone, Debug)]
struct Entry {
    value: String,
    origin: Origin,
}

/// Access to environment variables, which tests replace.
#[derive(Clone, Debug, Default)]
pub(super) struct Environment {
    #[cfg(test)]
    pub(super) fixed: Option<HashMap<String, String>>,
}

impl Environment {
    /// A variable that is set and not empty.
    fn path(&self, name: &str) -> Option<PathBuf> {
        self.os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    fn os(&self, name: &str) -> Option<OsString> {
        #[cfg(test)]
        if let Some(fixed) = &self.fixed {
            return fixed.get(name).map(OsString::from);
        }
        // The standard library panics on names that no variable can have.
        if name.is_empty() || name.contains(['=', '\0']) {
            return None;
        }
        std::env::var_os(name)
    }

    /// A variable as text.
    ///
    /// # Errors
    /// The reason, if its value is not UTF-8.
    pub(super) fn text(&self, name: &str) -> std::result::Result<Option<String>, String> {
        self.os(name)
            .map(|value| {
                value.into_string().map_err(|_| format!("environment variable {name} is not UTF-8"))
            })
            .transpose()
    }
}

/// Hadoop configuration as Java's `Configuration` keeps it: raw values of files, in load order and
/// subject to `final`, under the application's own values, under Hadoop's defaults.
///
/// Keys are stored under their current names, so deprecated ones work everywhere. No call blocks
/// except for reading local files; clone it to hand it to another thread.
#[derive(Clone, Debug, Default)]
pub struct Config {
    from_files: HashMap<String, Entry>,
    finals: HashSet<String>,
    from_application: HashMap<String, Entry>,
    pub(super) environment: Environment,
}

impl Config {
    /// No file read, nothing set.
    pub fn new() -> Config {
        Config::default()
    }

    /// Reads `core-site.xml` and `hdfs-site.xml` of `$HADOOP_CONF_DIR`, else of
    /// `$HADOOP_HOME/etc/hadoop`; nothing if neither variable is set to more than an empty text.
    ///
    /// # Errors
    /// `Status::Config`: the directory does not exist, or a file cannot be read (file and line
    /// named). A directory without the files is fine, as in Java, and logged.
    pub fn load_default() -> Result<Config> {
        Config::load_from_environment(Environment::default())
    }

    pub(super) fn with_environment(environment: Environment) -> Config {
        Config { environment, ..Config::default() }
    }

    fn load_from_environment(environment: Environment) -> Result<Config> {
        let mut config = Config::with_environment(environment);
        let (variable, directory) = match config.environment.path("HADOOP_CONF_DIR") {
            Some(directory) => ("HADOOP_CONF_DIR", directory),
            None => match config.environment.path("HADOOP_HOME") {
                Some(home) => ("HADOOP_HOME", home.join("etc/hadoop")),
                None => return Ok(config),
            },
        };
        let context = |e: Error| e.context(format!("configuration named by {variable}"));
        if config.load_site_files(&directory).map_err(context)? == 0 {
            let directory = directory.display();
            dfs_log!(Warn, "{directory}, named by {variable}, has none of {SITE_FILES:?}");
        }
        Ok(config)
    }

    /// Reads one file and what it includes. Its values win over those of earlier files, except
    /// over final ones. On an error nothing of the file is kept.
    ///
    /// # Errors
    /// `Status::Config`, naming the file, and the line where there is one.
    pub fn load_file(&mut self, path: impl AsRef<Path>) -> Result<()> {
        for property in xml::load(path.as_ref())? {
            self.add(property);
        }
        Ok(())
    }

    /// Reads `core-site.xml` and `hdfs-site.xml` of a directory; one of them may be missing.
    ///
    /// # Errors
    /// `Status::Config`: the directory or both files are missing, or as [`Config::load_file`].
    pub fn load_dir(&mut self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        if self.load_site_files(path)? == 0 {
            let what = format!("{} has neither {}", path.display(), SITE_FILES.join(" nor "));
            return Err(Error::new(Status::Config, what));
        }
        Ok(())
    }

    /// Reads the site files that exist; returns how many.
    fn load_site_files(&mut self, directory: &Path) -> Result<usize> {
        let error = |what: &dyn fmt::Display| {
            Error::new(Status::Config, format!("cannot read {}: {what}", directory.display()))
        };
        let metadata = std::fs::metadata(directory).map_err(|e| error(&e))?;
        if !metadata.is_dir() {
            return Err(error(&"it is not a directory"));
        }
        let mut properties = Vec::new();
        let mut count = 0;
        for file in SITE_FILES {
            let path = directory.join(file);
            // A file that cannot be looked at is an error, one that is not there is none.
            if path.try_exists().map_err(|e| error(&e))? {
                properties.extend(xml::load(&path)?);
                count += 1;
            }
        }
        for property in properties {
            self.add(property);
        }
        Ok(count)
    }

    // Hadoop 3.4 Configuration#loadProperty: the first file that says final decides for good,
    // also without a value of its own.
    fn add(&mut self, property: Property) {
        let Property { name, value, is_final, file, line } = property;
        let name = keys::current_name(&name).to_owned();
        if let Some(value) = value {
            if self.finals.contains(&name) {
                let same = self.from_files.get(&name).is_some_and(|entry| entry.value == value);
                if !same {
                    let file = file.display();
                    dfs_log!(Warn, "{file}:{line}: {name} is final in an earlier file, ignored");
                }
            } else {
                let origin = Origin::File { path: file, line };
                self.from_files.insert(name.clone(), Entry { value, origin });
            }
        }
        if is_final {
            self.finals.insert(name);
        }
    }

    /// Sets a value as the application's own word: it wins over every file, loaded before or
    /// after, and over `final`. It is checked when the configuration is frozen. Spaces around the
    /// key do not count; `${...}` in the value is expanded when it is read.
    pub fn set(&mut self, key: &str, value: &str) {
        let name = keys::current_name(key.trim()).to_owned();
        let entry = Entry { value: value.to_owned(), origin: Origin::Application };
        self.from_application.insert(name, entry);
    }

    /// The value of a key, expanded but not trimmed, or Hadoop's default; `None` if there is
    /// neither. Deprecated names work.
    ///
    /// # Errors
    /// `Status::Config`: the value cannot be expanded.
    pub fn get(&self, key: &str) -> Result<Option<String>> {
        Ok(self.lookup(key.trim())?.map(|(value, _)| value))
    }

    /// The URI of the default file system.
    ///
    /// # Errors
    /// `Status::Config`: the value cannot be expanded.
    // Hadoop 3.4 FileSystem#getDefaultUri, #fixName: the old forms `local` and `host:port`.
    pub fn default_fs(&self) -> Result<String> {
        let text = self.get(keys::FS_DEFAULT_FS.name)?.unwrap_or_default();
        let text = text.trim();
        Ok(match text {
            "local" => "file:///".to_owned(),
            _ if text.contains('/') => text.to_owned(),
            _ => format!("hdfs://{text}"),
        })
    }

    /// The expanded value of a key with its origin.
    pub(super) fn lookup(&self, key: &str) -> Result<Option<(String, Origin)>> {
        let name = keys::current_name(key);
        let Some((raw, origin)) = self.raw(name) else {
            return Ok(None);
        };
        let expanded = expand::expand(raw, |variable| self.variable(variable))
            .map_err(|reason| bad_value(name, raw, &origin, &reason))?;
        Ok(Some((expanded, origin)))
    }

    fn raw(&self, name: &str) -> Option<(&str, Origin)> {
        if let Some(entry) = self.from_application.get(name).or_else(|| self.from_files.get(name)) {
            return Some((&entry.value, entry.origin.clone()));
        }
        keys::default_text(name).map(|text| (text, Origin::Default))
    }

    /// What `${name}` stands for.
    // Hadoop 3.4 Configuration#substituteVars: environment and system properties come before keys.
    fn variable(&self, name: &str) -> std::result::Result<Option<String>, String> {
        let found = match name.strip_prefix("env.") {
            Some(spec) if !spec.is_empty() => {
                expand::environment(spec, |variable| self.environment.text(variable))?
            }
            _ => self.system_property(name)?,
        };
        Ok(found.or_else(|| self.raw(keys::current_name(name)).map(|(text, _)| text.to_owned())))
    }

    fn system_property(&self, name: &str) -> std::result::Result<Option<String>, String> {
        match name {
            "user.name" => Ok(sys::user::name()),
            "user.home" => self.environment.text("HOME"),
            // A JVM on Linux has this one whatever the environment says.
            "java.io.tmpdir" => Ok(Some("/tmp".to_owned())),
            _ => Ok(None),
        }
    }
}

/// The error for a value that cannot be used.
pub(super) fn bad_value(name: &str, value: &str, origin: &Origin, reason: &str) -> Error {
    let shown: String = value.chars().take(SHOWN_CHARS_MAX).collect();
    let more = if shown.len() < value.len() { "..." } else { "" };
    Error::new(Status::Config, format!("{name} = \"{shown}{more}\" ({origin}): {reason}"))
}

#[cfg(test)]
pub(in crate::conf) mod tests;
