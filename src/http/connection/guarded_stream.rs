//! Connection deadlines that the framework lacks: for the head of every further request, and for clients that stop
//! reading a response.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::ServiceResponse;
use actix_web::http::header::{CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};
use actix_web::web::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};

use super::address_limit::ConnectionPermit;
use super::{HEAD_TIMEOUT, KEEP_ALIVE};

/// Response to a late request head; the framework sends the same for the first one.
const HEAD_TIMED_OUT: &[u8] = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Bytes of an unread body that are discarded before a pause. More than any request head.
const DISCARD_BYTES: usize = 256 * 1024;
/// Pause after each [`DISCARD_BYTES`]. The resulting 25 MiB a second are fast enough for a client that reads the
/// response only after sending everything, and cost little CPU time.
const DISCARD_PAUSE: Duration = Duration::from_millis(10);

/// Client connection with deadlines.
pub struct GuardedStream {
    io: TcpStream,
    activity: Rc<ConnectionActivity>,
    head_timer: LazyTimer,
    write_timer: LazyTimer,
    write_timeout: Duration,
    /// Write deadline of a blocked client; `None` while it reads.
    blocked_until: Option<Instant>,
    discard_timer: LazyTimer,
    /// End of the pause in discarding an unread body.
    discard_paused_until: Option<Instant>,
    _permit: ConnectionPermit,
}

impl GuardedStream {
    pub fn new(io: TcpStream, write_timeout: Duration, permit: ConnectionPermit) -> Self {
        let head_timer = LazyTimer::default();
        let write_timer = LazyTimer::default();
        let discard_timer = LazyTimer::default();
        let activity = Rc::default();
        Self {
            io,
            activity,
            head_timer,
            write_timer,
            write_timeout,
            blocked_until: None,
            discard_timer,
            discard_paused_until: None,
            _permit: permit,
        }
    }

    /// Returns the state that the requests of this connection report to.
    pub fn activity(&self) -> Rc<ConnectionActivity> {
        Rc::clone(&self.activity)
    }

    /// Fails once the head of the next request is late.
    fn poll_head_deadline(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.activity.set_waker(context.waker());
        let Some(deadline) = self.activity.head_deadline.get() else { return Poll::Pending };

        // A client still reading an earlier response had no time for the next head.
        if self.blocked_until.is_some() {
            return Poll::Pending;
        }

        ready!(self.head_timer.poll(deadline, context));
        if self.activity.is_head_started.get() {
            // Best effort: the client may not read it.
            let _ = self.io.try_write(HEAD_TIMED_OUT);
        }
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the request head did not arrive in time")))
    }
}

impl AsyncRead for GuardedStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        if let Some(pause_ends) = stream.discard_paused_until {
            ready!(stream.discard_timer.poll(pause_ends, context));
            stream.discard_paused_until = None;
        }

        let before = buffer.filled().len();
        match Pin::new(&mut stream.io).poll_read(context, buffer) {
            Poll::Pending => stream.poll_head_deadline(context),
            read @ Poll::Ready(_) => {
                stream.activity.record_bytes(&buffer.filled()[before..]);
                if stream.activity.take_discard_pause() {
                    stream.discard_paused_until = Some(Instant::now() + DISCARD_PAUSE);
                }
                read
            }
        }
    }
}

impl AsyncWrite for GuardedStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let stream = self.get_mut();
        let written = Pin::new(&mut stream.io).poll_write(context, bytes);
        if written.is_ready() {
            if stream.blocked_until.take().is_some() {
                stream.activity.restart_head_deadline();
            }
            return written;
        }

        let deadline = *stream.blocked_until.get_or_insert_with(|| Instant::now() + stream.write_timeout);
        ready!(stream.write_timer.poll(deadline, context));
        // Closing the connection then discards unsent data at once, in the kernel too.
        let _ = stream.io.set_zero_linger();
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client did not read the response in time")))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(context)
    }
}

/// Timer, allocated on first use.
#[derive(Default)]
struct LazyTimer(Option<Pin<Box<Sleep>>>);

impl LazyTimer {
    fn poll(&mut self, deadline: Instant, context: &mut Context<'_>) -> Poll<()> {
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if sleep.deadline() != deadline {
            sleep.as_mut().reset(deadline);
        }
        sleep.as_mut().poll(context)
    }
}

