//! Stored shapes of tasks, their jobs and results, and of deliveries. The parent module documents the macros.

use super::{StoredForm, stored, stored_enum, stored_struct};
use crate::domain::delivery::{AttemptOutcome, DeliveryEvent, DeliverySubject, Redelivery};
use crate::domain::image::{
    ImageJob, ImageWork, LightSettings, Picture, PictureSource, PortraitSettings, PrecisionUpscaleJob, RelightJob,
    SkinEnhanceJob, SkinMode, StyleTransferJob, UpscaleJob,
};
use crate::domain::music::{MusicFile, MusicStream, MusicWork};
use crate::domain::task::{Payers, RecordedVendor, Submission, TaskEvent, TaskFailure, TaskWork};
use crate::domain::video::{
    AttachedDocument, Clip, Creation, ExtendJob, Footage, GenerateJob, KeyFrame, MultiframeJob, VideoJob, VideoWork,
    Watermark,
};
use crate::events::schema::CommitDecodeError;
use crate::events::schema::v1::{AttemptOutcomeV1, DeliveryEventV1, FailureV1, PictureV1, UpscaleV1};
use crate::events::schema::v2::{
    ClipV2, CreationV2, DocumentV2, ExtendV2, GenerateV2, ImageJobV2, KeyFrameV2, LightSettingsV2, MultiframeV2,
    MusicFileV2, MusicStreamV2, PayersV2, PortraitV2, RelightV2, SkinEnhanceV2, SkinModeV2, SourceV2, StyleTransferV2,
    TaskEventV2, UpscalePrecisionV2, VendorV2, VideoJobV2, VideoWorkV2, WatermarkV2, WorkV2,
};

// Events that an older shape can express are still stored in that shape:
// - submissions with an owner and starts without a vendor in the shape of version 1,
// - submissions that only the owner pays for in the shapes without `payers`,
// - streams without files in the shape without `files`.
stored_enum! {
    TaskEvent => TaskEventV2<'a> {
        VendorAccepted { reference },
        VendorRefused { failure },
        OutcomeUnknown { reason },
        VendorForgot,
        TaskCompleted { results },
        TaskFailed { failure },
        InputsFetched { inputs },
        SubmissionUndelivered { reason },
        TaskCancelled,
        TaskQueued,
        FootageFetched { clip },
        WorkBegan,
        VideoCompleted { creation },
    } and {
        (task owner work webhook)
            { Self::TaskSubmitted(Submission { task, owner: Some(owner), work, webhook, payers: None }) }
            = { TaskEventV2::TaskSubmitted { task, owner, work, webhook } },
        (task work webhook)
            { Self::TaskSubmitted(Submission { task, owner: None, work, webhook, payers: None }) }
            = { TaskEventV2::AnonymousTaskSubmitted { task, work, webhook } },
        (task owner work webhook payers)
            { Self::TaskSubmitted(Submission { task, owner, work, webhook, payers: Some(payers) }) }
            = { TaskEventV2::PaidTaskSubmitted { task, owner, work, webhook, payers } },
        (attempt key)
            { Self::SubmissionStarted { attempt, key, vendor: None } }
            = { TaskEventV2::SubmissionStarted { attempt, key } },
        (attempt key vendor)
            { Self::SubmissionStarted { attempt, key, vendor: Some(vendor) } }
            = { TaskEventV2::VendorSubmissionStarted { attempt, key, vendor } },
        (title millis bytes)
            { Self::StreamCompleted { stream: MusicStream { title, millis, bytes, files: None } } }
            = { TaskEventV2::StreamCompleted { stream: MusicStreamV2 { title, millis, bytes } } },
        (title millis bytes files)
            { Self::StreamCompleted { stream: MusicStream { title, millis, bytes, files: Some(files) } } }
            = { TaskEventV2::StoredStreamCompleted { stream: MusicStreamV2 { title, millis, bytes }, files } },
    }
}

stored_struct! {
    Payers => PayersV2<'a> { token, former_accounts, publishers }
}

