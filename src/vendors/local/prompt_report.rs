//! Reports of the words that the built-in engines understand in a prompt. A report depends only on the prompt.

use mediary_engine::PromptReport as EngineReport;

use crate::domain::image::ImageJob;
use crate::domain::task::{PromptReport, TaskWork};
use crate::domain::video::VideoJob;

/// Returns the report on the prompts of a task; `None` for a task without a prompt that the engine reads.
#[must_use]
pub fn prompt_report(work: &TaskWork) -> Option<PromptReport> {
    let report = match work {
        TaskWork::Image(work) => match &work.job {
            ImageJob::Upscale(job) => EngineReport::for_upscale(job.prompt.as_ref()?.as_str()),
            ImageJob::StyleTransfer(job) => EngineReport::for_style_transfer(job.prompt.as_ref()?.as_str()),
            ImageJob::Relight(job) => EngineReport::for_relight(job.prompt.as_ref()?.as_str()),
            ImageJob::UpscalePrecision(_) | ImageJob::SkinEnhance(_) => return None,
        },
        TaskWork::Video(work) => match &work.job {
            VideoJob::StartEnd(job) | VideoJob::Reference(job) => {
                EngineReport::for_video(job.prompt.as_ref()?.as_str())
            }
            VideoJob::Extend(job) => EngineReport::for_video(job.prompt.as_ref()?.as_str()),
            VideoJob::Multiframe(job) => {
                let mut prompts = job.key_frames.iter().filter_map(|frame| frame.prompt.as_ref()).peekable();
                prompts.peek()?;
                prompts.fold(EngineReport::default(), |mut merged, prompt| {
                    merged.merge(EngineReport::for_video(prompt.as_str()));
                    merged
                })
            }
        },
        TaskWork::Music(work) => {
            let mut report = EngineReport::default();
            for (word, is_understood) in mediary_music::interpret(work.prompt.as_str()) {
                report.add(word, is_understood);
            }
            report
        }
    };
    Some(to_domain(report))
}

/// Returns the report on the prompt of a video.
#[must_use]
pub fn video_prompt_report(prompt: &str) -> PromptReport {
    to_domain(EngineReport::for_video(prompt))
}

fn to_domain(EngineReport { understood, ignored }: EngineReport) -> PromptReport {
    PromptReport { understood, ignored }
}
