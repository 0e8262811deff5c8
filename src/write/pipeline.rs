//! Setting up the pipeline of one block: connect, WRITE_BLOCK, connect ack.
use super::ack_reader::AckReader;
use super::packet::PacketShape;
use crate::conf::client_config::ClientConfig;
use crate::datanode::peer::{self, Connected, Connecting, Peer};
use crate::error::{Error, Result, Status};
use crate::net::tcp;
use crate::proto::hdfs::op_write_block_proto::BlockConstructionStage;
use crate::proto::{common, hdfs};
use crate::sys::socket::{Socket, WRITABLE};
use crate::time::{Deadline, now};
use crate::wire::transfer::{self, Op};
use prost::Message;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a connection begun early is good for: a DataNode waits for the first request for
/// `dfs.datanode.socket.timeout`, usually a minute.
const EARLY_LIFE: Duration = Duration::from_secs(20);

/// The connection to the first node of a pipeline.
pub(crate) struct Conn {
    pub(crate) socket: Socket,
    pub(crate) server: Box<str>,
    /// Longest silence while acks are outstanding, ms; 0 = no limit.
    pub(crate) read_timeout_ms: u64,
    /// Longest stall of a send, ms; 0 = no limit.
    pub(crate) write_timeout_ms: u64,
}

impl Conn {
    pub(crate) fn io_error(&self, error: &io::Error, what: &str) -> Error {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            let text = format!("{what} {}: it closed the connection", self.server);
            return Error::new(Status::ConnectionLost, text).with_server(&self.server);
        }
        tcp::io_error(error, what, &self.server)
    }
}

/// A block and the DataNodes that hold (or will hold) its replicas, in pipeline order.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) block: hdfs::ExtendedBlockProto,
    pub(crate) token: common::TokenProto,
    pub(crate) nodes: Vec<hdfs::DatanodeInfoProto>,
    pub(crate) storage_types: Vec<i32>,
    pub(crate) storage_ids: Vec<String>,
}

impl Target {
    /// Takes a located block apart.
    ///
    /// # Errors
    /// `Protocol` when the NameNode's parallel arrays do not match; `Unsupported` for a striped
    /// one.
    pub(crate) fn new(located: hdfs::LocatedBlockProto) -> Result<Target> {
        if located.block_indices.is_some() {
            return Err(Error::new(
                Status::Unsupported,
                "the file is erasure coded, and this release writes replicated files only",
            ));
        }
        let n = located.locs.len();
        let fits = |len: usize| len == 0 || len == n;
        if !fits(located.storage_types.len()) || !fits(located.storage_i_ds.len()) {
            return Err(Error::protocol(format!(
                "the NameNode names {n} DataNodes, {} storage types and {} storage ids for \
                 block {}",
                located.storage_types.len(),
                located.storage_i_ds.len(),
                located.b.block_id
            )));
        }
        let storage_types = if located.storage_types.is_empty() {
            vec![hdfs::StorageTypeProto::Disk as i32; n]
        } else {
            located.storage_types
        };
        Ok(Target {
            block: located.b,
            token: located.block_token,
            nodes: located.locs,
            storage_types,
            storage_ids: located.storage_i_ds,
        })
    }

    /// `ip:port` of node `index`, for messages.
    pub(crate) fn name(&self, index: usize) -> String {
        self.nodes.get(index).map_or_else(|| format!("node {index}"), |n| peer::ip_port(&n.id))
    }

    /// The block's name in messages.
    pub(crate) fn block_name(&self) -> String {
        format!(
            "{}:blk_{}_{}",
            self.block.pool_id, self.block.block_id, self.block.generation_stamp
        )
    }
}

/// The variable parts of a WRITE_BLOCK request (protocol: "block set-up").
pub(crate) struct Setup<'a> {
    pub(crate) target: &'a Target,
    pub(crate) stage: BlockConstructionStage,
    /// Bytes acknowledged so far (recovery), length of the block (append), 0 (create).
    pub(crate) min_bytes: u64,
    /// Bytes sent so far (recovery), length of the block (append), 0 (create).
    pub(crate) max_bytes: u64,
    /// The new generation stamp, 0 for a new block.
    pub(crate) new_generation_stamp: u64,
    pub(crate) shape: PacketShape,
    pub(crate) client_name: &'a str,
    pub(crate) drop_behind: Option<bool>,
    pub(crate) lazy_persist: bool,
}

/// Why a pipeline could not be set up, and whose fault it is.
pub(crate) struct SetupFailure {
    pub(crate) error: Error,
    /// Index of the bad node.
    pub(crate) bad_node: usize,
    /// The bad node said that it restarts.
    pub(crate) restarting: bool,
}