impl<'a> StoredForm<'a, PayersV2<'a>> for Box<Payers> {
    fn store(&'a self) -> PayersV2<'a> {
        (**self).store()
    }

    fn restore(stored: PayersV2<'a>, field: &'static str) -> Result<Self, CommitDecodeError> {
        Payers::restore(stored, field).map(Self::new)
    }
}

stored_struct! {
    RecordedVendor => VendorV2<'a> { name, profile, profile_hash, price = price_thousandths }
}

// The upscale of an uploaded picture without a reference and a seed is stored in the shape of version 1; images and
// music without a price are stored in the shapes without `credits`.
stored! {
    TaskWork => WorkV2<'a> {
        (input parameters)
            {
                Self::Image(ImageWork {
                    job: ImageJob::Upscale(parameters),
                    image: PictureSource::Stored(input),
                    reference: None,
                    seed: None,
                    credits: 0,
                })
            }
            = { WorkV2::ImageUpscale { input, parameters } },
        (job image reference seed)
            { Self::Image(ImageWork { job, image, reference, seed, credits: 0 }) }
            = { WorkV2::Image { job, image, reference, seed } },
        (work) { Self::Video(work) } = { WorkV2::Video(work) },
        (prompt seconds)
            { Self::Music(MusicWork { prompt, seconds, credits: 0 }) }
            = { WorkV2::Music { prompt, seconds } },
        (job image reference seed credits)
            { Self::Image(ImageWork { job, image, reference, seed, credits }) }
            = { WorkV2::PricedImage { job, image, reference, seed, credits } },
        (prompt seconds credits)
            { Self::Music(MusicWork { prompt, seconds, credits }) }
            = { WorkV2::PricedMusic { prompt, seconds, credits } },
    }
}

stored_struct! {
    TaskFailure => FailureV1<'a> { code, message }
}

stored_struct! {
    Picture => PictureV1<'a> { digest, format, bytes, width, height }
}

stored! {
    PictureSource => SourceV2<'a> {
        (picture) { Self::Stored(picture) } = { SourceV2::Kept(picture) },
        (url) { Self::Remote(url) } = { SourceV2::Remote(url) },
    }
}

stored_enum! {
    ImageJob => ImageJobV2<'a> {
        Upscale(job),
        UpscalePrecision(job),
        StyleTransfer(job),
        SkinEnhance(job),
        Relight(job),
    }
}

stored_struct! {
    UpscaleJob => UpscaleV1<'a> {
        scale_factor,
        engine,
        optimized_for,
        creativity,
        fractality,
        hdr,
        resemblance,
        prompt,
    }
}

stored_struct! {
    PrecisionUpscaleJob => UpscalePrecisionV2<'a> { scale_factor, flavor, sharpen, smart_grain, ultra_detail }
}

stored_struct! {
    StyleTransferJob => StyleTransferV2<'a> {
        engine,
        flavor,
        portrait,
        prompt,
        structure_strength,
        style_strength,
        fixed_generation,
    }
}

stored_struct! {
    PortraitSettings => PortraitV2<'a> { beautifier, style }
}

stored_struct! {
    SkinEnhanceJob => SkinEnhanceV2<'a> { mode, sharpen, smart_grain }
}

stored_enum! {
    SkinMode => SkinModeV2<'a> { Creative, Faithful { detail }, Flexible { focus } }
}

stored_struct! {
    RelightJob => RelightV2<'a> {
        prompt,
        source,
        light_transfer_strength,
        interpolate_from_original,
        change_background,
        preserve_details,
        style,
        advanced,
    }
}

stored_struct! {
    LightSettings => LightSettingsV2<'a> {
        whites,
        blacks,
        brightness,
        contrast,
        saturation,
        engine,
        transfer_light_a,
        transfer_light_b,
        fixed_generation,
    }
}

stored_struct! {
    VideoWork => VideoWorkV2<'a> { job, images, seed, payload, meta_data, credits }
}

stored_enum! {
    VideoJob => VideoJobV2<'a> { StartEnd(job), Reference(job), Extend(job), Multiframe(job) }
}

