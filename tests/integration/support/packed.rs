//! Items and answers of packed commands.

use crate::client::Reply;

/// How items are packed into an argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    Lines,
    Width(usize),
    Prefixed,
}

impl Form {
    /// One form of each kind.
    pub const ALL: [Self; 3] = [Self::Lines, Self::Width(5), Self::Prefixed];

    /// The words of a command for it.
    pub fn words(self) -> String {
        match self {
            Self::Lines => "LINES".to_owned(),
            Self::Width(width) => format!("WIDTH {width}"),
            Self::Prefixed => "PREFIXED".to_owned(),
        }
    }

    /// The items in one argument.
    pub fn pack<A: AsRef<[u8]>>(self, items: &[A]) -> Vec<u8> {
        let mut data = Vec::new();
        for item in items.iter().map(AsRef::as_ref) {
            match self {
                Self::Lines => data.extend([item, b"\n"].concat()),
                Self::Width(width) => {
                    assert_eq!(item.len(), width, "{item:?}");
                    data.extend(item);
                }
                Self::Prefixed => {
                    data.extend(u32::try_from(item.len()).unwrap().to_le_bytes());
                    data.extend(item);
                }
            }
        }
        data
    }

    /// An item made from `bytes` that this form can hold.
    pub fn fit(self, item: &[u8]) -> Vec<u8> {
        let mut item = item.to_vec();
        match self {
            Self::Lines => item
                .iter_mut()
                .filter(|byte| b"\r\n".contains(byte))
                .for_each(|byte| *byte = b'x'),
            Self::Width(width) => item.resize(width, b' '),
            Self::Prefixed => {}
        }
        item
    }
}

/// The bitmap of some answers, by the rule of SETBIT.
pub fn bitmap(answers: impl IntoIterator<Item = bool>) -> Reply {
    let mut bytes = Vec::new();
    for (at, answer) in answers.into_iter().enumerate() {
        if at % 8 == 0 {
            bytes.push(0);
        }
        bytes[at / 8] |= u8::from(answer) << (7 - at % 8);
    }
    Reply::Bulk(bytes)
}

/// The answers to `items` items in their bitmap.
pub fn bits(reply: &Reply, items: usize) -> Vec<bool> {
    let bytes = reply.bytes();
    let answers = (0..items).map(|at| bytes[at / 8] & (0x80 >> (at % 8)) != 0);
    let answers: Vec<_> = answers.collect();
    assert!(
        bitmap(answers.iter().copied()) == *reply,
        "more than {items} answers"
    );
    answers
}

/// The number of items before an error, from its text.
pub fn taken(reply: &Reply, why: &str) -> usize {
    let Reply::Error(text) = reply else {
        panic!("no error: {reply:?}")
    };
    let items = text
        .strip_prefix(why)
        .and_then(|rest| rest.strip_prefix(" after ")?.strip_suffix(" items"));
    items
        .unwrap_or_else(|| panic!("another error: {text}"))
        .parse()
        .unwrap()
}
