// Presentation of the jobs by operation id: the text of the card (`about`), the fields shown first, sample pictures and
// example prompts. A job without an entry works too: its required fields come first.

const PORTRAIT = 'portrait.webp';
const LANDSCAPE = 'landscape.webp';
const FRAMES = { first: ['images', 'prompt', 'duration'], samples: { images: [LANDSCAPE] } };

const INFO = {
  upscaleImage: {
    about: 'Up to 16 times larger, with invented detail.', first: ['image', 'scale_factor', 'prompt'], samples: { image: [LANDSCAPE] },
    prompts: ['sharp, detailed, vivid', 'soft film grain, warm', 'clean, no noise'],
  },
  upscaleImagePrecisely: { about: 'Larger and true to the original.', first: ['image', 'scale_factor', 'flavor'], samples: { image: [PORTRAIT] } },
  transferStyle: {
    about: 'Draw a picture in the style of another one.', first: ['image', 'reference_image', 'prompt'], samples: { image: [PORTRAIT], reference_image: [LANDSCAPE] },
    prompts: ['a watercolour painting', 'pixel art, vivid', 'charcoal sketch'],
  },
  enhanceSkinCreatively: { about: 'Smooth, even skin with a fresh look.', first: ['image', 'sharpen', 'smart_grain'], samples: { image: [PORTRAIT] } },
  enhanceSkinFaithfully: { about: 'Better skin that stays natural.', first: ['image', 'skin_detail', 'sharpen'], samples: { image: [PORTRAIT] } },
  enhanceSkinFlexibly: { about: 'Skin, light or make-up: you choose.', first: ['image', 'optimized_for', 'sharpen'], samples: { image: [PORTRAIT] } },
  relightImage: {
    about: 'New light from words or a second picture.', first: ['image', 'prompt', 'style'], samples: { image: [PORTRAIT], transfer_light_from_reference_image: [LANDSCAPE] },
    prompts: ['warm sun from the left', 'cold moonlight from above', 'golden sunset from behind'],
  },
  startEndToVideo: {
    about: 'A camera move through a picture, or a scene from words.', ...FRAMES,
    prompts: ['slow pan left over the sea at sunset', 'drone over mountains, snow', 'city at night in the rain, zoom in'],
  },
  referenceToVideo: {
    about: 'The subject of your picture in a new scene.', ...FRAMES, samples: { images: [PORTRAIT] },
    prompts: ['in a forest with fireflies, slow orbit', 'in space, push in', 'by the sea at dusk'],
  },
  extendVideo: {
    about: 'Continue one of your videos.', first: ['video_creation_id', 'video_url', 'model', 'prompt', 'duration'],
    prompts: ['pan right', 'slow zoom out', 'rise, then snow'],
  },
  multiframeToVideo: { about: 'From key frame to key frame.', first: ['image_settings', 'start_image', 'resolution'], samples: { key_image: [LANDSCAPE, PORTRAIT] } },
  generateMusic: {
    about: 'A piece of music from a description.', first: ['prompt', 'duration'],
    prompts: ['lofi piano on a rainy day, 70 bpm', 'epic orchestral, builds up', 'happy jazz with double bass, 20 seconds'],
  },
};

export const infoOf = (job) => INFO[job.operationId] ?? {};

// Groups of the fields that are not shown first.
const GROUPS = [
  ['Look', ['style', 'flavor', 'engine', 'optimized_for', 'creativity', 'fractality', 'hdr', 'resemblance', 'sharpen', 'smart_grain', 'ultra_detail', 'skin_detail', 'enhance',
    'style_strength', 'structure_strength', 'is_portrait', 'portrait_style', 'portrait_beautifier']],
  ['Light', ['transfer_light_from_reference_image', 'transfer_light_from_lightmap', 'light_transfer_strength', 'interpolate_from_original', 'change_background', 'preserve_details', 'advanced_settings']],
  ['Video', ['model', 'images', 'resolution', 'aspect_ratio', 'movement_amplitude', 'is_rec', 'seed', 'fixed_generation']],
  ['Sound', ['audio', 'audio_type', 'voice_id', 'bgm']],
  ['Watermark', ['watermark', 'wm_position', 'wm_url']],
  ['Delivery', ['off_peak', 'priority', 'webhook_url', 'callback_url', 'payload', 'meta_data']],
];
const OTHER = 'More';

// Splits the fields of a job into `main`, which are shown first, and named groups of the others.
export function arrange(job, fields) {
  const { first = [] } = infoOf(job);
  const indexOfName = (name) => first.indexOf(name);
  const isFirst = ({ name, required }) => required || indexOfName(name) >= 0;
  const rank = ({ name }) => (indexOfName(name) < 0 ? first.length : indexOfName(name));
  const main = fields.filter(isFirst).sort((left, right) => rank(left) - rank(right));
  const groupOf = ({ name }) => GROUPS.find(([, names]) => names.includes(name))?.[0] ?? OTHER;
  const byGroup = Map.groupBy(fields.filter((field) => !isFirst(field)), groupOf);
  const names = [...GROUPS.map(([name]) => name), OTHER];
  return { main, groups: names.filter((name) => byGroup.has(name)).map((name) => [name, byGroup.get(name)]) };
}