fn request(setup: &Setup<'_>) -> hdfs::OpWriteBlockProto {
    let target = setup.target;
    hdfs::OpWriteBlockProto {
        header: hdfs::ClientOperationHeaderProto {
            base_header: hdfs::BaseHeaderProto {
                block: target.block.clone(),
                token: Some(target.token.clone()),
                trace_info: None,
            },
            client_name: setup.client_name.to_owned(),
        },
        // The receiving node is not among its own targets.
        targets: target.nodes.iter().skip(1).cloned().collect(),
        source: None,
        stage: setup.stage as i32,
        pipeline_size: target.nodes.len() as u32,
        min_bytes_rcvd: setup.min_bytes,
        max_bytes_rcvd: setup.max_bytes,
        latest_generation_stamp: setup.new_generation_stamp,
        requested_checksum: hdfs::ChecksumProto {
            r#type: setup.shape.checksum.id() as i32,
            bytes_per_checksum: setup.shape.bytes_per_checksum as u32,
        },
        caching_strategy: Some(hdfs::CachingStrategyProto {
            drop_behind: setup.drop_behind,
            readahead: None,
        }),
        storage_type: target.storage_types.first().copied(),
        target_storage_types: target.storage_types.iter().skip(1).copied().collect(),
        allow_lazy_persist: Some(setup.lazy_persist),
        pinning: Some(false),
        target_pinnings: vec![false; target.nodes.len().saturating_sub(1)],
        storage_id: target.storage_ids.first().cloned(),
        target_storage_ids: target.storage_ids.iter().skip(1).cloned().collect(),
    }
}

/// Index of the node that a connect ack blames: the one with that `ip:port`, else the first.
fn bad_link_index(target: &Target, link: &str) -> usize {
    target.nodes.iter().position(|n| peer::ip_port(&n.id) == link).unwrap_or(0)
}

/// Longest time that a pipeline of `nodes` nodes may take to answer, ms; 0 = no limit.
pub(crate) fn answer_limit_ms(config: &ClientConfig, nodes: usize) -> u64 {
    match config.socket_timeout_ms {
        0 => 0,
        ms => ms.saturating_add(config.pipeline_hop_timeout_ms.saturating_mul(nodes as u64)),
    }
}

/// A request that was sent and whose answer is due; it survives the deadline of a call.
pub(crate) struct Opening {
    pub(crate) target: Target,
    /// The generation stamp that the request names, 0 for a new block.
    pub(crate) stamp: u64,
    reader: AckReader,
    /// When the answer is overdue.
    until: Deadline,
    answered: bool,
}

/// A connection begun before it is known whether the next block's pipeline begins at that node.
pub(crate) struct Early {
    connecting: Connecting,
    /// `ip:port` of the node.
    node: String,
    since: Instant,
}

impl Early {
    /// Begins to connect; does not wait.
    ///
    /// # Errors
    /// `Connect` or `UnknownHost`: then the pipeline connects when its time comes.
    pub(crate) fn start(id: &hdfs::DatanodeIdProto, config: &ClientConfig) -> Result<Early> {
        let connecting = Connecting::start(id, config)?;
        Ok(Early { connecting, node: peer::ip_port(id), since: now() })
    }

    /// The connection, if it stands by now and leads to that node.
    fn take(self, id: &hdfs::DatanodeIdProto) -> Option<Peer> {
        if self.node != peer::ip_port(id) || self.since.elapsed() > EARLY_LIFE {
            return None;
        }
        // Writable once it stands or failed.
        if self.connecting.socket().poll(WRITABLE, Deadline::at_once()).is_err() {
            return None;
        }
        match self.connecting.finish() {
            Ok(Connected::Peer(peer)) if peer.socket.is_idle_alive() => Some(peer),
            _ => None,
        }
    }
}

/// Connects to the first node, or takes the connection that was begun early, and sends the
/// request.
///
/// Runs on the caller; blocks up to the connect and write time limits, and `deadline`.
pub(crate) fn open(
    setup: &Setup<'_>,
    early: Option<Early>,
    config: &ClientConfig,
    deadline: Deadline,
) -> std::result::Result<Opening, Box<SetupFailure>> {
    let at_first = |error: Error| Box::new(SetupFailure { error, bad_node: 0, restarting: false });
    let target = setup.target;
    let n = target.nodes.len();
    let Some(first) = target.nodes.first() else {
        return Err(at_first(Error::new(
            Status::NoDataNodes,
            format!("the NameNode named no DataNode for {}", target.block_name()),
        )));
    };
    let peer = match early.and_then(|early| early.take(&first.id)) {
        Some(peer) => peer,
        None => peer::connect(&first.id, config, deadline).map_err(at_first)?,
    };
    let conn = Arc::new(Conn {
        socket: peer.socket,
        server: peer.server,
        read_timeout_ms: answer_limit_ms(config, n),
        write_timeout_ms: match config.socket_write_timeout_ms {
            0 => 0,
            ms => ms.saturating_add(config.pipeline_hop_timeout_ms.saturating_mul(n as u64)),
        },
    });
    let mut bytes = Vec::with_capacity(1024);
    transfer::encode_op(Op::WriteBlock, &request(setup), &mut bytes);
    let limit = deadline.min(Deadline::after_ms(conn.write_timeout_ms));
    conn.socket
        .send_all(&mut [IoSlice::new(&bytes)], limit)
        .map_err(|e| at_first(conn.io_error(&e, "sending WRITE_BLOCK to")))?;
    Ok(Opening {
        target: target.clone(),
        stamp: setup.new_generation_stamp,
        until: Deadline::after_ms(conn.read_timeout_ms),
        reader: AckReader::new(conn),
        answered: false,
    })
}