/// State of a connection, shared by the stream, which sees bytes, and the requests, which know where one begins and
/// ends.
#[derive(Default)]
pub struct ConnectionActivity {
    is_serving: Cell<bool>,
    has_served: Cell<bool>,
    /// `true` if bytes of the next head have arrived.
    is_head_started: Cell<bool>,
    /// Deadline of the next head.
    head_deadline: Cell<Option<Instant>>,
    /// Bytes received after the last response or pause: the next head, or the rest of an unread body.
    unanswered: Cell<usize>,
    /// Last bytes received.
    tail: Cell<[u8; 4]>,
    /// `true` if bytes arrived after the head of the running request.
    has_more: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl ConnectionActivity {
    /// Records received bytes. The framework enforces the deadline of the first head.
    fn record_bytes(&self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let mut tail = self.tail.get();
        for byte in &bytes[bytes.len().saturating_sub(tail.len())..] {
            tail.rotate_left(1);
            tail[3] = *byte;
        }
        self.tail.set(tail);

        if self.is_serving.get() {
            self.has_more.set(true);
            return;
        }
        self.unanswered.set(self.unanswered.get().saturating_add(bytes.len()));
        if self.has_served.get() && !self.is_head_started.get() {
            self.is_head_started.set(true);
            self.head_deadline.set(Some(Instant::now() + HEAD_TIMEOUT));
        }
    }

    /// Returns `true` if a client keeps sending an unread body after the response, and a pause is due. Then begins to
    /// count the bytes up to the next pause.
    fn take_discard_pause(&self) -> bool {
        let is_due = self.has_served.get() && self.unanswered.get() >= DISCARD_BYTES;
        if is_due {
            self.unanswered.set(0);
        }
        is_due
    }

    /// Restarts the deadline of the next head and wakes the task of the stream so that it takes effect.
    fn restart_head_deadline(&self) {
        if self.head_deadline.get().is_some() {
            self.head_deadline.set(Some(Instant::now() + HEAD_TIMEOUT));
        }
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Records that the head of a request has arrived.
    fn start_request(&self) {
        let is_end_of_head = self.tail.get().ends_with(b"\n\r\n") || self.tail.get().ends_with(b"\n\n");
        self.has_more.set(!is_end_of_head);
        self.is_serving.set(true);
        self.unanswered.set(0);
        self.is_head_started.set(false);
        self.head_deadline.set(None);
    }

    /// Records the end of the request. With a body, the bytes that follow may still belong to the body.
    fn finish_request(&self, has_body: bool) {
        self.is_serving.set(false);
        self.has_served.set(true);

        // Bytes after a body cannot be distinguished from the body, so the next head gets the deadline of an idle
        // connection.
        let timeout = match (has_body, self.has_more.get()) {
            (true, _) => KEEP_ALIVE,
            (false, true) => HEAD_TIMEOUT,
            (false, false) => return,
        };

        self.is_head_started.set(!has_body);
        self.head_deadline.set(Some(Instant::now() + timeout));
        // Poll the stream, so that the deadline takes effect.
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    fn set_waker(&self, waker: &Waker) {
        let mut stored = self.waker.borrow_mut();
        if !stored.as_ref().is_some_and(|stored| stored.will_wake(waker)) {
            *stored = Some(waker.clone());
        }
    }
}

/// Running request; ends on drop.
pub struct ActiveRequest {
    activity: Option<Rc<ConnectionActivity>>,
    has_body: bool,
}

impl ActiveRequest {
    /// Reports to the connection that a request has begun.
    pub fn start(request: &HttpRequest) -> Self {
        let activity = request.conn_data::<Rc<ConnectionActivity>>().cloned();
        if let Some(activity) = &activity {
            activity.start_request();
        }
        Self { activity, has_body: announces_body(request.headers()) }
    }

    /// Ties the end of the request to the response: at once if its body is in memory, else with the last chunk.
    pub fn attach_to(self, response: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
        response.map_body(|_, body| {
            if body.size() == BodySize::None {
                return body;
            }
            match body.try_into_bytes() {
                Ok(bytes) => BoxBody::new(bytes),
                Err(body) => BoxBody::new(TrackedBody { body, _serving: self }),
            }
        })
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        if let Some(activity) = &self.activity {
            activity.finish_request(self.has_body);
        }
    }
}

fn announces_body(headers: &HeaderMap) -> bool {
    headers.contains_key(TRANSFER_ENCODING) || headers.get(CONTENT_LENGTH).is_some_and(|length| length != "0")
}

/// Streamed response body that keeps its request running.
struct TrackedBody {
    body: BoxBody,
    _serving: ActiveRequest,
}

impl MessageBody for TrackedBody {
    type Error = Box<dyn std::error::Error>;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_next(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";

    /// Returns the seconds until the deadline of the next head. The read with the head of the request returned
    /// `first_read`; the bytes `following` arrived while the request was served. `has_body`: its head announced a body.
    fn seconds_until_head_is_due(first_read: &[u8], following: &[u8], has_body: bool) -> Option<u64> {
        let activity = ConnectionActivity::default();
        activity.record_bytes(first_read);
        activity.start_request();
        activity.record_bytes(following);
        activity.finish_request(has_body);
        let deadline = activity.head_deadline.get()?;
        Some((deadline + Duration::from_millis(500)).duration_since(Instant::now()).as_secs())
    }

    #[test]
    fn pipelined_bytes_must_complete_a_head_before_the_deadline() {
        let head_timeout = Some(HEAD_TIMEOUT.as_secs());
        assert_eq!(seconds_until_head_is_due(HEAD, b"", false), None);
        assert_eq!(seconds_until_head_is_due(&[HEAD, b"GET"].concat(), b"", false), head_timeout);
        assert_eq!(seconds_until_head_is_due(HEAD, b"G", false), head_timeout);
        assert_eq!(seconds_until_head_is_due(&[HEAD, b"body"].concat(), b"", true), Some(KEEP_ALIVE.as_secs()));
    }

    #[test]
    fn an_unread_body_is_discarded_with_pauses() {
        let activity = ConnectionActivity::default();
        let chunk = vec![b'x'; DISCARD_BYTES];
        activity.record_bytes(HEAD);
        activity.start_request();
        activity.record_bytes(&chunk);
        assert!(!activity.take_discard_pause(), "a body is not slowed down while its request is served");

        activity.finish_request(true);
        activity.record_bytes(&chunk[1..]);
        assert!(!activity.take_discard_pause());
        activity.record_bytes(&chunk[..1]);
        assert!(activity.take_discard_pause());
        assert!(!activity.take_discard_pause());
    }

    #[test]
    fn the_head_deadline_starts_with_the_first_byte_and_is_not_extended() {
        let activity = ConnectionActivity::default();
        activity.record_bytes(HEAD);
        assert_eq!(activity.head_deadline.get(), None, "the framework waits for the first head");
        activity.start_request();
        activity.finish_request(false);

        activity.record_bytes(b"G");
        let deadline = activity.head_deadline.get();
        assert!(deadline.is_some());
        activity.record_bytes(b"E");

        assert_eq!(activity.head_deadline.get(), deadline);
        activity.start_request();
        assert_eq!(activity.head_deadline.get(), None);
    }
}
