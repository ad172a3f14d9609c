//! The WebSocket: what a browser watches, as it happens.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use serde::Deserialize;
use tokio::time::{interval, timeout};

use super::error::ApiError;
use super::{App, blocking};
use crate::clock::unix_ms;
use crate::gate::PROTOCOL;
use crate::live::{Client, MOST_WATCHED, Subscription};
use crate::message::LiveMessage;

/// Browsers at once.
const MOST_CLIENTS: usize = 64;

/// The longest message of a browser.
const LONGEST_MESSAGE: usize = 16 * 1024;

/// A browser that takes nothing for this long is left.
const PATIENCE: Duration = Duration::from_secs(30);

/// The time between two wishes of one browser.
const WISH_PAUSE: Duration = Duration::from_millis(20);

/// How often an idle connection is shown to be alive.
const PING_EVERY: Duration = Duration::from_secs(15);

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Wish {
    Watch {
        #[serde(default)]
        processes: bool,
        #[serde(default)]
        ids: Vec<String>,
    },
}

pub(super) async fn live(State(app): State<Arc<App>>, upgrade: WebSocketUpgrade) -> Result<Response, ApiError> {
    if app.hub.clients.connected() >= MOST_CLIENTS {
        return Err(ApiError::busy("too many browsers watch already"));
    }
    let upgrade = upgrade.protocols([PROTOCOL]).max_message_size(LONGEST_MESSAGE).max_frame_size(LONGEST_MESSAGE);
    Ok(upgrade.on_upgrade(move |socket| async move { serve(&app, socket).await }))
}

/// Tells a browser until it goes away or falls asleep.
async fn serve(app: &App, mut socket: WebSocket) {
    let (client, mut messages) = app.hub.clients.add();
    let neurogc = env!("CARGO_PKG_VERSION");
    let hello = LiveMessage::Hello { neurogc, now_ms: unix_ms(), started_ms: app.hub.started_ms };
    let mut open = send(&mut socket, Message::text(hello.text())).await;
    let mut pings = interval(PING_EVERY);
    while open {
        open = tokio::select! {
            message = messages.recv() => match message {
                Some(message) => tell(&mut socket, &client, &message).await,
                None => false,
            },
            received = socket.recv() => match received {
                Some(Ok(Message::Text(text))) => match watch(&text) {
                    Ok(watch) => {
                        let list = watch.processes;
                        client.watch(watch);
                        // A browser that sends many requests is answered slowly.
                        tokio::time::sleep(WISH_PAUSE).await;
                        !list || send_list(app, &mut socket).await
                    }
                    Err(message) => send(&mut socket, Message::text(LiveMessage::Error { message }.text())).await,
                },
                Some(Ok(Message::Close(_)) | Err(_)) | None => false,
                Some(Ok(_)) => true,
            },
            _ = pings.tick() => send(&mut socket, Message::Ping(Default::default())).await,
        };
    }
    app.hub.clients.remove(&client);
}

/// Sends a message, and what was skipped before it.
async fn tell(socket: &mut WebSocket, client: &Client, message: &str) -> bool {
    let skipped = client.take_skipped();
    let told = skipped == 0 || { send(socket, Message::text(LiveMessage::Skipped { count: skipped }.text())).await };
    told && send(socket, Message::text(message)).await
}

async fn send_list(app: &App, socket: &mut WebSocket) -> bool {
    let hub = Arc::clone(&app.hub);
    match blocking(move || Ok(hub.list())).await {
        Ok(list) => send(socket, Message::text(list)).await,
        Err(_) => false,
    }
}

async fn send(socket: &mut WebSocket, message: Message) -> bool {
    matches!(timeout(PATIENCE, socket.send(message)).await, Ok(Ok(())))
}

fn watch(text: &str) -> Result<Subscription, String> {
    let Wish::Watch { processes, ids } =
        serde_json::from_str(text).map_err(|error| format!("the message was not understood: {error}"))?;
    if ids.len() > MOST_WATCHED {
        return Err(format!("at most {MOST_WATCHED} processes can be watched at once"));
    }
    Ok(Subscription { processes, ids: ids.into_iter().collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_wishes_are_understood() {
        assert_eq!(watch(r#"{"type": "watch", "processes": true}"#).map(|watch| watch.processes), Ok(true));
        assert!(watch(r#"{"type": "sing"}"#).is_err());
        assert!(watch("[").is_err());
        let many: Vec<_> = (0..17).map(|id| id.to_string()).collect();
        assert!(watch(&serde_json::json!({"type": "watch", "ids": many}).to_string()).is_err());
    }
}