impl Opening {
    /// Waits for the answer: true once the pipeline stands, false when the caller's time is up
    /// before the pipeline's own.
    ///
    /// Runs on the caller.
    pub(crate) fn wait(
        &mut self,
        deadline: Deadline,
    ) -> std::result::Result<bool, Box<SetupFailure>> {
        if self.answered {
            return Ok(true);
        }
        let answer = self.reader.wait_message(deadline.min(self.until), |bytes| {
            hdfs::BlockOpResponseProto::decode(bytes)
                .map_err(|e| Error::protocol(format!("the answer to WRITE_BLOCK: {e}")))
        });
        let response = match answer {
            Ok(response) => response,
            Err(e) if e.status() == Status::TimedOut && !self.until.passed() => return Ok(false),
            Err(error) => {
                return Err(Box::new(SetupFailure { error, bad_node: 0, restarting: false }));
            }
        };
        if let Err(error) = transfer::check_response(&response) {
            let bad_node = bad_link_index(&self.target, response.first_bad_link());
            let restarting = response.status == hdfs::Status::OobRestart as i32;
            let error = error.with_server(&self.target.name(bad_node));
            return Err(Box::new(SetupFailure { error, bad_node, restarting }));
        }
        self.answered = true;
        Ok(true)
    }

    /// The pipeline, ready for packets.
    pub(crate) fn into_parts(self) -> (Target, AckReader) {
        (self.target, self.reader)
    }
}

/// A TRANSFER_BLOCK request.
pub(crate) struct TransferRequest<'a> {
    pub(crate) block: &'a hdfs::ExtendedBlockProto,
    /// From the answer that named the new node.
    pub(crate) token: &'a common::TokenProto,
    pub(crate) client_name: &'a str,
    pub(crate) to: &'a hdfs::DatanodeInfoProto,
    pub(crate) storage_type: Option<i32>,
    pub(crate) storage_id: Option<String>,
    /// Time that the copy may take beyond the socket time-out, ms.
    pub(crate) extra_ms: u64,
}

/// Has DataNode `from` copy its replica, and waits for the end of the copy.
pub(crate) fn transfer(
    from: &hdfs::DatanodeInfoProto,
    request: &TransferRequest<'_>,
    config: &ClientConfig,
    deadline: Deadline,
) -> Result<()> {
    let peer = peer::connect(&from.id, config, deadline)?;
    let with_extra = |ms: u64| if ms == 0 { 0 } else { ms + request.extra_ms };
    let conn = Arc::new(Conn {
        socket: peer.socket,
        server: peer.server,
        read_timeout_ms: with_extra(config.socket_timeout_ms),
        write_timeout_ms: with_extra(config.socket_write_timeout_ms),
    });
    let message = hdfs::OpTransferBlockProto {
        header: hdfs::ClientOperationHeaderProto {
            base_header: hdfs::BaseHeaderProto {
                block: request.block.clone(),
                token: Some(request.token.clone()),
                trace_info: None,
            },
            client_name: request.client_name.to_owned(),
        },
        targets: vec![request.to.clone()],
        target_storage_types: request.storage_type.into_iter().collect(),
        target_storage_ids: request.storage_id.clone().into_iter().collect(),
    };
    let mut bytes = Vec::with_capacity(512);
    transfer::encode_op(Op::TransferBlock, &message, &mut bytes);
    let limit = deadline.min(Deadline::after_ms(conn.write_timeout_ms));
    conn.socket
        .send_all(&mut [IoSlice::new(&bytes)], limit)
        .map_err(|e| conn.io_error(&e, "sending TRANSFER_BLOCK to"))?;
    let mut reader = AckReader::new(Arc::clone(&conn));
    let limit = deadline.min(Deadline::after_ms(conn.read_timeout_ms));
    let response = reader.wait_message(limit, |bytes| {
        hdfs::BlockOpResponseProto::decode(bytes)
            .map_err(|e| Error::protocol(format!("the answer to TRANSFER_BLOCK: {e}")))
    })?;
    transfer::check_response(&response).map_err(|e| e.with_server(&conn.server))
}
