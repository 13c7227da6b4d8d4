//! The admin address when all its connections are in use (R28). An idle connection is closed for a new one, so
//! health checks are always answered.

use std::time::Duration;

use crate::harness::{Client, Server, eventually, times};

fn demo(flags: &[&str]) -> Server {
    Server::start(&[("demo.snapshot", &parallax::testing::cli::demo::compile_demo().1)], flags)
}

fn idle_client(server: &Server) -> Client {
    let mut client = Client::to(server.admin);
    assert_eq!(client.request("GET", "/healthz", &[]).status, 200);
    client
}

#[test]
fn idle_clients_and_half_sent_heads_do_not_stop_health_checks() {
    let server = demo(&[]);
    let _idle: Vec<Client> = (0..256).map(|_| idle_client(&server)).collect();
    let mut half_sent = Vec::new();
    for n in 0..times(400, 1_500) {
        let mut client = Client::to(server.admin);
        client.send(b"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Part");
        half_sent.push(client);
        if n % 20 == 0 {
            assert_eq!(server.admin_get("/healthz").status, 200, "after {n} half-sent heads");
        }
    }
    assert_eq!(server.admin_get("/healthz").status, 200);
    eventually("the replaced connections are closed", || (server.descriptors() < 256 + 50).then_some(()));
}

#[test]
fn a_connection_over_the_limit_closes_the_one_that_waited_longest() {
    let server = demo(&["--admin-connections", "3"]);
    let mut clients: Vec<Client> = (0..3).map(|_| idle_client(&server)).collect();
    for client in &mut clients {
        assert_eq!(client.request("GET", "/healthz", &[]).status, 200, "three connections fit");
    }
    clients.push(idle_client(&server));
    assert!(clients[0].is_closed(), "the first connection has waited longest");
    for client in &mut clients[1..] {
        client.set_read_timeout(Duration::from_secs(5));
        assert_eq!(client.request("GET", "/healthz", &[]).status, 200, "the others stay open");
    }
}
