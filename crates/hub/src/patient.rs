//! A connection whose other end must take what it is sent: one that does not is left after a while, and what was to be
//! sent to it takes no memory any more.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// How long the other end may take nothing.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection. The peer need not send anything on it.
#[derive(Debug)]
pub(crate) struct Patient<S> {
    stream: S,
    /// Runs while something waits to be taken.
    late: Pin<Box<Sleep>>,
    waits: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Patient<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, late: Box::pin(sleep(PATIENCE)), waits: false }
    }

    fn limited<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(done) = write(Pin::new(&mut self.stream), context) {
            self.waits = false;
            return Poll::Ready(done);
        }
        if !std::mem::replace(&mut self.waits, true) {
            self.late.as_mut().reset(Instant::now() + PATIENCE);
        }
        self.late.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, to)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.limited(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.limited(context, |stream, context| stream.poll_write_vectored(context, parts))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.limited(context, |stream, context| stream.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.limited(context, |stream, context| stream.poll_shutdown(context))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_that_takes_nothing_is_left() {
        let (here, _there) = duplex(16);
        let began = Instant::now();
        let error = Patient::new(here).write_all(&[0; 100]).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed().as_secs()), (io::ErrorKind::TimedOut, PATIENCE.as_secs()));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_slow_is_not() {
        let (here, mut there) = duplex(16);
        let writing = tokio::spawn(async move { Patient::new(here).write_all(&[0; 100]).await });
        for _ in 0..100 {
            sleep(PATIENCE / 2).await;
            there.read_u8().await.unwrap();
        }
        writing.await.unwrap().unwrap();
    }
}
