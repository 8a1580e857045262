// Writes a request as a curl command for a POSIX shell, with the token as $TOKEN and files by name.

const shellQuote = (text) => `'${String(text).replaceAll("'", "'\\''")}'`;
// Escapes the characters that the shell expands in an unquoted here-document.
const escapeHeredoc = (text) => text.replaceAll(/[\\$`]/g, (letter) => `\\${letter}`);

// Stands for a file in a JSON body, where programs insert its content as base64.
export class FilePlaceholder {
  constructor(name) { this.name = name; }
}

// Collects the files of a request. `of(picture)` returns the value for the body: its URL, or a placeholder for its file;
// `all` maps unique names to files.
export function collectFiles() {
  const all = new Map();
  const of = (picture) => {
    if (picture.url !== undefined) return picture.url;
    const [, stem, ending] = /^(.*?)(\.[^.]*)?$/.exec(picture.name.replaceAll(/[\p{Cc}/]/gu, '_'));
    const candidates = [...Array(all.size + 1).keys()].map((index) => `${stem}${index ? `-${index + 1}` : ''}${ending ?? ''}`);
    const name = candidates.find((name) => [undefined, picture].includes(all.get(name)));
    all.set(name, picture);
    return new FilePlaceholder(name);
  };
  return { all, of };
}

// Serializes JSON with shell substitutions for files. Does not search the finished text for placeholders, because user input
// could look like one.
function toShellJson(value, margin = '\n') {
  if (value instanceof FilePlaceholder) return `"$(base64 < ${shellQuote(value.name)} | tr -d '\\n')"`;
  if (value === null || typeof value !== 'object') return escapeHeredoc(JSON.stringify(value));
  const inner = `${margin}  `;
  const [first, last] = Array.isArray(value) ? '[]' : '{}';
  const parts = Array.isArray(value) ? value.map((entry) => toShellJson(entry, inner))
    : Object.entries(value).map(([name, entry]) => `${escapeHeredoc(JSON.stringify(name))}: ${toShellJson(entry, inner)}`);
  return parts.length ? `${first}${inner}${parts.join(`,${inner}`)}${margin}${last}` : first + last;
}

export function curl(address, { method = 'POST', token = true, json, form, file }) {
  const head = [`curl -sN${method === 'GET' ? '' : ` -X ${method}`} ${shellQuote(address)}`, token && '-H "Authorization: Bearer $TOKEN"'];
  const command = (...parts) => [...head, ...parts].filter(Boolean).join(' \\\n  ');
  // Not `-F`, which would read a value that begins with @ as a file name.
  if (form) return command(...Object.entries(form).map(([name, value]) => `--form-string ${shellQuote(`${name}=${value}`)}`));
  if (file) return command(`-H ${shellQuote(`Content-Type: ${file.type}`)} --data-binary @${shellQuote(file.name)}`);
  if (json === undefined) return command();
  return command(`-H 'Content-Type: application/json' --data-binary @- <<BODY\n${toShellJson(json)}\nBODY`);
}
