//! The server side of Hadoop RPC: preamble, SASL offer, connection context, pings, calls.
//!
//! Calls of one connection run in their order on its thread, except those that a fault rule
//! delays: they move to a thread of their own, so that answers can overtake each other as they do
//! on a real NameNode.
use std::io::{self, BufReader, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use dfs::proto::common::rpc_request_header_proto::OperationProto;
use dfs::proto::common::rpc_response_header_proto::{RpcErrorCodeProto, RpcStatusProto};
use dfs::proto::common::rpc_sasl_proto::{SaslAuth, SaslState};
use dfs::proto::common::{
    IpcConnectionContextProto, RequestHeaderProto, RpcKindProto, RpcRequestHeaderProto,
    RpcResponseHeaderProto, RpcSaslProto,
};
use parking_lot::Mutex;
use prost::Message;

use super::faults::Fault;
use super::net::{Conn, ConnReader};

/// `ipc.maximum.data.length`.
const FRAME_BYTES_MAX: i32 = 128 * 1024 * 1024;
/// Id of the answer to a client whose connection cannot be set up.
const CALL_ID_NONE: i32 = -1;
const CALL_ID_CONTEXT: i32 = -3;
const CALL_ID_PING: i32 = -4;
const CALL_ID_SASL: i32 = -33;
/// Appended to each message, as Java appends its stack trace.
const STACK_TRACE: &str = "\n\tat org.apache.hadoop.ipc.Server$Handler.run(Server.java)\n";

/// An exception on its way to the client.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RpcError {
    pub(crate) class: String,
    pub(crate) message: String,
    pub(crate) code: RpcErrorCodeProto,
    pub(crate) fatal: bool,
}

impl RpcError {
    pub(crate) fn new(class: &str, message: impl Into<String>) -> Self {
        Self {
            class: class.to_owned(),
            message: message.into(),
            code: RpcErrorCodeProto::ErrorApplication,
            fatal: false,
        }
    }

    pub(crate) fn io(message: impl Into<String>) -> Self {
        Self::new("java.io.IOException", message)
    }

    pub(crate) fn no_such_method(method: &str, protocol: &str) -> Self {
        Self {
            code: RpcErrorCodeProto::ErrorNoSuchMethod,
            ..Self::new(
                "org.apache.hadoop.ipc.RpcNoSuchMethodException",
                format!("Unknown method {method} called on {protocol} protocol."),
            )
        }
    }

    fn fatal(code: RpcErrorCodeProto, class: &str, message: impl Into<String>) -> Self {
        Self { code, fatal: true, ..Self::new(class, message) }
    }

    fn bad_header(message: impl Into<String>) -> Self {
        Self::fatal(
            RpcErrorCodeProto::FatalInvalidRpcHeader,
            "org.apache.hadoop.ipc.RpcServerException",
            message,
        )
    }
}

/// One call as the handler sees it.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) user: String,
    pub(crate) client_ip: String,
    pub(crate) client_id: Vec<u8>,
    pub(crate) call_id: i32,
    pub(crate) method: String,
    pub(crate) body: Vec<u8>,
}

/// What stands behind an RPC port.
pub(crate) trait Handler: Send + Sync {
    /// Name of the one protocol of the port.
    fn protocol(&self) -> &'static str;
    /// Runs a call; the result is the encoded response message.
    fn call(&self, call: &Call) -> Result<Vec<u8>, RpcError>;
    /// Asks the fault plan.
    fn fault(&self, call: &Call) -> Option<Fault>;
    /// Makes the other NameNode active.
    fn failover(&self);
}

/// Serves one connection until it ends.
pub(crate) fn serve(conn: Conn, handler: &Arc<dyn Handler>) {
    let conn = Arc::new(conn);
    let mut session = Session {
        input: BufReader::with_capacity(16 * 1024, ConnReader(Arc::clone(&conn))),
        output: Arc::new(Mutex::new(ConnReader(Arc::clone(&conn)))),
        handler: Arc::clone(handler),
        sasl: false,
        sasl_done: false,
        user: None,
        client_ip: conn.peer_ip(),
    };
    // How a connection ends is the peer's business: errors were answered where Hadoop answers.
    if let Err(End::Answer(header_id, error)) = session.run() {
        let _gone = respond(&session.output, &header_id, Err(error));
    }
    // What the client still sends would turn our close into a reset that overtakes the answer.
    conn.finish_sending();
    let _timeout = conn.set_read_timeout(Some(Duration::from_millis(200)));
    let mut rest = [0u8; 4096];
    while matches!((&*conn).read(&mut rest), Ok(n) if n > 0) {}
}

/// What identifies the call an answer belongs to.
#[derive(Clone)]
struct CallIdentity {
    call_id: i32,
    client_id: Vec<u8>,
    retry_count: i32,
}

