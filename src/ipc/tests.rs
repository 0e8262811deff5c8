//! Calls against scripted servers on loopback sockets.
use super::failover::{Method, Proxy};
use super::scripted::{Server, config, exception, success};
use crate::conf::client_config::{ClientConfig, NameService};
use crate::error::{Error, Result, Status};
use crate::proto::hdfs::{GetPreferredBlockSizeRequestProto, GetPreferredBlockSizeResponseProto};
use crate::time::Deadline;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const PROTOCOL: &str = "org.apache.hadoop.hdfs.protocol.ClientProtocol";
const ECHO: Method = Method::repeatable("getPreferredBlockSize");
const IO: &str = "java.io.IOException";
const STANDBY: &str = "org.apache.hadoop.ipc.StandbyException";
const BUSY: &str = "org.apache.hadoop.ipc.RetriableException";

fn proxy(servers: &[&str], logical: bool, config: &ClientConfig) -> Proxy {
    let namenodes = servers.iter().map(|s| (String::new(), (*s).to_owned())).collect();
    let service = NameService { name: "ns".into(), logical, namenodes };
    Proxy::new(&service, PROTOCOL, config).unwrap()
}

fn plain(server: &Server) -> Proxy {
    proxy(&[&server.addr], false, &config())
}

fn call(proxy: &Proxy, method: Method, number: u64, ms: u64) -> Result<u64> {
    let request = GetPreferredBlockSizeRequestProto { filename: number.to_string() };
    let response: Result<GetPreferredBlockSizeResponseProto> =
        proxy.call(method, &request, Deadline::after_ms(ms));
    response.map(|r| r.bsize)
}

fn echo(proxy: &Proxy, number: u64) -> Result<u64> {
    call(proxy, ECHO, number, 10_000)
}

fn fails(result: Result<u64>, status: Status, words: &str) -> Error {
    let e = result.unwrap_err();
    assert_eq!(e.status(), status, "{e}");
    assert!(e.to_string().contains(words), "{e}");
    e
}

/// A port where nobody listens.
fn closed_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

#[test]
fn one_connection_serves_many_calls() {
    let server = Server::start(|peer, _, _| peer.echo_all());
    let proxy = plain(&server);
    for number in 0..50 {
        assert_eq!(echo(&proxy, number).unwrap(), number);
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn many_threads_share_one_connection() {
    let server = Server::start(|peer, _, _| peer.echo_all());
    let proxy = plain(&server);
    std::thread::scope(|scope| {
        for thread in 0..16_u64 {
            let proxy = &proxy;
            scope.spawn(move || {
                for i in 0..200 {
                    assert_eq!(echo(proxy, thread * 1000 + i).unwrap(), thread * 1000 + i);
                }
            });
        }
    });
    assert_eq!(server.connections(), 1);
}

#[test]
fn answers_may_come_in_any_order() {
    let server = Server::start(|peer, _, _| {
        assert!(peer.greet());
        loop {
            let mut batch = Vec::new();
            while batch.len() < 8 {
                let Some(request) = peer.request() else { return };
                batch.push(request);
            }
            batch.reverse();
            batch.swap(0, 3);
            let bytes: Vec<u8> = batch.iter().flat_map(|r| r.echo()).collect();
            // In pieces that do not respect frames.
            for piece in bytes.chunks(7) {
                peer.send(piece);
            }
        }
    });
    let proxy = plain(&server);
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let proxy = &proxy;
            scope.spawn(move || {
                for i in 0..50 {
                    assert_eq!(echo(proxy, thread * 1000 + i).unwrap(), thread * 1000 + i);
                }
            });
        }
    });
}

#[test]
fn an_error_ends_only_its_call() {
    let server = Server::start(|peer, _, _| {
        assert!(peer.greet());
        while let Some(request) = peer.request() {
            let number: u64 = success_number(&request.echo());
            if number == 13 {
                peer.send(&exception(request.id, 1, IO, "unlucky\n\tat Foo.java", 1));
            } else {
                peer.send(&request.echo());
            }
        }
    });
    let proxy = plain(&server);
    let e = fails(echo(&proxy, 13), Status::Remote, "unlucky");
    assert_eq!((e.message(), e.remote_class()), ("unlucky", Some(IO)));
    assert_eq!(e.server(), Some(&*server.addr));
    assert_eq!(echo(&proxy, 14).unwrap(), 14);
    assert_eq!(server.connections(), 1);
}

/// The number in an answer made by `Request::echo`: its last varint.
fn success_number(answer: &[u8]) -> u64 {
    u64::from(*answer.last().unwrap())
}

