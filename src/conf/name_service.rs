//! From the authority of a URI to the NameNodes behind it.
use super::client_config::NameService;
use super::config::{Config, Origin, bad_value};
use super::keys;
use crate::dfs_log;
use crate::error::{Error, Result, Status};

/// Port of a NameNode whose address has none.
// Hadoop 3.4 HdfsClientConfigKeys.DFS_NAMENODE_RPC_PORT_DEFAULT.
const NAMENODE_PORT: u16 = 8020;

impl Config {
    /// The NameNodes of a URI's authority: those configured, if it is a logical nameservice, else
    /// the one at `host[:port]`, port 8020 by default. Nothing is resolved.
    ///
    /// # Errors
    /// `Status::Config`: the authority is empty or malformed, a logical name has a port other than
    /// 8020, no NameNode of it has an address, or an address is malformed.
    // Hadoop 3.4 HAUtilClient#isLogicalUri, NameNodeProxiesClient#createFailoverProxyProvider,
    // DFSUtilClient#getAddresses.
    // Differs: dfs.ha.namenodes.<ns> alone also makes a name logical; an address may lack its port.
    pub fn name_service(&self, uri_authority: &str) -> Result<NameService> {
        let bad = |reason| {
            let what = format!("bad NameNode authority \"{uri_authority}\": {reason}");
            Error::new(Status::Config, what)
        };
        let address = Address::parse(uri_authority).map_err(bad)?;
        let host = address.host;
        let provider =
            self.lookup(&instance(keys::DFS_CLIENT_FAILOVER_PROXY_PROVIDER.name, host))?;
        let provider = provider.filter(|(class, _)| !class.trim().is_empty());
        // IP failover moves one address between hosts: to a client it is a plain NameNode.
        let ip_failover = provider
            .as_ref()
            .is_some_and(|(class, _)| class.trim().ends_with("IPFailoverProxyProvider"));
        let ids_key = instance(keys::DFS_HA_NAMENODES.name, host);
        let ids = self.lookup(&ids_key)?.map(|(text, _)| split_list(&text)).unwrap_or_default();
        if ip_failover || (provider.is_none() && ids.is_empty()) {
            let name = address.with_port();
            let namenodes = vec![(String::new(), name.clone())];
            return Ok(NameService { name, logical: false, namenodes });
        }
        if let Some(port) = address.port.filter(|port| *port != NAMENODE_PORT) {
            return Err(bad(format!("port {port} with a logical nameservice, which has no port")));
        }
        let namenodes = self.namenodes(host, &ids)?;
        if namenodes.is_empty() {
            let what = if ids.is_empty() {
                format!("{ids_key} is not set")
            } else {
                let key = instance(keys::DFS_NAMENODE_RPC_ADDRESS.name, host);
                format!("{} is set for none of {}", key.replace("<nn>", "*"), ids.join(", "))
            };
            return Err(bad(format!("nameservice {host} has no NameNode: {what}")));
        }
        Ok(NameService { name: host.to_owned(), logical: true, namenodes })
    }

    /// `(id, host:port)` of each NameNode that has an address. Without ids, the service's own
    /// address counts, as in Java.
    fn namenodes(&self, service: &str, ids: &[String]) -> Result<Vec<(String, String)>> {
        let for_service = instance(keys::DFS_NAMENODE_RPC_ADDRESS.name, service);
        if ids.is_empty() {
            let address = self.rpc_address(&for_service.replace(".<nn>", ""))?;
            return Ok(address.map(|address| (String::new(), address)).into_iter().collect());
        }
        let mut namenodes = Vec::with_capacity(ids.len());
        for id in ids {
            let key = for_service.replace("<nn>", id);
            match self.rpc_address(&key)? {
                Some(address) => namenodes.push((id.clone(), address)),
                // Java leaves such a NameNode out, so a cluster may be configured like that.
                None => dfs_log!(Warn, "{key} is not set: NameNode {id} is left out"),
            }
        }
        Ok(namenodes)
    }

    fn rpc_address(&self, key: &str) -> Result<Option<String>> {
        let Some((text, origin)) = self.lookup(key)? else { return Ok(None) };
        if text.trim().is_empty() {
            return Ok(None);
        }
        address_of(key, &text, &origin).map(Some)
    }
}

fn address_of(key: &str, text: &str, origin: &Origin) -> Result<String> {
    // Hadoop 3.4 NetUtils#createSocketAddr: a URI is accepted in place of host:port.
    let trimmed = text.trim();
    let authority = match trimmed.split_once("://") {
        Some((_, rest)) => rest.split('/').next().unwrap_or(rest),
        None => trimmed,
    };
    Address::parse(authority)
        .map(|address| address.with_port())
        .map_err(|reason| bad_value(key, text, origin, &reason))
}

/// A key of the table with its `<ns>` filled in.
fn instance(key: &str, service: &str) -> String {
    key.replace("<ns>", service)
}

/// Comma-separated, trimmed, without empty parts and repetitions.
fn split_list(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        if !parts.iter().any(|known| known == part) {
            parts.push(part.to_owned());
        }
    }
    parts
}

/// The host of an authority, as far as it can be told.
pub(super) fn host_of(authority: &str) -> &str {
    Address::parse(authority).map_or(authority, |address| address.host)
}

/// `host[:port]`; the host of an IPv6 address keeps its brackets.
struct Address<'a> {
    host: &'a str,
    port: Option<u16>,
}

impl<'a> Address<'a> {
    /// The reason if `text` is no address. User information before an `@` is ignored, as in Java.
    fn parse(text: &'a str) -> std::result::Result<Address<'a>, String> {
        let text = text.rsplit_once('@').map_or(text, |(_, address)| address);
        let host_end = match text.strip_prefix('[') {
            Some(_) => 1 + text.find(']').ok_or("missing ]")?,
            None => text.find(':').unwrap_or(text.len()),
        };
        let (host, rest) = text.split_at(host_end);
        if host.is_empty() || host == "[]" {
            return Err("no host".to_owned());
        }
        let foreign = |c: char| c.is_whitespace() || c.is_control() || "/?#\\,%<>\"".contains(c);
        if let Some(c) = host.chars().find(|c| foreign(*c)) {
            return Err(format!("character {c:?} in the host"));
        }
        let port = match rest.strip_prefix(':') {
            // A URI may end with the colon.
            Some("") => None,
            Some(digits) => match digits.parse::<u16>() {
                Ok(port) if port > 0 && digits.bytes().all(|b| b.is_ascii_digit()) => Some(port),
                _ => return Err(format!("port {digits:?} is not between 1 and 65535")),
            },
            None if rest.is_empty() => None,
            None => return Err("text after ]".to_owned()),
        };
        Ok(Address { host, port })
    }

    fn with_port(&self) -> String {
        format!("{}:{}", self.host, self.port.unwrap_or(NAMENODE_PORT))
    }
}

#[cfg(test)]
mod tests;
