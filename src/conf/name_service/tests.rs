use super::*;

fn config(pairs: &[(&str, &str)]) -> Config {
    let mut config = Config::new();
    for (key, value) in pairs {
        config.set(key, value);
    }
    config
}

const PROVIDER: (&str, &str) = (
    "dfs.client.failover.proxy.provider.ns1",
    "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider",
);
const IDS: (&str, &str) = ("dfs.ha.namenodes.ns1", " nn1, nn2,,nn1 ");
const NN1: (&str, &str) = ("dfs.namenode.rpc-address.ns1.nn1", "host1:9000");
const NN2: (&str, &str) = ("dfs.namenode.rpc-address.ns1.nn2", " hdfs://host2/ ");

fn plain(authority: &str, address: &str) {
    let found = config(&[]).name_service(authority).unwrap();
    let namenodes = vec![(String::new(), address.to_owned())];
    let expected = NameService { name: address.to_owned(), logical: false, namenodes };
    assert_eq!(found, expected, "{authority}");
}

fn error(config: &Config, authority: &str) -> String {
    let error = config.name_service(authority).unwrap_err();
    assert_eq!(error.status(), Status::Config);
    error.message().to_owned()
}

#[test]
fn a_plain_authority_is_one_namenode() {
    plain("host", "host:8020");
    plain("host:", "host:8020");
    plain("host:9000", "host:9000");
    plain("user@host:9000", "host:9000");
    plain("under_score", "under_score:8020");
    plain("10.0.0.1:1", "10.0.0.1:1");
    plain("[::1]:9000", "[::1]:9000");
    plain("[::1]", "[::1]:8020");
}

#[test]
fn malformed_authorities_are_refused() {
    for (authority, reason) in [
        ("", "no host"),
        (":8020", "no host"),
        ("[]:1", "no host"),
        ("[::1", "missing ]"),
        ("[::1]x", "text after ]"),
        ("host:0", "port \"0\" is not between 1 and 65535"),
        ("host:65536", "port \"65536\" is not between 1 and 65535"),
        ("host:+1", "port \"+1\" is not between 1 and 65535"),
        ("host:x", "port \"x\" is not between 1 and 65535"),
        ("a:1:2", "port \"1:2\" is not between 1 and 65535"),
        ("a b", "character ' ' in the host"),
        ("a/b", "character '/' in the host"),
    ] {
        let expected = format!("bad NameNode authority \"{authority}\": {reason}");
        assert_eq!(error(&config(&[]), authority), expected);
    }
}

#[test]
fn a_logical_service_has_its_namenodes_in_order() {
    let expected = NameService {
        name: "ns1".to_owned(),
        logical: true,
        namenodes: vec![
            ("nn1".to_owned(), "host1:9000".to_owned()),
            ("nn2".to_owned(), "host2:8020".to_owned()),
        ],
    };
    for config in [config(&[PROVIDER, IDS, NN1, NN2]), config(&[IDS, NN1, NN2])] {
        assert_eq!(config.name_service("ns1").unwrap(), expected);
        assert_eq!(config.name_service("ns1:8020").unwrap(), expected);
        let message = error(&config, "ns1:9000");
        assert!(message.contains("port 9000 with a logical nameservice"), "{message}");
        // Another name is none of it.
        assert!(!config.name_service("ns2").unwrap().logical);
    }
}

#[test]
fn namenodes_without_an_address_are_left_out_unless_all_are() {
    let found = config(&[PROVIDER, IDS, NN2]).name_service("ns1").unwrap();
    assert_eq!(found.namenodes, [("nn2".to_owned(), "host2:8020".to_owned())]);
    assert_eq!(
        error(&config(&[PROVIDER, IDS]), "ns1"),
        "bad NameNode authority \"ns1\": nameservice ns1 has no NameNode: \
         dfs.namenode.rpc-address.ns1.* is set for none of nn1, nn2"
    );
    assert_eq!(
        error(&config(&[PROVIDER]), "ns1"),
        "bad NameNode authority \"ns1\": nameservice ns1 has no NameNode: \
         dfs.ha.namenodes.ns1 is not set"
    );
    let own = ("dfs.namenode.rpc-address.ns1", "host1:9000");
    let found = config(&[PROVIDER, own]).name_service("ns1").unwrap();
    assert_eq!(found.namenodes, [(String::new(), "host1:9000".to_owned())]);
}

#[test]
fn a_bad_address_names_its_key() {
    let config = config(&[IDS, (NN1.0, "host1:port")]);
    assert_eq!(
        error(&config, "ns1"),
        "dfs.namenode.rpc-address.ns1.nn1 = \"host1:port\" (dfs_config_set): \
         port \"port\" is not between 1 and 65535"
    );
}

#[test]
fn ip_failover_is_plain() {
    let class = "org.apache.hadoop.hdfs.server.namenode.ha.IPFailoverProxyProvider";
    let found = config(&[(PROVIDER.0, class), IDS, NN1]).name_service("ns1:9000").unwrap();
    assert!(!found.logical);
    assert_eq!(found.namenodes, [(String::new(), "ns1:9000".to_owned())]);
}

#[test]
fn hosts_for_keys() {
    assert_eq!(host_of("ns1:8020"), "ns1");
    assert_eq!(host_of("ns1"), "ns1");
    assert_eq!(host_of("a b"), "a b");
}
