// Reads the JSON lines of a music stream and collects the audio, which can be played before the stream ends.

// Media types by a part of the name of an encoding.
const TYPES = [['mp3', 'audio/mpeg'], ['mpeg', 'audio/mpeg'], ['ogg', 'audio/ogg'], ['opus', 'audio/ogg'], ['flac', 'audio/flac'], ['webm', 'audio/webm'], ['aac', 'audio/aac'], ['mp4', 'audio/mp4']];
const INTERRUPTED = { code: 'broken_off', message: 'The music ended early and is incomplete.' };

// Returns the media type of an encoding such as `opus`, `ogg/opus` or `audio/ogg; codecs=opus`.
export function typeOf(encoding = '') {
  const lowered = encoding.toLowerCase();
  return TYPES.find(([name]) => lowered.includes(name))?.[1] ?? 'audio/wav';
}

// Reads a stream to its end, and calls `onChange` with the music so far. A stream without a `complete` line ends with
// an `error`. Throws only if aborted.
export async function readMusic(response, onChange, signal) {
  const music = {
    task: response.headers.get('X-Task-Id'), titles: [], tags: [], parts: [], bytes: 0, secondsLoaded: 0, seconds: undefined, type: undefined, isComplete: false, error: undefined,
  };
  onChange({ ...music });
  try {
    for await (const line of lines(response.body)) {
      applyLine(JSON.parse(line), music);
      onChange({ ...music });
      if (music.error) return music;
    }
  } catch (failure) {
    // The connection broke, or a line is invalid.
    if (signal.aborted) throw failure;
  }
  if (!music.isComplete) music.error = INTERRUPTED;
  return music;
}

async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (let incompleteLine = ''; ;) {
      const { done, value = '' } = await reader.read();
      const received = (incompleteLine + value).split('\n');
      incompleteLine = done ? '' : received.pop();
      yield* received.filter((line) => line.trim());
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function applyLine(event, music) {
  switch (event.type) {
    case 'duration': music.seconds = event.duration_sec; break;
    case 'title': music.titles.push(event.title); music.tags = event.display_tags ?? []; break;
    case 'audio_chunk': {
      if (event.stream_index > 0) break;
      music.type ??= typeOf(event.encoding);
      const bytes = Uint8Array.from(atob(event.data), (letter) => letter.codePointAt(0));
      music.parts.push(bytes);
      music.bytes += bytes.length;
      music.secondsLoaded = Math.max(music.secondsLoaded, secondsOf(bytes));
      break;
    }
    case 'generated_audio': music.seconds ??= event.duration_sec_by_stream?.[0]; break;
    case 'complete': music.isComplete = true; music.task ??= event.task_id; break;
    case 'error': music.error = { code: event.code ?? 'failed', message: event.message ?? '' }; break;
  }
}

// Start of an Ogg page ("OggS"), the length of its header, and the offset of the granule position in it (RFC 3533).
const OGG_PAGE = 0x4f676753;
const PAGE_HEADER = 27;
const GRANULE_POSITION = 6;
// Samples per second of granule positions in Opus streams (RFC 7845).
const OPUS_RATE = 48000;

// Returns the position in seconds at the end of Ogg/Opus pages, from the last page header; 0 for other data.
function secondsOf(bytes) {
  const view = new DataView(bytes.buffer);
  for (let offset = bytes.length - PAGE_HEADER; offset >= 0; offset -= 1) {
    if (view.getUint32(offset) !== OGG_PAGE) continue;
    const samples = Number(view.getBigInt64(offset + GRANULE_POSITION, true));
    return samples > 0 ? samples / OPUS_RATE : 0;
  }
  return 0;
}
