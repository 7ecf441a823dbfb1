//! Checks against the servers that are out there: openssl's, nginx, OpenSSH. Debian's packages
//! openssl, nginx-light and openssh-server have to be installed.
#![cfg(test)]

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use civ_checks::{Check, Code, Engine, Family, Kind, Limits, Options, Outcome, Policy, Target};
use civ_checks::{Trust, Verdict};
use tempfile::TempDir;

/// A server in its own folder, ended with this value.
struct Peer {
    child: Child,
    address: SocketAddr,
    _folder: TempDir,
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// Administrators' programs are not in everybody's search path.
fn command(program: &str) -> Command {
    let path = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .chain(["/usr/sbin".into()])
        .map(|folder| folder.join(program))
        .find(|path| path.exists());
    let path = path.unwrap_or_else(|| {
        panic!("{program} is not here: apt-get install openssl nginx-light openssh-server")
    });
    let mut command = Command::new(path);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Starts it and waits until it accepts connections.
async fn peer(folder: TempDir, port: u16, mut command: Command) -> Peer {
    let child = command.spawn().unwrap();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut peer = Peer {
        child,
        address,
        _folder: folder,
    };
    let begin = Instant::now();
    while TcpStream::connect(address).is_err() {
        let ended = peer.child.try_wait().unwrap();
        assert!(ended.is_none(), "{command:?} ended: {ended:?}");
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "{command:?} does not listen"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    peer
}

/// A P-256 key and a certificate for localhost, in PEM files.
fn certificate(folder: &Path) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    let cert = params.self_signed(&key).unwrap();
    std::fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
    std::fs::write(folder.join("cert.pem"), cert.pem()).unwrap();
}

/// RSA, which our own tools do not generate.
fn rsa_certificate(folder: &Path) {
    let made = command("openssl")
        .current_dir(folder)
        .args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
        ])
        .args([
            "-subj",
            "/CN=localhost",
            "-keyout",
            "key.pem",
            "-out",
            "cert.pem",
        ])
        .status();
    assert!(made.unwrap().success());
}

async fn s_server(args: &[&str]) -> Peer {
    let folder = TempDir::new().unwrap();
    rsa_certificate(folder.path());
    let port = free_port();
    let mut server = command("openssl");
    server
        .current_dir(folder.path())
        .args([
            "s_server", "-quiet", "-cert", "cert.pem", "-key", "key.pem", "-accept",
        ])
        .arg(format!("127.0.0.1:{port}"))
        .args(args);
    peer(folder, port, server).await
}

async fn run_with(kind: Kind, target: &str, options: Options) -> Outcome {
    let ours = rcgen::generate_simple_self_signed(["ours.test".to_owned()]).unwrap();
    let trust = Trust::of(vec![ours.cert.der().clone()]).unwrap();
    let engine = Engine::new(Limits::default(), trust, Policy::anywhere()).unwrap();
    let target = Target::parse(kind, target).unwrap();
    let (source, family) = (None, Family::V4);
    engine
        .run(&Check {
            kind,
            target,
            source,
            family,
            options,
        })
        .await
}

async fn run(kind: Kind, target: impl ToString) -> Outcome {
    run_with(kind, &target.to_string(), Options::default()).await
}

#[tokio::test]
async fn old_versions_and_weak_suites_are_reachable_and_incompatible() {
    let low = "ALL:@SECLEVEL=0";
    for (args, version, suite) in [
        (
            &["-tls1", "-cipher", low][..],
            "TLS1.0",
            "TLS_ECDHE_RSA_WITH_AES_",
        ),
        (
            &["-tls1_1", "-cipher", low],
            "TLS1.1",
            "TLS_ECDHE_RSA_WITH_AES_",
        ),
        (
            &["-tls1_2", "-cipher", "AES128-SHA"],
            "TLS1.2",
            "TLS_RSA_WITH_AES_128_CBC_SHA ",
        ),
        (
            &["-tls1_2", "-cipher", "DHE-RSA-AES128-GCM-SHA256"],
            "TLS1.2",
            "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256 ",
        ),
    ] {
        let server = s_server(args).await;
        let outcome = run(Kind::Tls, server.address).await;
        assert!(
            matches!(
                outcome.verdict,
                Verdict::Failed(Code::TlsAlert(_) | Code::TlsFailed)
            ),
            "{args:?}: {}",
            outcome.detail
        );
        let said = format!("reachable, incompatible: {version} {suite}");
        assert!(
            outcome.detail.contains(&said),
            "{said} in {}",
            outcome.detail
        );
        assert!(
            outcome.detail.contains("subject=\"CN=localhost\""),
            "{}",
            outcome.detail
        );
        assert_eq!(
            outcome.evidence.tried.len(),
            1,
            "the second look is none of the check's"
        );
    }
}

#[tokio::test]
async fn a_modern_openssl_passes() {
    let server = s_server(&[]).await;
    let outcome = run(Kind::Tls, server.address).await;
    assert!(outcome.verdict.passed(), "{}", outcome.detail);
    assert!(
        outcome.detail.contains("sni=none handshake="),
        "{}",
        outcome.detail
    );
}

