//! Configuration.
use super::boundary::{self, CText, Out, on, run, text};
use super::error::dfs_error;
use super::handle::{Kind, Object};
use crate::conf::Config;
use crate::error::{Error, Result, Status};
use parking_lot::{Mutex, MutexGuard};
use std::ffi::c_char;
use std::path::Path;

/// Hadoop configuration: keys and values, from files and from the program. Unlike other handles
/// it may be used in a forked child.
pub struct dfs_config {
    _opaque: [u8; 0],
}

pub(super) struct ConfigObject {
    state: Mutex<State>,
}

struct State {
    config: Config,
    /// Texts handed out by dfs_config_get, kept until the object goes.
    given: Vec<CText>,
}

impl Object for ConfigObject {
    type C = dfs_config;
    const KIND: Kind = Kind::Config;
    const SURVIVES_FORK: bool = true;
}

impl ConfigObject {
    fn new(config: Config) -> ConfigObject {
        ConfigObject { state: Mutex::new(State { config, given: Vec::new() }) }
    }

    /// The header asks for one call at a time. Waiting is no remedy for a caller who does not heed
    /// it, and would be for ever in a child forked during a call.
    fn lock(&self) -> Result<MutexGuard<'_, State>> {
        self.state.try_lock().ok_or_else(|| {
            Error::new(Status::WouldBlock, "another thread is using the configuration")
        })
    }

    /// A copy of the settings.
    pub(super) fn settings(&self) -> Result<Config> {
        Ok(self.lock()?.config.clone())
    }
}

fn add_resource(config: &mut Config, path: &str) -> Result<()> {
    if path.is_empty() {
        return Err(Error::new(Status::InvalidArgument, "path is empty"));
    }
    let path = Path::new(path);
    if path.is_dir() { config.load_dir(path) } else { config.load_file(path) }
}

/// Makes a configuration with Hadoop's defaults and nothing else: no file is read.
///
/// `out`: receives the configuration, to be freed with dfs_config_free. `error`: may be NULL.
///
/// Returns DFS_OK, DFS_E_NULL_POINTER or DFS_E_NO_MEMORY.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_config_new(out: *mut *mut dfs_config, error: *mut *mut dfs_error) -> i32 {
    let out = Out::handle(out, "out");
    run(error, || {
        out.check()?;
        out.give(ConfigObject::new(Config::new()))
    })
}

/// Makes a configuration from files.
///
/// `path`: a Hadoop XML file, or a directory with core-site.xml and hdfs-site.xml, of which one may
/// be missing. NULL: the directory $HADOOP_CONF_DIR, else $HADOOP_HOME/etc/hadoop; if neither
/// variable is set, no file. `out`: receives the configuration, to be freed with dfs_config_free.
/// `error`: may be NULL.
///
/// Returns DFS_OK; DFS_E_CONFIG for a file or directory that is missing or malformed (the message
/// has file and line); DFS_E_INVALID_ARGUMENT, DFS_E_NULL_POINTER, DFS_E_BAD_UTF8,
/// DFS_E_NO_MEMORY.
///
/// Threads: any, concurrent. Blocks only for reading local files. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_config_load(
    path: *const c_char,
    out: *mut *mut dfs_config,
    error: *mut *mut dfs_error,
) -> i32 {
    let out = Out::handle(out, "out");
    run(error, || {
        out.check()?;
        let config = match boundary::optional_text(path, "path")? {
            None => Config::load_default()?,
            Some(path) => {
                let mut config = Config::new();
                add_resource(&mut config, path)?;
                config
            }
        };
        out.give(ConfigObject::new(config))
    })
}

/// Reads a further file or directory into a configuration. Its values win over those of earlier
/// files, except over final ones, and never over those of dfs_config_set.
///
/// `path`: as for dfs_config_load, but not NULL. `error`: may be NULL.
///
/// Returns DFS_OK or what dfs_config_load returns; after a failure the configuration is unchanged.
///
/// Threads: any, one at a time per handle. Blocks only for reading local files. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_config_add_resource(
    config: *mut dfs_config,
    path: *const c_char,
    error: *mut *mut dfs_error,
) -> i32 {
    on(config, "config", error, |config: &ConfigObject| {
        add_resource(&mut config.lock()?.config, text(path, "path")?)?;
        Ok(0)
    })
}

/// Sets a key. The value wins over all files; it is checked by dfs_connect, and has no effect on
/// file systems that are connected already.
///
/// `key`, `value`: any Hadoop key and its text, such as "dfs.replication" and "2"; units are
/// those of Hadoop. `error`: may be NULL.
///
/// Returns DFS_OK; DFS_E_INVALID_ARGUMENT for an empty key; DFS_E_NULL_POINTER, DFS_E_BAD_UTF8,
/// DFS_E_BAD_HANDLE; DFS_E_WOULD_BLOCK if another thread is using the configuration.
///
/// Threads: any, one at a time per handle. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_config_set(
    config: *mut dfs_config,
    key: *const c_char,
    value: *const c_char,
    error: *mut *mut dfs_error,
) -> i32 {
    on(config, "config", error, |config: &ConfigObject| {
        let key = text(key, "key")?;
        let value = text(value, "value")?;
        if key.trim().is_empty() {
            return Err(Error::new(Status::InvalidArgument, "key is empty"));
        }
        config.lock()?.config.set(key, value);
        Ok(0)
    })
}

/// Gets the value of a key, with `${...}` expanded, or Hadoop's default if none is set.
///
/// `value`: receives the text, which lives until the configuration is freed; NULL if the key has
/// neither a value nor a default. `len`: receives its length in bytes; may be NULL. `error`: may
/// be NULL.
///
/// Returns 1 if there is a value, 0 if not; DFS_E_CONFIG if it cannot be expanded;
/// DFS_E_NULL_POINTER, DFS_E_BAD_UTF8, DFS_E_BAD_HANDLE; DFS_E_WOULD_BLOCK if another thread is
/// using the configuration.
///
/// Threads: any, one at a time per handle. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_config_get(
    config: *mut dfs_config,
    key: *const c_char,
    value: *mut *const c_char,
    len: *mut usize,
    error: *mut *mut dfs_error,
) -> i32 {
    let out = Out::plain(value, "value");
    out.write(std::ptr::null());
    let len = Out::plain(len, "len");
    len.write(0);
    on(config, "config", error, |config: &ConfigObject| {
        out.check()?;
        let mut state = config.lock()?;
        let Some(value) = state.config.get(text(key, "key")?)? else {
            return Ok(0);
        };
        let known = state.given.iter().position(|text| text.as_bytes() == value.as_bytes());
        let index = known.unwrap_or_else(|| {
            state.given.push(CText::new(&value));
            state.given.len() - 1
        });
        if let Some(text) = state.given.get(index) {
            out.write(text.as_ptr());
            len.write(text.len());
        }
        Ok(1)
    })
}

/// Frees a configuration and the texts got from it. File systems made with it go on. NULL is fine.
///
/// Threads: any. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_config_free(config: *mut dfs_config) {
    boundary::free::<ConfigObject>(config, "config");
}