impl CallIdentity {
    fn none() -> Self {
        Self { call_id: CALL_ID_NONE, client_id: Vec::new(), retry_count: -1 }
    }
}

/// Why a connection ends.
enum End {
    /// Close without a word.
    Silent,
    /// Answer, then close.
    Answer(CallIdentity, RpcError),
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Silent
    }
}

type Output = Arc<Mutex<ConnReader>>;

struct Session {
    input: BufReader<ConnReader>,
    output: Output,
    handler: Arc<dyn Handler>,
    sasl: bool,
    sasl_done: bool,
    /// Set by the connection context.
    user: Option<String>,
    client_ip: String,
}

impl Session {
    fn run(&mut self) -> Result<(), End> {
        self.read_preamble()?;
        loop {
            let mut length = [0u8; 4];
            self.input.read_exact(&mut length)?;
            let length = i32::from_be_bytes(length);
            // Hadoop 3.4 Server.Connection#checkDataLength: closes without an answer.
            if !(0..=FRAME_BYTES_MAX).contains(&length) {
                return Err(End::Silent);
            }
            let mut frame = vec![0; usize::try_from(length).unwrap_or_default()];
            self.input.read_exact(&mut frame)?;
            self.process(&frame)?;
        }
    }

    fn read_preamble(&mut self) -> Result<(), End> {
        let mut preamble = [0u8; 7];
        self.input.read_exact(&mut preamble[..4])?;
        if &preamble[..4] == b"GET " {
            let Fault::RawReply(page) = Fault::http() else { return Err(End::Silent) };
            write_all(&self.output, &page)?;
            return Err(End::Silent);
        }
        self.input.read_exact(&mut preamble[4..])?;
        let version = preamble[4];
        if &preamble[..4] != b"hrpc" || version != 9 {
            let error = RpcError::fatal(
                RpcErrorCodeProto::FatalVersionMismatch,
                "org.apache.hadoop.ipc.RPC$VersionMismatch",
                format!("Server IPC version 9 cannot communicate with client version {version}"),
            );
            return Err(End::Answer(CallIdentity::none(), error));
        }
        match preamble[6] {
            0 => Ok(()),
            0xDF => {
                self.sasl = true;
                Ok(())
            }
            other => Err(End::Answer(
                CallIdentity::none(),
                RpcError::fatal(
                    RpcErrorCodeProto::FatalUnauthorized,
                    "org.apache.hadoop.ipc.IpcException",
                    format!("Unknown auth protocol:{other}"),
                ),
            )),
        }
    }

    fn process(&mut self, frame: &[u8]) -> Result<(), End> {
        let mut rest = frame;
        let header = RpcRequestHeaderProto::decode_length_delimited(&mut rest).map_err(|e| {
            End::Answer(
                CallIdentity::none(),
                RpcError::fatal(
                    RpcErrorCodeProto::FatalDeserializingRequest,
                    "org.apache.hadoop.ipc.RpcServerException",
                    format!("Error decoding rpc request: {e}"),
                ),
            )
        })?;
        let identity = CallIdentity {
            call_id: header.call_id,
            client_id: header.client_id.clone(),
            retry_count: header.retry_count(),
        };
        let outcome = match check_header(&header) {
            Err(error) => Err(error),
            Ok(()) if header.call_id < 0 => self.process_out_of_band(header.call_id, rest),
            Ok(()) => return self.process_call(&identity, rest),
        };
        outcome.map_err(|error| End::Answer(identity, error))
    }

    /// Hadoop 3.4 Server.Connection#processRpcOutOfBandRequest.
    fn process_out_of_band(&mut self, call_id: i32, body: &[u8]) -> Result<(), RpcError> {
        match call_id {
            CALL_ID_CONTEXT if self.sasl && !self.sasl_done => {
                Err(RpcError::bad_header("Connection header sent during SASL negotiation"))
            }
            CALL_ID_CONTEXT => self.read_context(body),
            CALL_ID_SASL if !self.sasl => {
                Err(RpcError::bad_header("SASL protocol not requested by client"))
            }
            CALL_ID_SASL => self.negotiate(body),
            CALL_ID_PING => Ok(()),
            other => Err(RpcError::bad_header(format!("Unknown out of band call #{other}"))),
        }
    }

