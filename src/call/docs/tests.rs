use super::*;
use crate::call::Command;
use crate::call::args::{Cursor, Word};
use crate::call::error::CommandError;
use crate::call::given::{Given, Verb};
use crate::commands::addpacked::AddPacked;
use crate::commands::insert::Insert;
use crate::commands::plan::Plan;
use crate::commands::reserve::Reserve;

const VERBS: [(Verb, Docs); 4] = [
    (Verb::Reserve, Reserve::DOCS),
    (Verb::Plan, Plan::DOCS),
    (Verb::Insert, Insert::DOCS),
    (Verb::AddPacked, AddPacked::DOCS),
];

/// The words with which a parameter may begin, each with the kind of the value after it.
fn tokens(parameter: &Parameter) -> Vec<(&'static str, Kind)> {
    match (parameter.token, parameter.kind) {
        (Some(token), kind) => vec![(token.to_str().unwrap(), kind)],
        (None, Kind::OneOf(choices)) => choices.iter().flat_map(tokens).collect(),
        (None, _) => Vec::new(),
    }
}

/// The words of a command's options.
fn options(docs: &Docs) -> Vec<&'static str> {
    let options = docs.parameters().filter(|parameter| parameter.optional);
    options.flat_map(tokens).map(|(token, _)| token).collect()
}

/// What a user sees in `COMMAND DOCS` is what the command takes.
#[test]
fn a_command_reads_the_words_that_it_documents_and_no_others() {
    let all: Vec<_> = VERBS.iter().flat_map(|(_, docs)| options(docs)).collect();
    for (verb, docs) in &VERBS {
        for word in &all {
            let line = match verb {
                Verb::Reserve | Verb::Plan => vec!["0.01", "100", *word],
                Verb::Insert | Verb::AddPacked => vec![*word],
            };
            let arguments: Vec<_> = line.iter().map(|word| Word(word.as_bytes())).collect();
            let parsed = Given::parse(*verb, &mut Cursor::new(&arguments));
            let is_unknown = matches!(parsed, Err(CommandError::Unknown(_)));
            assert_ne!(is_unknown, options(docs).contains(word), "{verb:?} {word}");
        }
    }
}

/// The pages of the commands, which show their options.
const PAGES: [(Docs, &str, &str); 2] = [
    (
        Reserve::DOCS,
        "BF.RESERVE",
        include_str!("../../../docs/commands/bf.reserve.md"),
    ),
    (
        Insert::DOCS,
        "BF.INSERT",
        include_str!("../../../docs/commands/bf.insert.md"),
    ),
];

/// The options of a command as its page shows them, with `_` for values.
fn usage(docs: &Docs) -> String {
    let mut usage = String::new();
    for parameter in docs.parameters() {
        let shown = |(token, kind): (&str, Kind)| match kind {
            Kind::Word => token.to_owned(),
            Kind::OneOf(choices) => {
                let choices: Vec<_> = choices
                    .iter()
                    .flat_map(tokens)
                    .map(|(choice, _)| choice)
                    .collect();
                format!("{token} {}", choices.join(" | "))
            }
            _ => format!("{token} _"),
        };
        let words: Vec<_> = tokens(parameter).into_iter().map(shown).collect();
        let more = if parameter.multiple { " [_ ...]" } else { "" };
        let words = format!(" [{}{more}]", words.join(" | "));
        // SLICES and REFRESH stand inside of the brackets of WINDOW.
        match (parameter.name.to_str().unwrap(), usage.strip_suffix(']')) {
            ("slices" | "refresh", Some(window)) => usage = format!("{window}{words}]"),
            _ if parameter.optional => usage += &words,
            _ => usage += " _",
        }
    }
    usage
}

/// A reader of the page misses no option, and is refused none that it shows.
#[test]
fn pages_show_the_options_of_their_commands() {
    for (docs, name, page) in PAGES {
        let shown = page.split("```").nth(1).unwrap().strip_prefix("text\n").unwrap();
        let (shown, _facts) = shown.split_once("\n\n").unwrap();
        let shown = shown.replace('[', "[ ").replace(']', " ]");
        let is_value = |word: &str| word.starts_with(|letter: char| letter.is_ascii_lowercase());
        let words = shown
            .split_whitespace()
            .map(|word| if is_value(word) { "_" } else { word });
        let shown = words.collect::<Vec<_>>().join(" ");
        let shown = shown.replace("[ ", "[").replace(" ]", "]");
        assert_eq!(shown, format!("{name}{}", usage(&docs)));
    }
    let page = include_str!("../../../docs/commands/options.md");
    for word in options(&Plan::DOCS) {
        assert!(page.contains(&format!("`{word}")), "{word}");
    }
}

/// A user of an earlier version sees which options it lacks.
#[test]
fn pages_tell_the_version_that_had_a_word_first() {
    for (docs, _, page) in PAGES {
        let own = docs.parameters();
        let own = own.filter(|parameter| parameter.since.is_some() || parameter.name == c"expiration");
        let words: Vec<_> = own.flat_map(tokens).map(|(token, _)| token).collect();
        let (last, words) = words.split_last().unwrap();
        let since = format!("; {} and {last} 0.3.0 of this module ```", words.join(", "));
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(page.contains(&since), "{since}");
    }
}