#[test]
fn a_fatal_answer_ends_the_connection_and_all_its_calls() {
    let (tell, told) = mpsc::channel();
    let tell = std::sync::Mutex::new(tell);
    let server = Server::start(move |peer, number, _| {
        if number > 0 {
            return peer.echo_all();
        }
        assert!(peer.greet());
        let first = peer.request().unwrap();
        tell.lock().unwrap().send(()).unwrap();
        let second = peer.request().unwrap();
        let (fatal, _other) = (second, first);
        peer.send(&exception(fatal.id, 2, "org.apache.hadoop.ipc.RpcServerException", "bad", 10));
    });
    let proxy = Arc::new(plain(&server));
    let first = {
        let proxy = proxy.clone();
        std::thread::spawn(move || echo(&proxy, 1))
    };
    told.recv().unwrap();
    fails(echo(&proxy, 2), Status::Remote, "bad");
    // The other call was lost with the connection, and is repeated on a new one.
    assert_eq!(first.join().unwrap().unwrap(), 1);
    assert_eq!(server.connections(), 2);
}

#[test]
fn a_refused_user_gets_the_servers_words() {
    let server = Server::start(|peer, _, _| {
        assert!(peer.greet());
        peer.request();
        let class = "org.apache.hadoop.security.AccessControlException";
        let words = "SIMPLE authentication is not enabled.  Available:[TOKEN, KERBEROS]";
        peer.send(&exception(-1, 2, class, words, 15));
    });
    fails(echo(&plain(&server), 1), Status::Auth, "requires Kerberos or token");
    let mut config = config();
    config.kerberos = true;
    let service = NameService {
        name: "ns".into(),
        logical: false,
        namenodes: vec![(String::new(), server.addr.clone())],
    };
    let e = Proxy::new(&service, PROTOCOL, &config).unwrap_err();
    assert_eq!(e.status(), Status::Auth);
}

#[test]
fn servers_of_other_kinds_are_named() {
    for (answer, words) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "HTTP"),
        (b"SSH-2.0-OpenSSH_9\r\n", "not Hadoop RPC"),
        (b"\x00\x00\x00\x05hello", "not a Hadoop RPC server"),
    ] {
        let server = Server::start(move |peer, _, _| {
            peer.greet();
            peer.send(answer);
        });
        let e = fails(echo(&plain(&server), 1), Status::NotHdfs, words);
        assert!(e.to_string().contains(&server.addr), "{e}");
    }
}

#[test]
fn garbage_after_good_answers_ends_the_connection() {
    for garbage in [&b"\xff\xff\xff\xff"[..], b"\x00\x00\x00\x02\x01\x01", b"\x7f\x00\x00\x00"] {
        let server = Server::start(move |peer, number, _| {
            if number > 0 {
                return peer.echo_all();
            }
            assert!(peer.greet());
            let request = peer.request().unwrap();
            peer.send(&request.echo());
            peer.request();
            peer.send(garbage);
        });
        let mut config = config();
        config.ipc_max_response_bytes = 1 << 20;
        let proxy = proxy(&[&server.addr], false, &config);
        assert_eq!(echo(&proxy, 1).unwrap(), 1);
        fails(echo(&proxy, 2), Status::Protocol, &server.addr);
        assert_eq!(echo(&proxy, 3).unwrap(), 3);
    }
}

#[test]
fn an_answer_that_does_not_decode_is_the_servers_fault() {
    let server = Server::start(|peer, _, _| {
        assert!(peer.greet());
        while let Some(request) = peer.request() {
            let mut answer = request.echo();
            let at = answer.len() - 2;
            answer[at] = 0xff;
            peer.send(&answer);
        }
    });
    let e = fails(echo(&plain(&server), 1), Status::Protocol, "does not decode");
    assert_eq!(e.server(), Some(&*server.addr));
}

#[test]
fn a_connection_cut_before_the_answer_costs_one_repetition_of_the_same_call() {
    let server = Server::start(|peer, number, log| {
        assert!(peer.greet());
        while let Some(request) = peer.request() {
            log.lock().unwrap().push(request.clone());
            if number == 0 {
                // Half an answer, then nothing more.
                peer.send(&request.echo()[..5]);
                return;
            }
            peer.send(&request.echo());
        }
    });
    let proxy = plain(&server);
    assert_eq!(echo(&proxy, 5).unwrap(), 5);
    let seen = server.requests();
    assert_eq!(seen.len(), 2);
    assert_eq!((seen[0].id, seen[0].retry_count), (seen[1].id, 0));
    assert_eq!(seen[1].retry_count, 1);
    assert!(seen[0].client_id == seen[1].client_id && seen[0].client_id.len() == 16);
}

