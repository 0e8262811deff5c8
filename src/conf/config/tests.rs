use super::*;
use std::fs;
use tempfile::TempDir;

pub(in crate::conf) fn environment(pairs: &[(&str, &str)]) -> Environment {
    let fixed = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Environment { fixed: Some(fixed) }
}

fn xml(properties: &[(&str, &str)]) -> String {
    let mut text = String::from("<configuration>\n");
    for (name, value) in properties {
        text += &format!("<property><name>{name}</name><value>{value}</value></property>\n");
    }
    text + "</configuration>"
}

fn dir(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

fn get(config: &Config, key: &str) -> Option<String> {
    config.get(key).unwrap()
}

#[test]
fn later_files_win_and_the_application_wins_over_all() {
    let dir = dir(&[
        ("core-site.xml", &xml(&[("a", "core"), ("b", "core"), ("c", "core")])),
        ("hdfs-site.xml", &xml(&[("b", "hdfs"), ("c", "hdfs")])),
    ]);
    let mut config = Config::new();
    config.set(" c ", "mine");
    config.load_dir(dir.path()).unwrap();
    assert_eq!(get(&config, "a").as_deref(), Some("core"));
    assert_eq!(get(&config, "b").as_deref(), Some("hdfs"));
    assert_eq!(get(&config, "c").as_deref(), Some("mine"));
    assert_eq!(get(&config, "d"), None);
    config.set("b", "mine");
    assert_eq!(get(&config, " b").as_deref(), Some("mine"));
}

#[test]
fn final_parameters_hold_against_files_only() {
    let first = "<configuration><property name='a' value='1' final='true'/>\
                 <property name='b' value='1'/><property name='b' final='true'/>\
                 <property name='a' value='2'/></configuration>";
    let dir = dir(&[("core-site.xml", first), ("hdfs-site.xml", &xml(&[("a", "3"), ("b", "3")]))]);
    let mut config = Config::new();
    config.load_dir(dir.path()).unwrap();
    assert_eq!(get(&config, "a").as_deref(), Some("1"));
    assert_eq!(get(&config, "b").as_deref(), Some("1"));
    config.set("a", "mine");
    assert_eq!(get(&config, "a").as_deref(), Some("mine"));
}

#[test]
fn deprecated_names_lead_to_the_new_ones() {
    let core = "<configuration><property name='dfs.block.size' value='1m' final='true'/>\
                <property name='fs.default.name' value='hdfs://old'/></configuration>";
    let later = xml(&[("dfs.blocksize", "2m"), ("fs.defaultFS", "hdfs://new")]);
    let dir = dir(&[("core-site.xml", core), ("hdfs-site.xml", &later)]);
    let mut config = Config::new();
    config.load_dir(dir.path()).unwrap();
    assert_eq!(get(&config, "dfs.blocksize").as_deref(), Some("1m"));
    assert_eq!(get(&config, "dfs.block.size").as_deref(), Some("1m"));
    assert_eq!(config.default_fs().unwrap(), "hdfs://new");
    for (old, new) in keys::DEPRECATED {
        config.set(old, "x");
        assert_eq!(get(&config, new).as_deref(), Some("x"), "{old}");
    }
}

#[test]
fn the_environment_names_the_directory() {
    let conf = dir(&[("core-site.xml", &xml(&[("a", "conf")]))]);
    let home = dir(&[("etc/hadoop/hdfs-site.xml", &xml(&[("a", "home")]))]);
    let conf_dir = conf.path().to_str().unwrap();
    let home_dir = home.path().to_str().unwrap();
    let load = |pairs: &[(&str, &str)]| Config::load_from_environment(environment(pairs));

    assert_eq!(get(&load(&[]).unwrap(), "a"), None);
    assert_eq!(get(&load(&[("HADOOP_CONF_DIR", ""), ("HADOOP_HOME", "")]).unwrap(), "a"), None);
    let both = load(&[("HADOOP_CONF_DIR", conf_dir), ("HADOOP_HOME", home_dir)]).unwrap();
    assert_eq!(get(&both, "a").as_deref(), Some("conf"));
    let only_home = load(&[("HADOOP_HOME", home_dir)]).unwrap();
    assert_eq!(get(&only_home, "a").as_deref(), Some("home"));

    let error = load(&[("HADOOP_CONF_DIR", "/nonexistent/conf")]).unwrap_err();
    assert_eq!(error.status(), Status::Config);
    let start = "configuration named by HADOOP_CONF_DIR: cannot read /nonexistent/conf: ";
    assert!(error.message().starts_with(start), "{error}");
    let error = load(&[("HADOOP_HOME", conf_dir)]).unwrap_err();
    assert!(error.message().contains("named by HADOOP_HOME: cannot read "), "{error}");
    let file = conf.path().join("core-site.xml");
    let error = load(&[("HADOOP_CONF_DIR", file.to_str().unwrap())]).unwrap_err();
    assert!(error.message().ends_with("it is not a directory"), "{error}");
    // An empty directory is fine, as in Java.
    let empty = dir(&[]);
    load(&[("HADOOP_CONF_DIR", empty.path().to_str().unwrap())]).unwrap();
}

#[test]
fn a_directory_given_by_the_application_must_have_files() {
    let empty = dir(&[]);
    let error = Config::new().load_dir(empty.path()).unwrap_err();
    assert_eq!(error.status(), Status::Config);
    assert!(error.message().ends_with("has neither core-site.xml nor hdfs-site.xml"), "{error}");
    assert!(Config::new().load_dir("/nonexistent").is_err());
}

#[test]
fn a_failed_load_changes_nothing() {
    let dir = dir(&[
        ("core-site.xml", &xml(&[("a", "1")])),
        ("hdfs-site.xml", "<configuration>\n<property name='a' value='2'>\n</configuration>"),
    ]);
    let mut config = Config::new();
    let error = config.load_dir(dir.path()).unwrap_err();
    assert!(error.message().contains("hdfs-site.xml:3: malformed XML"), "{error}");
    assert_eq!(get(&config, "a"), None);
    assert!(config.load_file(dir.path().join("hdfs-site.xml")).is_err());
    assert_eq!(get(&config, "a"), None);
    config.load_file(dir.path().join("core-site.xml")).unwrap();
    assert_eq!(get(&config, "a").as_deref(), Some("1"));
}

#[test]
fn variables_come_from_environment_system_and_keys() {
    let mut config = Config::with_environment(environment(&[("HOME", "/h"), ("E", "")]));
    config.set("user.home", "not this");
    config.set("env.NONE", "key of that name");
    config.set("port", "90${digit}");
    config.set("digit", "01");
    for (text, value) in [
        ("${user.home}", "/h"),
        ("${java.io.tmpdir}", "/tmp"),
        ("${env.HOME}", "/h"),
        ("${env.HOME-x}${env.NO-d}${env.E:-e}", "/hde"),
        ("${env.NONE}", "key of that name"),
        ("host:${port}", "host:9001"),
        ("${dfs.block.size}", "134217728"),
        ("${unknown} ${port}", "${unknown} ${port}"),
        ("${env.}", "${env.}"),
        ("${env.A=B}", "${env.A=B}"),
    ] {
        config.set("x", text);
        assert_eq!(get(&config, "x").as_deref(), Some(value), "{text}");
    }
    config.set("x", "${user.name}");
    assert_eq!(get(&config, "x"), sys::user::name());
}

#[test]
fn expansion_errors_name_key_value_and_place() {
    let dir = dir(&[("a.xml", &xml(&[("a", "${b}"), ("b", "${a}")]))]);
    let path = dir.path().join("a.xml");
    let mut config = Config::new();
    config.load_file(&path).unwrap();
    let error = config.get("b").unwrap_err();
    assert_eq!(error.status(), Status::Config);
    assert_eq!(
        error.message(),
        format!("b = \"${{a}}\" ({}:3): variable substitution depth too large: 20", path.display())
    );
    config.set("b", "x${b}");
    assert_eq!(get(&config, "b").as_deref(), Some("x${b}"));
}

#[test]
fn defaults_are_visible_and_long_values_are_cut_in_messages() {
    let config = Config::new();
    assert_eq!(get(&config, "dfs.replication").as_deref(), Some("3"));
    assert_eq!(get(&config, "dfs.client.cache.readahead"), None);
    assert_eq!(get(&config, "libdfs.buffer.pool.max.bytes"), None);
    let error = bad_value("k", &"é".repeat(300), &Origin::Application, "bad");
    assert_eq!(error.message(), format!("k = \"{}...\" (dfs_config_set): bad", "é".repeat(200)));
}

#[test]
fn the_default_file_system_takes_old_forms() {
    let mut config = Config::new();
    assert_eq!(config.default_fs().unwrap(), "file:///");
    for (text, uri) in [
        ("hdfs://ns1", "hdfs://ns1"),
        (" hdfs://h:1/ ", "hdfs://h:1/"),
        ("local", "file:///"),
        ("host:90", "hdfs://host:90"),
    ] {
        config.set("fs.default.name", text);
        assert_eq!(config.default_fs().unwrap(), uri);
    }
}
