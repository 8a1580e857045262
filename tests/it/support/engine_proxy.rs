//! TCP proxy between one node and its engine. A test can cut it: connections stay open, but no bytes pass.

use std::net::{SocketAddr, TcpListener};
use std::thread;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::LocalSet;

/// Size of the copy buffer.
const BUFFER_BYTES: usize = 64 * 1024;

/// Listeners on free ports, one for each target. They close when the proxy is dropped.
pub struct EngineProxy {
    addresses: Vec<SocketAddr>,
    is_cut: watch::Sender<bool>,
}

impl EngineProxy {
    /// Starts a listener for each target.
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

    /// Returns the addresses to connect to, in the order of the targets.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Stops all bytes in both directions, and delays new connections.
    pub fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    /// Ends the cut. Bytes that arrived during it are passed on.
    pub fn restore(&self) {
        self.is_cut.send_replace(false);
    }
}

/// Passes the connections of a listener on to its target.
async fn accept(listener: TcpListener, target: SocketAddr, cut: watch::Receiver<bool>) {
    listener.set_nonblocking(true).expect("a socket");
    let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
    while let Ok((incoming, _)) = listener.accept().await {
        let cut = cut.clone();
        tokio::task::spawn_local(async move {
            wait_until_open(&mut cut.clone()).await;
            // If the server is down, the client sees its own connection close.
            if let Ok(outgoing) = TcpStream::connect(target).await {
                copy_both_ways(incoming, outgoing, cut).await;
            }
        });
    }
}

/// Copies bytes in both directions until one side closes.
async fn copy_both_ways(incoming: TcpStream, outgoing: TcpStream, cut: watch::Receiver<bool>) {
    let (mut from_client, mut to_client) = incoming.into_split();
    let (mut from_server, mut to_server) = outgoing.into_split();
    tokio::select! {
        () = copy(&mut from_client, &mut to_server, cut.clone()) => {}
        () = copy(&mut from_server, &mut to_client, cut) => {}
    }
}

/// Copies bytes until one side closes.
async fn copy(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    mut cut: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        wait_until_open(&mut cut).await;
        let Ok(read @ 1..) = from.read(&mut buffer).await else { return };
        wait_until_open(&mut cut).await;
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

/// Waits while the proxy is cut.
async fn wait_until_open(cut: &mut watch::Receiver<bool>) {
    let _ = cut.wait_for(|is_cut| !is_cut).await;
}
