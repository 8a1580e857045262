// The request of a form as a line for a POSIX shell, with the token as $TOKEN and files by their names.

const quoted = (text) => `'${String(text).replaceAll("'", "'\\''")}'`;
// Inside a here-document without quotes: what the shell would read, it must not.
const literal = (text) => text.replaceAll(/[\\$`]/g, (letter) => `\\${letter}`);

// A file where the JSON has its base64, found again after it is written.
const mark = (name) => `\u0001${name}\u0001`;
export const fileOf = (picture) => picture.url ?? mark(picture.name);

export function curl(address, { json, form }) {
  const head = `curl -sN -X POST ${quoted(address)} \\\n  -H "Authorization: Bearer $TOKEN" \\\n`;
  // Not `-F`, which takes a value that begins with @ for the name of a file.
  if (form) return head + Object.entries(form).map(([name, value]) => `  --form-string ${quoted(`${name}=${value}`)}`).join(' \\\n');
  const text = literal(JSON.stringify(json, null, 2));
  const body = text.replaceAll(/\\\\u0001(.*?)\\\\u0001/g, (_, name) => `$(base64 -w0 ${quoted(name)})`);
  return `${head}  -H 'Content-Type: application/json' --data-binary @- <<BODY\n${body}\nBODY`;
}
