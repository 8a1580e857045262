// Writes a request as a program. Files are read by name, and the token comes from the environment.
import { FilePlaceholder, curl } from './curl.js';

// Serializes a JSON value as an expression of a language: `text` quotes a string, `words` has the literals that differ from
// JSON, and `file` returns the expression for the content of a file.
function literal(value, { text, words, file }, margin = '') {
  if (value instanceof FilePlaceholder) return file(value.name);
  if (typeof value === 'string') return text(value);
  if (value === null || typeof value !== 'object') return words[String(value)] ?? String(value);
  const inner = `${margin}  `;
  const [first, last] = Array.isArray(value) ? '[]' : '{}';
  const parts = Array.isArray(value) ? value.map((entry) => literal(entry, { text, words, file }, inner))
    : Object.entries(value).map(([name, entry]) => `${text(name)}: ${literal(entry, { text, words, file }, inner)}`);
  return parts.length ? `${first}\n${inner}${parts.join(`,\n${inner}`)}\n${margin}${last}` : first + last;
}

const hasFile = (value) => value instanceof FilePlaceholder
  || (typeof value === 'object' && value !== null && Object.values(value).some(hasFile));

const PYTHON = { text: JSON.stringify, words: { true: 'True', false: 'False', null: 'None' }, file: (name) => `picture(${JSON.stringify(name)})` };

function python(address, { method = 'POST', token = true, json, form, file }) {
  const body = form ?? file ?? json;
  const import_ = (modules) => `import ${modules.filter(Boolean).join(', ')}\n`;
  const headers = (type) => {
    const pairs = [token && '"Authorization": "Bearer " + os.environ["TOKEN"]', type && `"Content-Type": ${type}`].filter(Boolean);
    return pairs.length > 0 && `${body === undefined ? 'headers=' : ''}{${pairs.join(', ')}}`;
  };
  // urllib derives the methods GET and POST from the presence of a body.
  const name = method === (body === undefined ? 'GET' : 'POST') ? null : `method="${method}"`;
  const send = (data, type) => `request = urllib.request.Request(${[JSON.stringify(address), data, headers(type), name].filter(Boolean).join(', ')})
with urllib.request.urlopen(request) as response:\n    for line in response:\n        print(line.decode())\n`;
  if (form) {
    return `${import_([token && 'os', 'urllib.request', 'uuid'])}
form = ${literal(form, PYTHON)}
boundary = uuid.uuid4().hex
part = '--{}\\r\\nContent-Disposition: form-data; name="{}"\\r\\n\\r\\n{}\\r\\n'
body = "".join(part.format(boundary, name, value) for name, value in form.items()) + f"--{boundary}--\\r\\n"
${send('body.encode()', '"multipart/form-data; boundary=" + boundary')}`;
  }
  if (file) return `${import_([token && 'os', 'urllib.request'])}\nwith open(${JSON.stringify(file.name)}, "rb") as file:\n    body = file.read()\n${send('body', JSON.stringify(file.type))}`;
  if (json === undefined) return `${import_([token && 'os', 'urllib.request'])}\n${send()}`;
  const picture = hasFile(json) ? `\ndef picture(name):\n    with open(name, "rb") as file:\n        return base64.b64encode(file.read()).decode()\n` : '';
  return `${import_([picture && 'base64', 'json', token && 'os', 'urllib.request'])}${picture}
body = ${literal(json, PYTHON)}
${send('json.dumps(body).encode()', '"application/json"')}`;
}

const SCRIPT = { text: JSON.stringify, words: {}, file: (name) => `await picture(${JSON.stringify(name)})` };

function javascript(address, { method = 'POST', token = true, json, form, file }) {
  const authorization = token && 'Authorization: `Bearer ${process.env.TOKEN}`';
  const send = (type, body) => {
    const headers = [authorization, type && `"Content-Type": ${JSON.stringify(type)}`].filter(Boolean).join(', ');
    const options = [method !== 'GET' && `method: "${method}"`, headers && `headers: { ${headers} }`, body && `body: ${body}`].filter(Boolean);
    return `const response = await fetch(${JSON.stringify(address)}${options.length ? `, {\n${options.map((option) => `  ${option},\n`).join('')}}` : ''});
console.log(await response.text());
`;
  };
  if (form) {
    return `const form = new FormData();
for (const [name, value] of Object.entries(${literal(form, SCRIPT)})) form.append(name, value);
${send(null, 'form')}`;
  }
  if (file) return `import { readFile } from "node:fs/promises";\n\n${send(file.type, `await readFile(${JSON.stringify(file.name)})`)}`;
  if (json === undefined) return send();
  const picture = hasFile(json) ? 'import { readFile } from "node:fs/promises";\n\nconst picture = async (name) => (await readFile(name)).toString("base64");\n' : '';
  return `${picture}const body = ${literal(json, SCRIPT)};
${send('application/json', 'JSON.stringify(body)')}`;
}

const RUST_ESCAPES = { '\\': '\\\\', '"': '\\"', '\n': '\\n', '\r': '\\r', '\t': '\\t' };
const rustText = (text) => `"${text.toWellFormed().replaceAll(/[\\"\p{Cc}]/gu, (letter) => RUST_ESCAPES[letter] ?? `\\u{${letter.codePointAt(0).toString(16)}}`)}"`;
const RUST = { text: rustText, words: {}, file: (name) => `picture(${rustText(name)})` };

function rust(address, { method = 'POST', token = true, json, form, file }) {
  const usesFiles = json !== undefined && hasFile(json);
  const features = ['blocking', form && 'multipart', json !== undefined && 'json'].filter(Boolean).map((name) => `"${name}"`).join(', ');
  const crates = [usesFiles && 'base64 = "0.22"', `reqwest = { version = "0.12", features = [${features}] }`, json !== undefined && 'serde_json = "1"'];
  const picture = usesFiles ? `use base64::{Engine as _, engine::general_purpose::STANDARD};

fn picture(name: &str) -> String {
    STANDARD.encode(std::fs::read(name).expect("the picture can be read"))
}

` : '';
  const parts = () => Object.entries(form).map(([name, value]) => `.text(${rustText(name)}, ${rustText(String(value))})`).join('\n        ');
  const body = form ? `let form = reqwest::blocking::multipart::Form::new()\n        ${parts()};\n    `
    : json === undefined ? '' : `let body = serde_json::json!(${literal(json, RUST, '    ')});\n    `;
  const calls = [
    `.${method.toLowerCase()}(${rustText(address)})`,
    token && '.bearer_auth(std::env::var("TOKEN")?)',
    form ? '.multipart(form)' : file ? `.header("Content-Type", ${rustText(file.type)})\n        .body(std::fs::read(${rustText(file.name)})?)` : json !== undefined && '.json(&body)',
    '.send()?;',
  ];
  return `// Cargo.toml:
${crates.filter(Boolean).map((line) => `//   ${line}`).join('\n')}
${picture}fn main() -> Result<(), Box<dyn std::error::Error>> {
    ${body}let client = reqwest::blocking::Client::builder().timeout(None).build()?;
    let response = client
        ${calls.filter(Boolean).join('\n        ')}
    println!("{}", response.text()?);
    Ok(())
}
`;
}

// Languages by name. Each function returns the program that sends a request to an address: the method, `true` if it
// needs a token, and the body as `json`, `form` or `file`, if it has one.
export const LANGUAGES = { curl, Python: python, JavaScript: javascript, Rust: rust };
