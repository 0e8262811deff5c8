//! One DataNode: its ports, its life (kill, restart, pause) and the dispatch of operations.
//!
//! Threads: one per connection of the xfer port (it runs the operation), one responder per
//! WRITE_BLOCK, one per connection of the IPC port. A connection belongs to the node's
//! [`ConnTable`], so killing the node ends every thread.
pub(crate) mod dataset;
mod ipc;
pub(crate) mod meta;
mod ops;
mod receiver;
mod responder;
mod sender;
mod sink;
mod store;
mod writer;

use std::io::{self, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use dfs::proto::hdfs::{
    BlockOpResponseProto, DatanodeIdProto, DatanodeInfoProto, OpBlockChecksumProto,
    OpReadBlockProto, OpTransferBlockProto, OpWriteBlockProto, Status,
};
use parking_lot::{Mutex, RwLock};

use super::cluster::Cluster;
use super::config::Config;
use super::faults::{Fault, Op, Site, Visit};
use super::net::{Conn, ConnReader, ConnTable, Gate, Listener};
use super::rpc;
use super::wire::{bad_data, read_delimited, write_delimited};
use dataset::Dataset;
use responder::Pipeline;

/// Data transfer version of all Hadoop 2.x and 3.x.
const TRANSFER_VERSION: u16 = 28;
const OP_WRITE_BLOCK: u8 = 80;
const OP_READ_BLOCK: u8 = 81;
const OP_BLOCK_CHECKSUM: u8 = 85;
const OP_TRANSFER_BLOCK: u8 = 86;
/// How long connection threads get to end when a node stops.
const STOP_LIMIT: Duration = Duration::from_secs(15);

struct Ports {
    xfer: Listener,
    ipc: Listener,
}

pub(crate) struct DnCore {
    pub(crate) index: usize,
    pub(crate) cfg: Arc<Config>,
    pub(crate) pool_id: String,
    pub(crate) data: Dataset,
    pub(crate) conns: Arc<ConnTable>,
    pub(crate) ipc_conns: Arc<ConnTable>,
    gate: Arc<Gate>,
    cluster: Weak<Cluster>,
    id: RwLock<DatanodeIdProto>,
    ports: Mutex<Option<Ports>>,
    /// One start or stop at a time; true when the node may never start again.
    life: Mutex<bool>,
    pipelines: Mutex<Vec<Weak<Pipeline>>>,
    verified_reads: AtomicU64,
    /// Threads that are about to kill or restart the node.
    changing: AtomicUsize,
    sink: sink::SinkState,
}

impl DnCore {
    pub(crate) fn start(
        index: usize,
        cluster: &Arc<Cluster>,
        dir: &Path,
        pool_id: &str,
    ) -> io::Result<Arc<Self>> {
        let uuid = format!("00000000-0000-4000-8000-{:012x}", index + 1);
        let core = Arc::new(Self {
            index,
            cfg: Arc::clone(&cluster.cfg),
            pool_id: pool_id.to_owned(),
            data: Dataset::new(dir, pool_id)?,
            conns: Arc::default(),
            ipc_conns: Arc::default(),
            gate: Arc::default(),
            cluster: Arc::downgrade(cluster),
            id: RwLock::new(DatanodeIdProto {
                ip_addr: Ipv4Addr::LOCALHOST.to_string(),
                host_name: "localhost".to_owned(),
                datanode_uuid: uuid,
                xfer_port: 0,
                info_port: 0,
                ipc_port: 0,
                info_secure_port: Some(0),
            }),
            ports: Mutex::new(None),
            life: Mutex::new(false),
            pipelines: Mutex::default(),
            verified_reads: AtomicU64::new(0),
            changing: AtomicUsize::new(0),
            sink: sink::SinkState::default(),
        });
        core.open_ports()?;
        Ok(core)
    }

    pub(crate) fn id(&self) -> DatanodeIdProto {
        self.id.read().clone()
    }

    pub(crate) fn storage_id(&self) -> String {
        format!("DS-00000000-0000-4000-8000-{:012x}", self.index + 1)
    }

    pub(crate) fn xfer_addr(&self) -> String {
        let id = self.id.read();
        format!("{}:{}", id.ip_addr, id.xfer_port)
    }

    pub(crate) fn cluster(&self) -> io::Result<Arc<Cluster>> {
        self.cluster.upgrade().ok_or_else(|| io::Error::other("the cluster is gone"))
    }

    pub(crate) fn is_running(&self) -> bool {
        self.ports.lock().is_some()
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.gate.is_paused()
    }

    fn open_ports(self: &Arc<Self>) -> io::Result<()> {
        let (xfer_port, ipc_port) = {
            let id = self.id.read();
            (id.xfer_port, id.ipc_port)
        };
        let addr =
            |port: u32| SocketAddr::from((Ipv4Addr::LOCALHOST, u16::try_from(port).unwrap_or(0)));
        self.gate.open();
        let weak = Arc::downgrade(self);
        let serve = Arc::new(move |conn: Conn| {
            if let Some(core) = weak.upgrade() {
                core.serve(conn);
            }
        });
        let name = format!("minidfs-dn{}", self.index);
        let xfer = Listener::start(addr(xfer_port), &name, &self.gate, &self.conns, serve)?;
        let handler: Arc<dyn rpc::Handler> = Arc::new(ipc::IpcHandler(Arc::downgrade(self)));
        let serve = Arc::new(move |conn: Conn| rpc::serve(conn, &handler));
        let name = format!("minidfs-dn{}-ipc", self.index);
        let ipc = Listener::start(addr(ipc_port), &name, &self.gate, &self.ipc_conns, serve)?;
        {
            let mut id = self.id.write();
            id.xfer_port = u32::from(xfer.addr().port());
            id.ipc_port = u32::from(ipc.addr().port());
        }
        *self.ports.lock() = Some(Ports { xfer, ipc });
        Ok(())
    }

    /// Closes ports and connections at once, as a killed process does, and waits for its threads.
    /// Must not run on a connection thread of the node; faults use `kill_later`.
    pub(crate) fn kill(&self) -> bool {
        let _life = self.life.lock();
        self.close_ports()
    }

    /// Kills the node for good.
    pub(crate) fn retire(&self) -> bool {
        let mut life = self.life.lock();
        *life = true;
        self.close_ports()
    }

    fn close_ports(&self) -> bool {
        let Some(mut ports) = self.ports.lock().take() else { return true };
        self.gate.close();
        ports.xfer.stop();
        ports.ipc.stop();
        self.conns.shutdown_all();
        self.ipc_conns.shutdown_all();
        let ended = self.conns.wait_empty(STOP_LIMIT) && self.ipc_conns.wait_empty(STOP_LIMIT);
        if let Ok(cluster) = self.cluster() {
            cluster.node_silent(self.index, true);
        }
        ended
    }

    /// For connection threads: the node dies, but not on their stack.
    pub(crate) fn kill_later(self: &Arc<Self>) {
        // Who sees the connections break must see that the node is changing.
        self.changing.fetch_add(1, Ordering::AcqRel);
        // Nothing more may leave the node, even before the killing thread runs.
        self.gate.close();
        self.conns.shutdown_all();
        self.later("minidfs-kill", |core| {
            core.kill();
        });
        self.changing.fetch_sub(1, Ordering::AcqRel);
    }

    /// Starts a killed node on its old ports; replicas are as after a real start.
    pub(crate) fn restart(self: &Arc<Self>, announced: bool) -> io::Result<()> {
        let life = self.life.lock();
        if *life {
            return Err(io::Error::other("the cluster is being stopped"));
        }
        if !self.close_ports() {
            return Err(io::Error::other("threads of the node did not end"));
        }
        self.data.after_restart(announced)?;
        // Before any writer comes: the report must not undo that of a new replica.
        let cluster = self.cluster()?;
        cluster.block_report(self.index);
        self.open_ports()?;
        cluster.node_silent(self.index, false);
        Ok(())
    }

    /// The machine loses its power: the node dies, and with it all bytes that were not synced.
    pub(crate) fn power_loss(&self) -> io::Result<()> {
        let _life = self.life.lock();
        if !self.close_ports() {
            return Err(io::Error::other("threads of the node did not end"));
        }
        self.data.lose_unsynced()
    }

    /// Announces a restart on every pipeline, goes down for that long and comes back.
    pub(crate) fn restart_for_upgrade(self: &Arc<Self>, down: Duration) -> io::Result<()> {
        let pipelines: Vec<_> = self.pipelines.lock().iter().filter_map(Weak::upgrade).collect();
        for pipeline in &pipelines {
            pipeline.send_oob();
        }
        drop(pipelines);
        std::thread::sleep(self.cfg.oob_close_delay);
        if !self.kill() {
            return Err(io::Error::other("threads of the node did not end"));
        }
        std::thread::sleep(down);
        self.restart(true)
    }

    pub(crate) fn restart_later(self: &Arc<Self>, down: Duration) {
        self.later("minidfs-restart", move |core| {
            // A node that cannot be started again stays down, as a real one would.
            let _stays_down = core.restart_for_upgrade(down);
        });
    }

    /// Runs something that ends or starts the node on a thread of its own.
    fn later(self: &Arc<Self>, name: &str, act: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let core = Arc::clone(self);
        core.changing.fetch_add(1, Ordering::AcqRel);
        let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            act(&core);
            core.changing.fetch_sub(1, Ordering::AcqRel);
        });
        if spawned.is_err() {
            self.changing.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Whether a fault is about to kill or restart the node.
    pub(crate) fn is_changing(&self) -> bool {
        self.changing.load(Ordering::Acquire) > 0
    }

    pub(crate) fn pause(&self) {
        self.gate.pause();
    }

    pub(crate) fn resume(&self) {
        if self.gate.is_paused() {
            self.gate.open();
        }
    }

    pub(crate) fn hit(&self, visit: &Visit<'_>) -> Option<Fault> {
        self.cluster.upgrade().and_then(|c| c.faults.hit(visit))
    }

    /// Carries out the faults that mean the same at every place of a DataNode.
    /// Returns what is left to the place; an error ends the connection.
    pub(crate) fn common_fault(
        self: &Arc<Self>,
        fault: Option<Fault>,
        conn: &Conn,
    ) -> io::Result<Option<Fault>> {
        let ended = || io::Error::new(io::ErrorKind::ConnectionAborted, "ended by a fault rule");
        match fault {
            Some(Fault::Delay(time)) => {
                conn.gate().sleep(time)?;
                Ok(None)
            }
            Some(Fault::Close) => {
                conn.close();
                Err(ended())
            }
            Some(Fault::KillNode) => {
                self.kill_later();
                Err(ended())
            }
            Some(Fault::PauseNode) => {
                self.pause();
                conn.gate().pass()?;
                Ok(None)
            }
            Some(Fault::RestartNode { down }) => {
                self.restart_later(down);
                Ok(None)
            }
            Some(Fault::CutAfter { received, sent }) => {
                conn.cut_after(received, sent);
                Ok(None)
            }
            other => Ok(other),
        }
    }

    pub(crate) fn verified_reads(&self) -> u64 {
        self.verified_reads.load(Ordering::Relaxed)
    }

    fn note_read_status(&self, status: i32) {
        if status == Status::ChecksumOk as i32 {
            self.verified_reads.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Length of a block that the sink mode has swallowed.
    fn sunk_length(&self, block: u64) -> Option<u64> {
        if self.cfg.sink { self.sink.length(block) } else { None }
    }

    fn register_pipeline(&self, pipeline: &Arc<Pipeline>) {
        let mut pipelines = self.pipelines.lock();
        pipelines.retain(|p| p.strong_count() > 0);
        pipelines.push(Arc::downgrade(pipeline));
    }

    /// Connects to another DataNode.
    fn connect_to(&self, target: &DatanodeInfoProto) -> io::Result<Arc<Conn>> {
        let text = format!("{}:{}", target.id.ip_addr, target.id.xfer_port);
        let addr: SocketAddr =
            text.parse().map_err(|_| bad_data(format!("{text} is no address of a DataNode")))?;
        let conn = Conn::connect(addr, self.cfg.socket_timeout, &self.gate, &self.conns)?;
        conn.set_read_timeout(Some(self.cfg.socket_timeout))?;
        Ok(Arc::new(conn))
    }

    fn serve(self: Arc<Self>, conn: Conn) {
        let conn = Arc::new(conn);
        let fault = self.hit(&Visit::at(Site::Accept, self.index));
        if self.common_fault(fault, &conn).is_err() {
            return;
        }
        let mut session = Session {
            input: BufReader::with_capacity(64 * 1024, ConnReader(Arc::clone(&conn))),
            conn,
            dn: self,
            batch: Vec::new(),
        };
        // A DataNode logs how a connection ended and closes it; there is nobody to tell here.
        let _ended = session.run();
    }
}

/// What becomes of a connection after an operation.
#[derive(PartialEq)]
enum After {
    KeepAlive,
    Close,
}

/// One connection of the xfer port.
struct Session {
    dn: Arc<DnCore>,
    conn: Arc<Conn>,
    input: BufReader<ConnReader>,
    /// Packets of the sink mode's reads, built at the first long one.
    batch: Vec<u8>,
}

impl Session {
    fn run(&mut self) -> io::Result<()> {
        let mut limit = self.dn.cfg.socket_timeout;
        loop {
            self.conn.set_read_timeout(Some(limit))?;
            let mut head = [0u8; 3];
            self.input.read_exact(&mut head)?;
            let idle = self.dn.cfg.idle_timeout.unwrap_or(self.dn.cfg.socket_timeout);
            self.conn.set_read_timeout(Some(idle))?;
            let version = u16::from_be_bytes([head[0], head[1]]);
            if version != TRANSFER_VERSION {
                return Err(bad_data(format!(
                    "Version Mismatch (Expected: {TRANSFER_VERSION}, Received: {version} )"
                )));
            }
            let after = match head[2] {
                OP_WRITE_BLOCK => {
                    let req: OpWriteBlockProto = read_delimited(&mut self.input)?;
                    let written = if self.dn.cfg.sink {
                        self.sink_write(&req)
                    } else {
                        self.write_block(&req)
                    };
                    written.map(|()| After::Close)
                }
                OP_READ_BLOCK => {
                    let req: OpReadBlockProto = read_delimited(&mut self.input)?;
                    if self.dn.cfg.sink { self.sink_read(&req) } else { self.read_block(&req) }
                }
                OP_BLOCK_CHECKSUM => {
                    let req: OpBlockChecksumProto = read_delimited(&mut self.input)?;
                    self.block_checksum(&req).map(|()| After::Close)
                }
                OP_TRANSFER_BLOCK => {
                    let req: OpTransferBlockProto = read_delimited(&mut self.input)?;
                    self.transfer_block(&req).map(|()| After::Close)
                }
                other => Err(bad_data(format!("Unknown op {other} in data stream"))),
            }?;
            limit = self.dn.cfg.keepalive;
            if after == After::Close || limit.is_zero() {
                return Ok(());
            }
        }
    }

    fn respond(&self, response: &BlockOpResponseProto) -> io::Result<()> {
        write_delimited(&mut &*self.conn, response)
    }

    fn respond_error(&self, status: Status, message: String) -> io::Result<()> {
        self.respond(&BlockOpResponseProto {
            status: status as i32,
            message: Some(message),
            ..BlockOpResponseProto::default()
        })
    }

    /// Faults at the start of an operation; `true` when the operation has been answered.
    fn refused(&self, op: Op, block: u64, targets: &[DatanodeInfoProto]) -> io::Result<bool> {
        let visit = Visit { block, ..Visit::at(Site::Op(op), self.dn.index) };
        let fault = self.dn.common_fault(self.dn.hit(&visit), &self.conn)?;
        let addr = |t: &DatanodeInfoProto| format!("{}:{}", t.id.ip_addr, t.id.xfer_port);
        let mut response = BlockOpResponseProto::default();
        match fault {
            Some(Fault::Refuse { status, message }) => {
                response.status = status as i32;
                response.message = Some(message);
                // Hadoop 3.4 DataXceiver#checkAccess: a writer learns who refused its token.
                if op == Op::Write && status == Status::ErrorAccessToken {
                    response.first_bad_link = Some(self.dn.xfer_addr());
                }
            }
            Some(Fault::BadLink(index)) => {
                response.status = Status::Error as i32;
                response.first_bad_link = Some(targets.get(index).map_or_else(String::new, addr));
            }
            _ => return Ok(false),
        }
        self.respond(&response)?;
        Ok(true)
    }

    fn flush_and_close(&self) {
        let _flushed = (&*self.conn).flush();
        self.conn.close();
    }
}
