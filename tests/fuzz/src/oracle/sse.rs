//! An event stream as its reader sees it: WHATWG HTML, section 9.2.6, "Interpreting an event stream".

/// What is dispatched to the reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The last event id at that moment.
    pub id: String,
    /// The type; `message` where none was given.
    pub kind: String,
    /// The data, its lines joined by LF.
    pub data: String,
}

/// Everything that a reader is told by this text.
pub fn read(text: &str) -> Vec<Message> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (mut last_id, mut kind, mut data) = (String::new(), String::new(), String::new());
    let mut told = Vec::new();
    for line in text.replace("\r\n", "\n").split(['\r', '\n']) {
        if line.is_empty() {
            if !data.is_empty() {
                data.pop();
                let kind = if kind.is_empty() { "message".to_owned() } else { kind.clone() };
                told.push(Message { id: last_id.clone(), kind, data: data.clone() });
            }
            data.clear();
            kind.clear();
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => kind = value.to_owned(),
            "data" => {
                data.push_str(value);
                data.push('\n');
            }
            "id" if !value.contains('\0') => last_id = value.to_owned(),
            _ => {}
        }
    }
    told
}