stored_struct! {
    GenerateJob => GenerateV2<'a> {
        model,
        resolution,
        seconds,
        aspect_ratio,
        movement_amplitude,
        style,
        audio,
        audio_type,
        bgm,
        voice_id,
        enhance,
        is_rec,
        off_peak,
        priority,
        prompt,
        watermark,
    }
}

stored_struct! {
    Watermark => WatermarkV2<'a> { position, image }
}

stored! {
    ExtendJob => ExtendV2<'a> {
        (model resolution seconds prompt creation url stored vendor_id)
            { Self { model, resolution, seconds, prompt, video: Footage { creation, url, stored, vendor_id } } }
            = { ExtendV2 { model, resolution, seconds, prompt, creation, url, clip: stored, at_vendor: vendor_id } },
    }
}

stored_struct! {
    MultiframeJob => MultiframeV2<'a> { model, resolution, start_image, key_frames }
}

stored_struct! {
    KeyFrame => KeyFrameV2<'a> { image, seconds, prompt }
}

stored_struct! {
    AttachedDocument => DocumentV2 { digest, bytes }
}

stored_struct! {
    Clip => ClipV2<'a> { digest, format, bytes }
}

stored_struct! {
    Creation => CreationV2<'a> { video, cover, watermarked, vendor_id = at_vendor }
}

stored_struct! {
    MusicFile => MusicFileV2<'a> { digest, format, bytes }
}

// The stored variant depends on the subject of the delivery, and on whether a task has an owner.
stored_enum! {
    DeliveryEvent => DeliveryEventV1<'a> {
        EventRedeliveryRequested { delivery, webhook },
    } and {
        (delivery task attempt outcome next_at)
            {
                Self::AttemptFailed {
                    delivery,
                    subject: DeliverySubject::Task(task),
                    attempt,
                    outcome,
                    next_at,
                }
            }
            = { DeliveryEventV1::AttemptFailed { delivery, task, attempt, outcome, next_at_micros: next_at } },
        (delivery webhook attempt outcome next_at)
            {
                Self::AttemptFailed {
                    delivery,
                    subject: DeliverySubject::Webhook(webhook),
                    attempt,
                    outcome,
                    next_at,
                }
            }
            = {
                DeliveryEventV1::EventAttemptFailed {
                    delivery,
                    webhook,
                    attempt,
                    outcome,
                    next_at_micros: next_at,
                }
            },
        (delivery task attempt status)
            { Self::DeliverySucceeded { delivery, subject: DeliverySubject::Task(task), attempt, status } }
            = { DeliveryEventV1::DeliverySucceeded { delivery, task, attempt, status } },
        (delivery webhook attempt status)
            { Self::DeliverySucceeded { delivery, subject: DeliverySubject::Webhook(webhook), attempt, status } }
            = { DeliveryEventV1::EventDeliverySucceeded { delivery, webhook, attempt, status } },
        (delivery task attempt outcome)
            { Self::DeliveryDeadLettered { delivery, subject: DeliverySubject::Task(task), attempt, outcome } }
            = { DeliveryEventV1::DeliveryDeadLettered { delivery, task, attempt, outcome } },
        (delivery webhook attempt outcome)
            { Self::DeliveryDeadLettered { delivery, subject: DeliverySubject::Webhook(webhook), attempt, outcome } }
            = { DeliveryEventV1::EventDeliveryDeadLettered { delivery, webhook, attempt, outcome } },
        (delivery task owner url task_version)
            { Self::RedeliveryRequested(Redelivery { delivery, task, owner: Some(owner), url, task_version }) }
            = { DeliveryEventV1::RedeliveryRequested { delivery, task, owner, url, change: task_version } },
        (delivery task url task_version)
            { Self::RedeliveryRequested(Redelivery { delivery, task, owner: None, url, task_version }) }
            = { DeliveryEventV1::AnonymousRedeliveryRequested { delivery, task, url, change: task_version } },
    }
}

stored_enum! {
    AttemptOutcome => AttemptOutcomeV1<'a> {
        Answered { status, retry_after = retry_after_micros },
        Unreachable { reason },
    }
}
