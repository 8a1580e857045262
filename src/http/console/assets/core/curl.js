// The request of a form as a line for a POSIX shell, with the token as $TOKEN and files by their names.

const quoted = (text) => `'${String(text).replaceAll("'", "'\\''")}'`;
// Inside a here-document without quotes: what the shell would read, it must not.
const literal = (text) => text.replaceAll(/[\\$`]/g, (letter) => `\\${letter}`);

// A file where the JSON has its base64.
class Contents {
  constructor(name) { this.name = name; }
}

// The files that a request reads. `of(picture)` stands for one in its body; `all` are those that there are, by names of their own.
export function files() {
  const all = new Map();
  const of = (picture) => {
    if (picture.url !== undefined) return picture.url;
    const [, stem, ending] = /^(.*?)(\.[^.]*)?$/.exec(picture.name.replaceAll(/[\p{Cc}/]/gu, '_'));
    const names = [...Array(all.size + 1).keys()].map((at) => `${stem}${at ? `-${at + 1}` : ''}${ending ?? ''}`);
    const name = names.find((name) => [undefined, picture].includes(all.get(name)));
    all.set(name, picture);
    return new Contents(name);
  };
  return { all, of };
}

// JSON in which the shell puts files. It is written here piece by piece: marks in a text that is ready might be anybody's words.
function written(value, margin = '\n') {
  if (value instanceof Contents) return `"$(base64 < ${quoted(value.name)} | tr -d '\\n')"`;
  if (value === null || typeof value !== 'object') return literal(JSON.stringify(value));
  const inner = `${margin}  `;
  const [first, last] = Array.isArray(value) ? '[]' : '{}';
  const parts = Array.isArray(value) ? value.map((entry) => written(entry, inner))
    : Object.entries(value).map(([name, entry]) => `${literal(JSON.stringify(name))}: ${written(entry, inner)}`);
  return parts.length ? `${first}${inner}${parts.join(`,${inner}`)}${margin}${last}` : first + last;
}

export function curl(address, { json, form }) {
  const head = `curl -sN -X POST ${quoted(address)} \\\n  -H "Authorization: Bearer $TOKEN" \\\n`;
  // Not `-F`, which takes a value that begins with @ for the name of a file.
  if (form) return head + Object.entries(form).map(([name, value]) => `  --form-string ${quoted(`${name}=${value}`)}`).join(' \\\n');
  return `${head}  -H 'Content-Type: application/json' --data-binary @- <<BODY\n${written(json)}\nBODY`;
}
