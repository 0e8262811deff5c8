//! A server that does what a test says, over a real loopback socket.
use crate::proto::common::{
    IpcConnectionContextProto, RequestHeaderProto, RpcRequestHeaderProto, RpcResponseHeaderProto,
};
use crate::proto::hdfs::{GetPreferredBlockSizeRequestProto, GetPreferredBlockSizeResponseProto};
use prost::Message;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// One request as it arrived.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) id: i32,
    pub(super) retry_count: i32,
    pub(super) client_id: Vec<u8>,
    pub(super) method: String,
    pub(super) body: Vec<u8>,
}

impl Request {
    pub(super) fn is_ping(&self) -> bool {
        self.id == -4
    }

    /// The answer whose block size is what `file name` says as a number.
    pub(super) fn echo(&self) -> Vec<u8> {
        let request = GetPreferredBlockSizeRequestProto::decode(&*self.body).unwrap();
        let bsize = request.filename.parse().unwrap();
        success(self.id, &GetPreferredBlockSizeResponseProto { bsize })
    }
}

/// One accepted connection.
pub(super) struct Peer {
    pub(super) stream: TcpStream,
}

impl Peer {
    fn frame(&mut self) -> Option<Vec<u8>> {
        let mut len = [0; 4];
        self.stream.read_exact(&mut len).ok()?;
        let mut frame = vec![0; u32::from_be_bytes(len) as usize];
        self.stream.read_exact(&mut frame).ok()?;
        Some(frame)
    }

    /// Reads preamble and context, and checks both.
    pub(super) fn greet(&mut self) -> bool {
        let mut preamble = [0; 7];
        if self.stream.read_exact(&mut preamble).is_err() {
            return false;
        }
        assert_eq!(&preamble, b"hrpc\x09\x00\x00");
        let frame = self.frame().unwrap();
        let mut rest = &frame[..];
        let head = RpcRequestHeaderProto::decode_length_delimited(&mut rest).unwrap();
        assert_eq!((head.call_id, head.retry_count), (-3, Some(-1)));
        let context = IpcConnectionContextProto::decode_length_delimited(&mut rest).unwrap();
        assert_eq!(context.user_info.unwrap().effective_user(), "tester");
        assert!(rest.is_empty());
        true
    }

    /// The next request or ping; `None` when the client is gone.
    pub(super) fn request(&mut self) -> Option<Request> {
        let frame = self.frame()?;
        let mut rest = &frame[..];
        let head = RpcRequestHeaderProto::decode_length_delimited(&mut rest).unwrap();
        let mut request = Request {
            id: head.call_id,
            retry_count: head.retry_count(),
            client_id: head.client_id.clone(),
            method: String::new(),
            body: Vec::new(),
        };
        if !request.is_ping() {
            let name = RequestHeaderProto::decode_length_delimited(&mut rest).unwrap();
            request.method = name.method_name;
            let len = prost::decode_length_delimiter(&mut rest).unwrap();
            assert_eq!(rest.len(), len);
            request.body = rest.to_vec();
        }
        Some(request)
    }

    pub(super) fn send(&mut self, bytes: &[u8]) {
        // A client that gave up is no fault of the script.
        let _ = self.stream.write_all(bytes);
    }

    /// Greets, then answers every call with its own number.
    pub(super) fn echo_all(&mut self) {
        if self.greet() {
            while let Some(request) = self.request() {
                if !request.is_ping() {
                    self.send(&request.echo());
                }
            }
        }
    }
}

fn framed(head: &RpcResponseHeaderProto, body: &[u8]) -> Vec<u8> {
    let mut payload = head.encode_length_delimited_to_vec();
    payload.extend_from_slice(body);
    let mut out = u32::try_from(payload.len()).unwrap().to_be_bytes().to_vec();
    out.extend_from_slice(&payload);
    out
}

/// A SUCCESS answer.
pub(super) fn success(id: i32, message: &impl Message) -> Vec<u8> {
    let head = RpcResponseHeaderProto { call_id: id as u32, ..Default::default() };
    framed(&head, &message.encode_length_delimited_to_vec())
}

/// An ERROR (status 1) or FATAL (2) answer.
pub(super) fn exception(id: i32, status: i32, class: &str, words: &str, detail: i32) -> Vec<u8> {
    let head = RpcResponseHeaderProto {
        call_id: id as u32,
        status,
        exception_class_name: Some(class.into()),
        error_msg: Some(words.into()),
        error_detail: Some(detail),
        ..Default::default()
    };
    framed(&head, &[])
}

/// A listening server; `script` gets each connection and its number, on a thread of its own.
pub(super) struct Server {
    pub(super) addr: String,
    pub(super) accepted: Arc<AtomicUsize>,
    /// What scripts want to tell the test.
    pub(super) log: Arc<Mutex<Vec<Request>>>,
    stop: Arc<AtomicUsize>,
    acceptor: Option<JoinHandle<()>>,
}

impl Server {
    pub(super) fn start(
        script: impl Fn(&mut Peer, usize, &Mutex<Vec<Request>>) + Send + Sync + 'static,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap().to_string();
        let accepted = Arc::new(AtomicUsize::new(0));
        let log = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicUsize::new(0));
        let (count, lines, end) = (accepted.clone(), log.clone(), stop.clone());
        let script = Arc::new(script);
        let acceptor = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if end.load(Ordering::SeqCst) > 0 {
                    return;
                }
                let stream = stream.unwrap();
                // A script never outlives a broken test by much.
                stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                stream.set_nodelay(true).unwrap();
                let number = count.fetch_add(1, Ordering::SeqCst);
                let (script, lines) = (script.clone(), lines.clone());
                std::thread::spawn(move || script(&mut Peer { stream }, number, &lines));
            }
        });
        Server { addr, accepted, log, stop, acceptor: Some(acceptor) }
    }

    pub(super) fn connections(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        self.log.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(1, Ordering::SeqCst);
        // Wakes the acceptor.
        let _ = TcpStream::connect(&self.addr);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

/// Short limits, Hadoop's own elsewhere.
pub(super) fn config() -> crate::conf::ClientConfig {
    let mut config = crate::conf::Config::new().freeze(None).unwrap();
    config.user = "tester".into();
    config.ipc_connect_timeout_ms = 2000;
    config.ipc_connect_max_retries = 3;
    config.ipc_connect_retry_interval_ms = 20;
    config.ipc_connect_max_retries_on_timeouts = 1;
    config.ipc_rpc_timeout_ms = 10_000;
    config.failover_sleep_base_ms = 5;
    config.failover_sleep_max_ms = 20;
    config.failover_random_order = false;
    config.retry_policy_spec = vec![(10, 3)];
    config
}
