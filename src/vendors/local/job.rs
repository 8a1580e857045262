//! Image job with all inputs, and its dispatch to the built-in engines.

use super::{precision, prompt, relight, skin, style, upscale};
use crate::domain::image::{ImageJob, ImageWork, Picture, Source};
use crate::media::input::Decoded;

/// Job whose pictures are all stored.
pub(super) struct Ready {
    pub job: ImageJob,
    pub image: Picture,
    pub reference: Option<Picture>,
    seed: Option<u32>,
}

impl Ready {
    /// Creates the job.
    ///
    /// # Errors
    /// Returns a message if a picture is not stored or the size of the result is not allowed.
    pub fn of(work: ImageWork) -> Result<Self, String> {
        let here = |source: &Source| source.kept().copied().ok_or("a picture was not fetched");
        let image = here(&work.image)?;
        let reference = work.reference.as_ref().map(here).transpose()?;
        work.job.check_output(image.width, image.height).map_err(|reason| format!("image {reason}"))?;
        Ok(Self { job: work.job, image, reference, seed: work.seed })
    }

    /// Computes the result from the decoded pictures.
    pub fn make(&self, picture: Decoded, reference: Option<&Decoded>) -> Decoded {
        let seed = self.seed();
        match &self.job {
            ImageJob::Upscale(job) => upscale::upscale(picture, job, seed),
            ImageJob::UpscalePrecision(job) => precision::precision(picture, job, seed),
            ImageJob::StyleTransfer(job) => style::style(picture, reference, job, seed),
            ImageJob::SkinEnhance(job) => skin::skin(picture, job, seed),
            ImageJob::Relight(job) => relight::relight(picture, reference, job, seed),
        }
    }

    /// Returns the seed of the task, otherwise that of the prompt, otherwise one derived from the digest of the
    /// picture.
    fn seed(&self) -> u32 {
        let prompt = match &self.job {
            ImageJob::Upscale(job) => job.prompt.as_ref(),
            ImageJob::StyleTransfer(job) => job.prompt.as_ref(),
            ImageJob::Relight(job) => job.prompt.as_ref(),
            ImageJob::UpscalePrecision(_) | ImageJob::SkinEnhance(_) => None,
        };

        let [a, b, c, d, ..] = self.image.digest.0;

        self.seed
            .or_else(|| prompt.and_then(|text| prompt::seed(text.as_str())))
            .unwrap_or(u32::from_le_bytes([a, b, c, d]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::image::{ImageFormat, Prompt, Upscale};
    use crate::domain::value::Digest;

    fn ready(picture: u8, prompt: Option<&str>, seed: Option<u32>) -> Ready {
        let image =
            Picture { digest: Digest([picture; 32]), format: ImageFormat::Png, bytes: 100, width: 8, height: 8 };
        let prompt = prompt.map(|text| Prompt::parse(text).unwrap());
        let job = ImageJob::Upscale(Upscale { prompt, ..Upscale::default() });
        let work = ImageWork { job, image: Source::Kept(image), reference: None, seed };
        Ready::of(work).unwrap_or_else(|refusal| panic!("{refusal}"))
    }

    #[test]
    fn a_prompt_has_its_texture_and_without_one_each_picture_has_its_own() {
        assert_eq!(ready(1, Some("a cat"), None).seed(), ready(2, Some("a cat"), None).seed());
        assert_ne!(ready(1, Some("a cat"), None).seed(), ready(1, Some("a dog"), None).seed());
        assert_ne!(ready(1, None, None).seed(), ready(2, None, None).seed());
    }

    #[test]
    fn what_was_drawn_for_the_task_counts_first() {
        assert_eq!(ready(1, Some("a cat"), Some(7)).seed(), 7);
    }

    #[test]
    fn a_picture_that_was_not_fetched_is_refused() {
        let url = crate::domain::value::CallbackUrl::parse("https://a.example/x.png").unwrap();
        let job = ImageJob::Upscale(Upscale::default());
        let work = ImageWork { job, image: Source::Remote(url), reference: None, seed: None };
        assert!(Ready::of(work).is_err());
    }
}