#[test]
fn a_call_that_must_not_be_repeated_is_not() {
    let server = Server::start(|peer, _, log| {
        assert!(peer.greet());
        log.lock().unwrap().extend(peer.request());
    });
    let once = Method { name: "getPreferredBlockSize", repeatable: false };
    fails(call(&plain(&server), once, 1, 5000), Status::ConnectionLost, "without an answer");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn an_idle_connection_that_died_costs_nothing() {
    let (tell, told) = mpsc::channel();
    let tell = std::sync::Mutex::new(tell);
    let server = Server::start(move |peer, number, log| {
        assert!(peer.greet());
        while let Some(request) = peer.request() {
            log.lock().unwrap().push(request.clone());
            peer.send(&request.echo());
            if number == 0 {
                peer.stream.shutdown(std::net::Shutdown::Both).unwrap();
                tell.lock().unwrap().send(()).unwrap();
                return;
            }
        }
    });
    let proxy = plain(&server);
    assert_eq!(echo(&proxy, 1).unwrap(), 1);
    told.recv().unwrap();
    assert_eq!(echo(&proxy, 2).unwrap(), 2);
    let retries: Vec<_> = server.requests().iter().map(|r| r.retry_count).collect();
    assert_eq!((retries, server.connections()), (vec![0, 0], 2));
}

#[test]
fn idle_connections_are_closed_after_their_time() {
    let server = Server::start(|peer, _, _| peer.echo_all());
    let mut config = config();
    config.ipc_max_idle_ms = 30;
    let proxy = proxy(&[&server.addr], false, &config);
    for expected in [1, 2, 3] {
        assert_eq!(echo(&proxy, 1).unwrap(), 1);
        assert_eq!(server.connections(), expected);
        std::thread::sleep(Duration::from_millis(60));
        if expected == 2 {
            proxy.expire_idle();
        }
    }
}

#[test]
fn a_silent_server_ends_the_call_in_time_and_keeps_the_connection() {
    let server = Server::start(|peer, _, _| {
        assert!(peer.greet());
        let slow = peer.request().unwrap();
        while let Some(request) = peer.request() {
            // The late answer must not disturb the next call.
            peer.send(&slow.echo());
            peer.send(&request.echo());
        }
    });
    let proxy = plain(&server);
    let begun = Instant::now();
    fails(call(&proxy, ECHO, 1, 150), Status::TimedOut, &server.addr);
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(150) && took < Duration::from_secs(5), "{took:?}");
    assert_eq!(echo(&proxy, 2).unwrap(), 2);
    assert_eq!(echo(&proxy, 3).unwrap(), 3);
    assert_eq!(server.connections(), 1);
}

#[test]
fn the_rpc_timeout_holds_without_a_deadline_and_leaves_a_silent_connection() {
    let server = Server::start(|peer, number, _| {
        if number > 0 {
            return peer.echo_all();
        }
        assert!(peer.greet());
        while peer.request().is_some() {}
    });
    let mut config = config();
    config.ipc_rpc_timeout_ms = 100;
    let proxy = proxy(&[&server.addr], false, &config);
    let begun = Instant::now();
    fails(call(&proxy, ECHO, 1, 0), Status::TimedOut, "no answer");
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(echo(&proxy, 2).unwrap(), 2);
    assert_eq!(server.connections(), 2);
}

#[test]
fn a_short_call_behind_a_long_one_keeps_its_own_limit() {
    // The first caller reads for both; the second one's time runs out first, and the other way.
    for (first_ms, second_ms) in [(3000, 150), (150, 3000)] {
        let server = Server::start(|peer, _, _| {
            assert!(peer.greet());
            while peer.request().is_some() {}
        });
        let proxy = plain(&server);
        std::thread::scope(|scope| {
            for ms in [first_ms, second_ms] {
                let proxy = &proxy;
                scope.spawn(move || {
                    let begun = Instant::now();
                    fails(call(proxy, ECHO, 1, ms), Status::TimedOut, "");
                    let took = begun.elapsed();
                    assert!(took >= Duration::from_millis(ms), "{took:?}");
                    assert!(took < Duration::from_millis(ms + 2500), "{took:?}");
                });
                std::thread::sleep(Duration::from_millis(30));
            }
        });
    }
}

