//! Result files, which never change under one name.

use super::answer::Answer;
use super::error::Problem;
use super::file::{self, Described};
use super::gate::Call;
use crate::domain::image::ImageFormat;
use crate::domain::policy::Action;
use crate::domain::value::Digest;
use crate::media::store::Area;

/// A name never stands for other bytes: it is their hash.
const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// `GET /media/{file}`: a result.
pub async fn file(call: Call<{ Action::ReadResult as u8 }>) -> Result<Answer, Problem> {
    let name = call.segment("file");
    let path = call.services().store.path_of(Area::Result, &name).ok_or_else(not_found)?;
    let (digest, format) = named(&name).ok_or_else(not_found)?;
    let content_type = format.media_type();
    let described = Described { digest, content_type, cache_control: IMMUTABLE, headers: Vec::new() };
    file::send(&call, &path, described).await?.ok_or_else(not_found)
}

fn not_found() -> Problem {
    Problem::not_found("file")
}

/// What a file name says: the hash of the bytes and their format.
fn named(name: &str) -> Option<(Digest, ImageFormat)> {
    let (stem, extension) = name.split_once('.')?;
    Some((Digest::parse(stem).ok()?, ImageFormat::parse(extension).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_results_name_files() {
        let digest = "a5".repeat(32);
        assert_eq!(named(&format!("{digest}.png")).map(|(_, format)| format), Some(ImageFormat::Png));
        for bad in
            ["", "a.png", &format!("{digest}.exe"), &digest, &format!("../{digest}.png"), &format!("{digest}.png/")]
        {
            assert!(named(bad).is_none(), "{bad}");
        }
    }
}
