// Music comes as lines of JSON while it is made: sound is gathered from them, and can be heard before the last has come.

const TYPES = [['mp3', 'audio/mpeg'], ['mpeg', 'audio/mpeg'], ['ogg', 'audio/ogg'], ['opus', 'audio/ogg'], ['flac', 'audio/flac'], ['webm', 'audio/webm'], ['aac', 'audio/aac'], ['mp4', 'audio/mp4']];

// The media type of an encoding, however it is written: `opus`, `ogg/opus`, `audio/ogg; codecs=opus`.
export function typeOf(encoding = '') {
  const told = encoding.toLowerCase();
  return TYPES.find(([name]) => told.includes(name))?.[1] ?? 'audio/wav';
}

export async function listen(answer, onChange) {
  const heard = { titles: [], tags: [], parts: [], bytes: 0, seconds: undefined, type: undefined, task: undefined, error: undefined };
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value = '' } = await reader.read();
    const lines = (rest + value).split('\n');
    rest = done ? '' : lines.pop();
    lines.filter((line) => line.trim()).forEach((line) => take(JSON.parse(line), heard));
    onChange({ ...heard });
    if (done) return heard;
  }
}

function take(event, heard) {
  switch (event.type) {
    case 'duration': heard.seconds = event.duration_sec; break;
    case 'title': heard.titles.push(event.title); heard.tags = event.display_tags ?? []; break;
    case 'audio_chunk': {
      if (event.stream_index > 0) break;
      heard.type ??= typeOf(event.encoding);
      const bytes = Uint8Array.from(atob(event.data), (letter) => letter.codePointAt(0));
      heard.parts.push(bytes);
      heard.bytes += bytes.length;
      break;
    }
    case 'generated_audio': heard.seconds ??= event.duration_sec_by_stream?.[0]; break;
    case 'complete': heard.task = event.task_id; break;
    case 'error': heard.error = { code: event.code, message: event.message }; break;
  }
}