#[tokio::test]
async fn nginx_is_asked_over_http_2_and_http_1() {
    let folder = TempDir::new().unwrap();
    certificate(folder.path());
    let (tls, plain) = (free_port(), free_port());
    let at = folder.path().display();
    let config = format!(
        "daemon off; master_process off; pid {at}/pid; error_log {at}/error.log;\n\
         events {{}}\n\
         http {{ access_log off;\n\
           client_body_temp_path {at}/a; proxy_temp_path {at}/b; fastcgi_temp_path {at}/c;\n\
           uwsgi_temp_path {at}/d; scgi_temp_path {at}/e;\n\
           server {{ listen 127.0.0.1:{tls} ssl http2; listen 127.0.0.1:{plain};\n\
             ssl_certificate {at}/cert.pem; ssl_certificate_key {at}/key.pem;\n\
             location / {{ return 200 \"over $server_protocol\"; }}\n\
             location /blocked {{ return 451; }}\n\
             location /round {{ return 302 /round; }}\n\
             location /there {{ return 301 /; }} }} }}\n"
    );
    std::fs::write(folder.path().join("nginx.conf"), config).unwrap();
    let mut server = command("nginx");
    server
        .arg("-p")
        .arg(folder.path())
        .arg("-c")
        .arg(folder.path().join("nginx.conf"));
    let server = peer(folder, tls, server).await;
    let port = server.address.port();
    let options = |body: &str| {
        Options::parse(&serde_json::json!({"insecure": true, "expect_body": body})).unwrap()
    };
    let https = |path: &str| format!("https://127.0.0.1:{port}{path}");
    let outcome = run_with(Kind::Https, &https("/"), options("^over HTTP/2.0$")).await;
    assert!(outcome.verdict.passed(), "{}", outcome.detail);
    assert!(outcome.detail.contains("alpn=h2"), "{}", outcome.detail);
    let outcome = run_with(Kind::Https, &https("/there"), options("over")).await;
    assert!(outcome.verdict.passed(), "{}", outcome.detail);
    assert_eq!(outcome.evidence.hops.len(), 1);
    let http = |path: &str| format!("http://127.0.0.1:{plain}{path}");
    let options = Options::parse(&serde_json::json!({"expect_body": "HTTP/1.1"})).unwrap();
    let outcome = run_with(Kind::Http, &http("/"), options).await;
    assert!(outcome.verdict.passed(), "{}", outcome.detail);
    let outcome = run(Kind::Http, http("/blocked")).await;
    assert_eq!(outcome.verdict, Verdict::Failed(Code::HttpGeoBlocked));
    let outcome = run(Kind::Http, http("/round")).await;
    assert_eq!(outcome.verdict, Verdict::Failed(Code::TooManyRedirects));
    let outcome = run(Kind::Https, https("/")).await;
    assert_eq!(
        outcome.verdict,
        Verdict::Failed(Code::CertInvalid),
        "{}",
        outcome.detail
    );
}

/// An sshd with one ed25519 key and these settings; also the key's fingerprint as ssh-keygen says.
async fn sshd(settings: &str) -> (Peer, String) {
    let folder = TempDir::new().unwrap();
    let key = folder.path().join("key");
    let mut keygen = command("ssh-keygen");
    keygen
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(&key);
    assert!(keygen.status().unwrap().success());
    let shown = command("ssh-keygen")
        .arg("-lf")
        .arg(&key)
        .stdout(Stdio::piped())
        .output();
    let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
    let fingerprint = shown.split(' ').nth(1).unwrap().to_owned();
    let port = free_port();
    let config = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nPidFile none\nStrictModes no\n{settings}\n",
        key.display()
    );
    std::fs::write(folder.path().join("config"), config).unwrap();
    let mut server = command("sshd");
    server
        .args(["-D", "-e", "-f"])
        .arg(folder.path().join("config"));
    (peer(folder, port, server).await, fingerprint)
}

#[tokio::test]
async fn openssh_is_known_by_its_banner_and_key_exchange() {
    let (server, _fingerprint) = sshd("").await;
    let outcome = run(Kind::Ssh, server.address).await;
    assert!(outcome.verdict.passed(), "{}", outcome.detail);
    for fact in ["SSH-2.0-OpenSSH_", "host_keys=ssh-ed25519"] {
        assert!(
            outcome.detail.contains(fact),
            "{fact} in {}",
            outcome.detail
        );
    }
}

#[tokio::test]
async fn the_host_key_is_the_one_that_ssh_keygen_shows() {
    let (server, fingerprint) = sshd("").await;
    let options = Options::parse(&serde_json::json!({"ssh_hostkey": true})).unwrap();
    let outcome = run_with(Kind::Ssh, &server.address.to_string(), options).await;
    if cfg!(feature = "hostkey") {
        assert!(outcome.verdict.passed(), "{}", outcome.detail);
        let key = format!("hostkey=ssh-ed25519 {fingerprint}");
        assert!(outcome.detail.contains(&key), "{key} in {}", outcome.detail);
    } else {
        assert_eq!(outcome.verdict, Verdict::Inconclusive(Code::Internal));
        assert!(
            outcome.detail.contains("feature hostkey"),
            "{}",
            outcome.detail
        );
    }
}

#[tokio::test]
async fn an_openssh_with_too_many_log_ins_is_busy_and_not_dead() {
    let (server, _fingerprint) = sshd("MaxStartups 1:100:1").await;
    let held = TcpStream::connect(server.address).unwrap();
    let begin = Instant::now();
    loop {
        let outcome = run(Kind::Ssh, server.address).await;
        match outcome.verdict {
            Verdict::Inconclusive(Code::ServerBusy) => break,
            // The connection that fills it may not have been taken yet.
            Verdict::Passed if begin.elapsed() < Duration::from_secs(10) => {}
            _ => panic!("{}", outcome.detail),
        }
    }
    drop(held);
}
