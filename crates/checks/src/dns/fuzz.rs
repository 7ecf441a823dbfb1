//! What must hold for DNS messages and questions, whatever they are.

use super::wire::{NotOurs, Question, reply};

/// Questions whose answers are among the seeds.
const QUESTIONS: [&str; 5] = [
    "example.org",
    "example.org?type=AAAA",
    "example.org?type=TXT",
    "example.org?type=MX",
    ".?type=NS",
];

/// An answer to each of a few questions; the bytes as a question; our own question answered.
pub fn dns(bytes: &[u8]) {
    let id = bytes.first_chunk().copied().map(u16::from_be_bytes);
    let id = id.unwrap_or_default();
    let questions = QUESTIONS
        .iter()
        .filter_map(|text| Question::parse(text).ok());
    for question in questions {
        answered(bytes, id, &question);
        echoed(bytes, id, &question);
    }
    if let Ok(question) = Question::parse(&String::from_utf8_lossy(bytes)) {
        let again = Question::parse(&question.to_string());
        assert_eq!(again.as_ref(), Ok(&question));
        assert!(question.query(id).len() <= 12 + 255 + 4, "{question}");
    }
}

fn answered(bytes: &[u8], id: u16, question: &Question) {
    let Ok(read) = reply(bytes, id, question) else {
        return;
    };
    let is_answer = bytes.get(2).is_some_and(|flags| flags & 0x80 != 0);
    assert!(is_answer && bytes.len() >= 12, "{read:?}");
    assert!(
        read.shown.len() <= 4.min(usize::from(read.answers)),
        "{read:?}"
    );
    for text in &read.shown {
        assert!(text.len() <= 64, "{text}");
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
    let other = reply(bytes, id ^ 1, question);
    assert_eq!(other, Err(NotOurs::OtherId));
}

/// A server that only turns our query round has answered, with nothing.
fn echoed(bytes: &[u8], id: u16, question: &Question) {
    let mut message = question.query(id);
    assert!(
        reply(&message, id, question).is_err(),
        "a query is no answer"
    );
    message[2] |= 0x80;
    let read = reply(&message, id, question);
    assert!(read.is_ok_and(|read| read.answers == 0 && read.rcode == 0));
    // Whatever stands behind it is not looked at.
    message.extend(bytes);
    assert!(reply(&message, id, question).is_ok_and(|read| read.shown.is_empty()));
}

#[cfg(test)]
mod tests {
    use super::{QUESTIONS, Question, reply};

    #[test]
    fn what_servers_say_arrives() {
        let seeds = [
            &include_bytes!("../../../../fuzz/seeds/dns/a")[..],
            include_bytes!("../../../../fuzz/seeds/dns/aaaa"),
            include_bytes!("../../../../fuzz/seeds/dns/txt"),
            include_bytes!("../../../../fuzz/seeds/dns/mx"),
            include_bytes!("../../../../fuzz/seeds/dns/root-ns"),
        ];
        for (seed, question) in seeds.into_iter().zip(QUESTIONS) {
            let question = Question::parse(question).unwrap();
            let read = reply(seed, 0x1234, &question).unwrap();
            assert!(!read.shown.is_empty(), "{question}");
        }
    }
}
