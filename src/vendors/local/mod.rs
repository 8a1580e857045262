//! Built-in vendors: adapters of the engines that generate media in this process without a network.
//!
//! The engines are crates of their own: [`image`] and [`video`] adapt `mediary_engine`, [`music`] adapts
//! `mediary_music`. An adapter maps tasks to the jobs of the engine (`image_job`, `video_job`), keeps them in memory
//! (`jobs`), limits their memory, and stores the results.

mod budget;
pub mod image;
mod image_job;
mod jobs;
pub mod music;
mod prompt_report;
mod threads;
pub mod video;
mod video_job;

pub use jobs::IsJobWanted;
pub use prompt_report::{prompt_report, video_prompt_report};
