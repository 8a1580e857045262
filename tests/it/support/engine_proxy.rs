//! A network between one node and its engine that can be cut: connections stay open, and nothing passes.

use std::net::{SocketAddr, TcpListener};
use std::thread;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::LocalSet;

/// Largest piece that is passed on at once.
const PIECE: usize = 64 * 1024;

/// Ports of this machine that lead to other ones. Ends with the test process, or when it is dropped.
pub struct EngineProxy {
    addresses: Vec<SocketAddr>,
    is_cut: watch::Sender<bool>,
}

impl EngineProxy {
    /// Starts with a port for each target.
    pub fn start(targets: &[SocketAddr]) -> Self {
        let (is_cut, cut) = watch::channel(false);
        let listeners: Vec<_> =
            targets.iter().map(|target| (TcpListener::bind("127.0.0.1:0").expect("a free port"), *target)).collect();
        let addresses = listeners.iter().map(|(listener, _)| listener.local_addr().expect("an address")).collect();

        thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            LocalSet::new().block_on(&runtime, async move {
                for (listener, target) in listeners {
                    tokio::task::spawn_local(accept(listener, target, cut.clone()));
                }
                // Ends when the proxy is dropped.
                let mut cut = cut;
                while cut.changed().await.is_ok() {}
            });
        });
        Self { addresses, is_cut }
    }

    /// Addresses that stand for the targets.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Lets nothing pass any more.
    pub fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    /// Lets everything pass again, also what has arrived meanwhile.
    pub fn restore(&self) {
        self.is_cut.send_replace(false);
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, cut: watch::Receiver<bool>) {
    listener.set_nonblocking(true).expect("a socket");
    let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
    while let Ok((incoming, _)) = listener.accept().await {
        let cut = cut.clone();
        tokio::task::spawn_local(async move {
            wait_until_open(&mut cut.clone()).await;
            // Otherwise the server is down, and the client learns it.
            if let Ok(outgoing) = TcpStream::connect(target).await {
                connect(incoming, outgoing, cut).await;
            }
        });
    }
}

async fn connect(incoming: TcpStream, outgoing: TcpStream, cut: watch::Receiver<bool>) {
    let (mut from_client, mut to_client) = incoming.into_split();
    let (mut from_server, mut to_server) = outgoing.into_split();
    tokio::select! {
        () = pass(&mut from_client, &mut to_server, cut.clone()) => {}
        () = pass(&mut from_server, &mut to_client, cut) => {}
    }
}

/// Passes on what arrives until one side ends.
async fn pass(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    mut cut: watch::Receiver<bool>,
) {
    let mut piece = vec![0; PIECE];
    loop {
        wait_until_open(&mut cut).await;
        let Ok(read @ 1..) = from.read(&mut piece).await else { return };
        wait_until_open(&mut cut).await;
        if to.write_all(&piece[..read]).await.is_err() {
            return;
        }
    }
}

async fn wait_until_open(cut: &mut watch::Receiver<bool>) {
    let _ = cut.wait_for(|is_cut| !is_cut).await;
}