#[test]
fn pings_go_out_while_a_call_waits() {
    let server = Server::start(|peer, _, _| {
        assert!(peer.greet());
        let request = peer.request().unwrap();
        // The answer comes only after two pings.
        for _ in 0..2 {
            assert!(peer.request().unwrap().is_ping());
        }
        peer.send(&request.echo());
    });
    let mut config = config();
    config.ipc_ping_interval_ms = 100;
    let proxy = proxy(&[&server.addr], false, &config);
    assert_eq!(echo(&proxy, 9).unwrap(), 9);
}

#[test]
fn the_standby_is_left_for_the_active_once() {
    let standby = Server::start(|peer, _, log| {
        assert!(peer.greet());
        while let Some(request) = peer.request() {
            log.lock().unwrap().push(request.clone());
            peer.send(&exception(request.id, 1, STANDBY, "not active", 1));
        }
    });
    let active = Server::start(|peer, _, log| {
        assert!(peer.greet());
        while let Some(request) = peer.request() {
            log.lock().unwrap().push(request.clone());
            peer.send(&request.echo());
        }
    });
    let proxy = proxy(&[&standby.addr, &active.addr], true, &config());
    assert_eq!(echo(&proxy, 1).unwrap(), 1);
    assert_eq!(echo(&proxy, 2).unwrap(), 2);
    let (first, second) = (standby.requests(), active.requests());
    assert_eq!((first.len(), second.len()), (1, 2));
    assert_eq!((first[0].id, first[0].retry_count), (second[0].id, 0));
    assert!(second[0].retry_count == 1 && second[1].retry_count == 0);
    assert_eq!(first[0].client_id, second[0].client_id);
}

#[test]
fn many_callers_fail_over_once() {
    let standby = Server::start(|peer, _, _| {
        assert!(peer.greet());
        let mut waiting = Vec::new();
        while let Some(request) = peer.request() {
            waiting.push(request.id);
            // All at once, when all are there.
            if waiting.len() == 8 {
                for id in waiting.drain(..) {
                    peer.send(&exception(id, 1, STANDBY, "not active", 1));
                }
            }
        }
    });
    let active = Server::start(|peer, _, _| peer.echo_all());
    let proxy = proxy(&[&standby.addr, &active.addr], true, &config());
    std::thread::scope(|scope| {
        for number in 0..8 {
            let proxy = &proxy;
            scope.spawn(move || assert_eq!(echo(proxy, number).unwrap(), number));
        }
    });
    assert_eq!((standby.connections(), active.connections()), (1, 1));
}

#[test]
fn a_dead_namenode_is_left_and_none_alive_is_an_error_in_time() {
    let active = Server::start(|peer, _, _| peer.echo_all());
    let dead = closed_port();
    let p = proxy(&[&dead, &active.addr], true, &config());
    assert_eq!(echo(&p, 1).unwrap(), 1);
    let other = closed_port();
    let p = proxy(&[&dead, &other], true, &config());
    let begun = Instant::now();
    let e = fails(echo(&p, 1), Status::Connect, "16 attempts on 2 NameNodes");
    assert!(e.is_retriable() && begun.elapsed() < Duration::from_secs(8), "{e}");
    // The deadline cuts the repetitions short.
    let mut slow = config();
    (slow.failover_sleep_base_ms, slow.failover_sleep_max_ms) = (10_000, 10_000);
    let p = proxy(&[&dead, &other], true, &slow);
    let begun = Instant::now();
    fails(call(&p, ECHO, 1, 1000), Status::Connect, "attempts");
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_plain_namenode_that_refuses_is_an_error_at_once_but_may_restart_later() {
    let server = Server::start(|peer, _, _| {
        assert!(peer.greet());
        let request = peer.request().unwrap();
        peer.send(&request.echo());
    });
    let addr = server.addr.clone();
    let mut patient = config();
    (patient.ipc_connect_max_retries, patient.ipc_connect_retry_interval_ms) = (500, 20);
    let p = proxy(&[&addr], false, &patient);
    assert_eq!(echo(&p, 1).unwrap(), 1);
    drop(server);
    let restarted = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(30));
        let listener = TcpListener::bind(&*addr).unwrap();
        let mut peer = super::scripted::Peer { stream: listener.accept().unwrap().0 };
        peer.echo_all();
    });
    assert_eq!(echo(&p, 2).unwrap(), 2);
    drop(p);
    restarted.join().unwrap();
    let begun = Instant::now();
    let dead = closed_port();
    patient.ipc_connect_retry_interval_ms = 60_000;
    fails(echo(&proxy(&[&dead], false, &patient), 1), Status::Connect, &dead);
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_busy_server_is_asked_again() {
    let server = Server::start(|peer, _, log| {
        assert!(peer.greet());
        while let Some(request) = peer.request() {
            log.lock().unwrap().push(request.clone());
            if request.retry_count < 3 {
                peer.send(&exception(request.id, 1, BUSY, "come back", 1));
            } else {
                peer.send(&request.echo());
            }
        }
    });
    let ha = proxy(&[&server.addr], true, &config());
    assert_eq!(echo(&ha, 1).unwrap(), 1);
    assert_eq!(server.requests().len(), 4);
    // Without HA only the configured policy does that.
    fails(echo(&plain(&server), 1), Status::ServerBusy, "come back");
    let mut config = config();
    config.retry_policy_enabled = true;
    assert_eq!(echo(&proxy(&[&server.addr], false, &config), 1).unwrap(), 1);
}