    fn read_context(&mut self, body: &[u8]) -> Result<(), RpcError> {
        if self.user.is_some() {
            return Err(RpcError::bad_header("Connection context already processed"));
        }
        let context = decode_whole::<IpcConnectionContextProto>(body)?;
        let protocol = context.protocol.unwrap_or_default();
        if protocol != self.handler.protocol() {
            return Err(RpcError::fatal(
                RpcErrorCodeProto::FatalUnknown,
                "org.apache.hadoop.ipc.RpcNoSuchProtocolException",
                format!("Unknown protocol: {protocol}"),
            ));
        }
        match context.user_info.and_then(|u| u.effective_user) {
            Some(user) if !user.is_empty() => {
                self.user = Some(user);
                Ok(())
            }
            _ => Err(RpcError::fatal(
                RpcErrorCodeProto::FatalUnauthorized,
                "org.apache.hadoop.security.authorize.AuthorizationException",
                "no effective user in the connection context",
            )),
        }
    }

    /// Security is off here, so the one offer is SIMPLE, and INITIATE with it ends the exchange.
    fn negotiate(&mut self, body: &[u8]) -> Result<(), RpcError> {
        let unauthorized = |message: String| {
            RpcError::fatal(
                RpcErrorCodeProto::FatalUnauthorized,
                "javax.security.sasl.SaslException",
                message,
            )
        };
        let message = decode_whole::<RpcSaslProto>(body)?;
        if self.sasl_done {
            return Err(unauthorized("SASL negotiation is already complete".to_owned()));
        }
        match message.state() {
            SaslState::Negotiate => {
                let simple = SaslAuth {
                    method: "SIMPLE".to_owned(),
                    mechanism: String::new(),
                    protocol: Some(String::new()),
                    server_id: Some(String::new()),
                    challenge: None,
                };
                let offer = RpcSaslProto {
                    version: Some(0),
                    state: SaslState::Negotiate as i32,
                    token: None,
                    auths: vec![simple],
                };
                let identity = CallIdentity { call_id: CALL_ID_SASL, ..CallIdentity::none() };
                respond(&self.output, &identity, Ok(offer.encode_to_vec()))
                    .map_err(|e| unauthorized(e.to_string()))
            }
            SaslState::Initiate
                if message.auths.len() == 1 && message.auths[0].method == "SIMPLE" =>
            {
                self.sasl_done = true;
                Ok(())
            }
            state => Err(unauthorized(format!("SASL state {state:?} is not expected here"))),
        }
    }

    fn process_call(&mut self, identity: &CallIdentity, body: &[u8]) -> Result<(), End> {
        let call = match self.parse_call(identity, body) {
            Ok(call) => call,
            Err(error) if error.fatal => return Err(End::Answer(identity.clone(), error)),
            Err(error) => return Ok(respond(&self.output, identity, Err(error))?),
        };
        let fault = self.handler.fault(&call);
        match fault {
            Some(Fault::Delay(_) | Fault::DelayAfter(_)) => self.run_later(call, identity, fault),
            Some(Fault::Close) => Err(End::Silent),
            Some(Fault::CloseAfter) => {
                // The client never learns the result: that is the point of this fault.
                let _unseen = self.handler.call(&call);
                Err(End::Silent)
            }
            Some(Fault::RawReply(bytes)) => {
                write_all(&self.output, &bytes)?;
                Err(End::Silent)
            }
            Some(Fault::Throw { class, message, fatal }) => {
                let mut error = RpcError::new(&class, message);
                error.fatal = fatal;
                if fatal {
                    error.code = RpcErrorCodeProto::FatalUnknown;
                    return Err(End::Answer(identity.clone(), error));
                }
                Ok(respond(&self.output, identity, Err(error))?)
            }
            other => {
                if other == Some(Fault::Failover) {
                    self.handler.failover();
                }
                Ok(respond(&self.output, identity, self.handler.call(&call))?)
            }
        }
    }

    fn run_later(
        &self,
        call: Call,
        identity: &CallIdentity,
        fault: Option<Fault>,
    ) -> Result<(), End> {
        let (handler, output) = (Arc::clone(&self.handler), Arc::clone(&self.output));
        let identity = identity.clone();
        std::thread::Builder::new().name("minidfs-slow-call".to_owned()).spawn(move || {
            let gate = Arc::clone(output.lock().0.gate());
            if let Some(Fault::Delay(time)) = fault
                && gate.sleep(time).is_err()
            {
                return;
            }
            let result = handler.call(&call);
            if let Some(Fault::DelayAfter(time)) = fault
                && gate.sleep(time).is_err()
            {
                return;
            }
            // The connection may have ended meanwhile.
            let _gone = respond(&output, &identity, result);
        })?;
        Ok(())
    }