#[test]
fn close_wakes_waiting_and_sleeping_calls() {
    let silent = Server::start(|peer, _, _| {
        assert!(peer.greet());
        while peer.request().is_some() {}
    });
    let mut slow = config();
    (slow.failover_sleep_base_ms, slow.failover_sleep_max_ms) = (60_000, 60_000);
    let waiting = Arc::new(plain(&silent));
    let sleeping = Arc::new(proxy(&[&closed_port(), &closed_port()], true, &slow));
    for proxy in [waiting, sleeping] {
        let calls: Vec<_> = (0..3)
            .map(|_| {
                let proxy = proxy.clone();
                std::thread::spawn(move || call(&proxy, ECHO, 1, 0))
            })
            .collect();
        std::thread::sleep(Duration::from_millis(100));
        let begun = Instant::now();
        proxy.close();
        for call in calls {
            fails(call.join().unwrap(), Status::Closed, "closed");
        }
        assert!(begun.elapsed() < Duration::from_secs(5));
        fails(echo(&proxy, 1), Status::Closed, "closed");
    }
}

#[test]
fn close_wakes_a_call_that_connects() {
    // A listener whose queue is full answers no further connection.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let mut queue = Vec::new();
    while let Ok(stream) = std::net::TcpStream::connect_timeout(&addr, Duration::from_millis(200)) {
        queue.push(stream);
        assert!(queue.len() < 10_000, "the queue of the listener never fills");
    }
    let mut config = config();
    config.ipc_connect_timeout_ms = 60_000;
    let proxy = Arc::new(proxy(&[&addr.to_string()], false, &config));
    let call = {
        let proxy = proxy.clone();
        std::thread::spawn(move || call(&proxy, ECHO, 1, 0))
    };
    std::thread::sleep(Duration::from_millis(100));
    let begun = Instant::now();
    proxy.close();
    fails(call.join().unwrap(), Status::Closed, "closed");
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn large_requests_and_answers_pass() {
    let server = Server::start(|peer, _, _| {
        assert!(peer.greet());
        while let Some(request) = peer.request() {
            std::thread::sleep(Duration::from_millis(50));
            let bsize = request.body.len() as u64;
            peer.send(&success(request.id, &GetPreferredBlockSizeResponseProto { bsize }));
        }
    });
    let proxy = plain(&server);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let proxy = &proxy;
            scope.spawn(move || {
                let request = GetPreferredBlockSizeRequestProto { filename: "x".repeat(5 << 20) };
                let r: GetPreferredBlockSizeResponseProto =
                    proxy.call(ECHO, &request, Deadline::after_ms(10_000)).unwrap();
                assert_eq!(r.bsize, (5 << 20) + 5);
            });
        }
    });
}

#[test]
fn a_call_cut_off_while_sending_leaves_the_connection_sound() {
    let (tell, told) = mpsc::channel::<()>();
    let told = std::sync::Mutex::new(told);
    let server = Server::start(move |peer, _, log| {
        assert!(peer.greet());
        // Takes nothing until the first caller has given up.
        told.lock().unwrap().recv().unwrap();
        while let Some(request) = peer.request() {
            log.lock().unwrap().push(request.clone());
            let bsize = request.body.len() as u64;
            peer.send(&success(request.id, &GetPreferredBlockSizeResponseProto { bsize }));
        }
    });
    let proxy = plain(&server);
    let request = GetPreferredBlockSizeRequestProto { filename: "x".repeat(30 << 20) };
    let r: Result<GetPreferredBlockSizeResponseProto> =
        proxy.call(ECHO, &request, Deadline::after_ms(200));
    assert_eq!(r.unwrap_err().status(), Status::TimedOut);
    tell.send(()).unwrap();
    assert_eq!(echo(&proxy, 7).unwrap(), 3);
    assert_eq!((server.connections(), server.requests().len()), (1, 2));
}