    fn parse_call(&self, identity: &CallIdentity, body: &[u8]) -> Result<Call, RpcError> {
        let Some(user) = self.user.clone() else {
            return Err(RpcError::bad_header("Connection context not established"));
        };
        let mut rest = body;
        let unreadable = |e: prost::DecodeError| {
            RpcError::fatal(
                RpcErrorCodeProto::FatalDeserializingRequest,
                "org.apache.hadoop.ipc.RpcServerException",
                format!("IPC server unable to read call parameters: {e}"),
            )
        };
        let header = RequestHeaderProto::decode_length_delimited(&mut rest).map_err(unreadable)?;
        let length = prost::decode_length_delimiter(&mut rest).map_err(unreadable)?;
        if length != rest.len() {
            return Err(RpcError::fatal(
                RpcErrorCodeProto::FatalDeserializingRequest,
                "org.apache.hadoop.ipc.RpcServerException",
                format!("a request message of {length} bytes in {} bytes", rest.len()),
            ));
        }
        let protocol = header.declaring_class_protocol_name;
        if protocol != self.handler.protocol() {
            return Err(RpcError {
                code: RpcErrorCodeProto::ErrorNoSuchProtocol,
                ..RpcError::new(
                    "org.apache.hadoop.ipc.RpcNoSuchProtocolException",
                    format!("Unknown protocol: {protocol}"),
                )
            });
        }
        if header.client_protocol_version != 1 {
            return Err(RpcError {
                code: RpcErrorCodeProto::ErrorRpcVersionMismatch,
                ..RpcError::new(
                    "org.apache.hadoop.ipc.RPC$VersionMismatch",
                    format!(
                        "Protocol {protocol} version mismatch. (client = {}, server = 1)",
                        header.client_protocol_version
                    ),
                )
            });
        }
        Ok(Call {
            user,
            client_ip: self.client_ip.clone(),
            client_id: identity.client_id.clone(),
            call_id: identity.call_id,
            method: header.method_name,
            body: rest.to_vec(),
        })
    }
}

/// Hadoop 3.4 Server.Connection#checkRpcHeaders and the lookup of the kind.
fn check_header(header: &RpcRequestHeaderProto) -> Result<(), RpcError> {
    if header.rpc_op.is_none() {
        return Err(RpcError::bad_header(" IPC Server: No rpc op in rpcRequestHeader"));
    }
    if header.rpc_op() != OperationProto::RpcFinalPacket {
        return Err(RpcError::bad_header(format!(
            "IPC Server does not implement rpc header operation{}",
            header.rpc_op().as_str_name()
        )));
    }
    match header.rpc_kind {
        None => Err(RpcError::bad_header(" IPC Server: No rpc kind in rpcRequestHeader")),
        Some(kind) if kind != RpcKindProto::RpcProtocolBuffer as i32 => {
            Err(RpcError::bad_header(format!("Unknown rpc kind in rpc header{kind}")))
        }
        Some(_) => Ok(()),
    }
}

fn decode_whole<M: Message + Default>(body: &[u8]) -> Result<M, RpcError> {
    let mut rest = body;
    let unreadable = |message: String| {
        RpcError::fatal(
            RpcErrorCodeProto::FatalDeserializingRequest,
            "org.apache.hadoop.ipc.RpcServerException",
            message,
        )
    };
    let message = M::decode_length_delimited(&mut rest)
        .map_err(|e| unreadable(format!("Error decoding rpc request: {e}")))?;
    if rest.is_empty() {
        Ok(message)
    } else {
        Err(unreadable(format!("{} bytes behind the message", rest.len())))
    }
}

fn write_all(output: &Output, bytes: &[u8]) -> io::Result<()> {
    let guard = output.lock();
    (&*guard.0).write_all(bytes)
}

fn respond(
    output: &Output,
    identity: &CallIdentity,
    result: Result<Vec<u8>, RpcError>,
) -> io::Result<()> {
    let mut header = RpcResponseHeaderProto {
        call_id: identity.call_id.cast_unsigned(),
        status: RpcStatusProto::Success as i32,
        server_ipc_version_num: Some(9),
        client_id: Some(identity.client_id.clone()),
        retry_count: Some(identity.retry_count),
        ..RpcResponseHeaderProto::default()
    };
    let mut frame = vec![0; 4];
    match result {
        Ok(body) => {
            frame.extend_from_slice(&header.encode_length_delimited_to_vec());
            prost::encode_length_delimiter(body.len(), &mut frame)
                .map_err(|e| io::Error::other(e.to_string()))?;
            frame.extend_from_slice(&body);
        }
        Err(error) => {
            let status = if error.fatal { RpcStatusProto::Fatal } else { RpcStatusProto::Error };
            header.status = status as i32;
            header.exception_class_name = Some(error.class);
            header.error_msg = Some(error.message + STACK_TRACE);
            header.error_detail = Some(error.code as i32);
            frame.extend_from_slice(&header.encode_length_delimited_to_vec());
        }
    }
    let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX).to_be_bytes();
    frame.splice(..4, length);
    write_all(output, &frame)
}
