//! What a program prints when a call fails. Each message names the cause, since whoever reads it has only that.

use std::error::Error;
use std::time::Duration;

use libbloom::{Builder, Filter, Layout};

/// A filter for 100 items at 0.01 with `options`, that holds one.
fn of_one(options: impl Fn(Builder) -> Builder) -> Result<Filter, Box<dyn Error>> {
    let mut filter = options(Filter::builder(100, 0.01).seed(7)).build()?;
    filter.insert("ann")?;
    Ok(filter)
}

/// A file that cannot be read would have to be sent to us to learn why.
#[test]
fn a_file_that_is_refused_says_what_is_wrong_with_it() {
    let mut whole = Vec::new();
    of_one(|plain| plain).unwrap().write_to(&mut whole).unwrap();
    let middle = whole.len() / 2;
    for (at, byte, expected) in [
        (0, b'<', "this is not a filter's file"),
        (8, 2, "a later version wrote the file"),
        (16, 2, "the file is damaged in its piece 0 of 16 MiB"),
        (
            middle,
            !whole[middle],
            "the file is damaged in its piece 0 of 16 MiB",
        ),
    ] {
        let mut damaged = whole.clone();
        damaged[at] = byte;
        let refused = Filter::read_from(&damaged[..], u64::MAX).unwrap_err();
        assert_eq!(refused.to_string(), expected);
    }
    let cut = Filter::read_from(&whole[..whole.len() - 1], u64::MAX).unwrap_err();
    assert_eq!(cut.to_string(), "the file ends early");
    let large = Filter::read_from(&whole[..], 10).unwrap_err();
    assert!(large.to_string().ends_with(" bytes of memory"), "{large}");
    let header = Filter::of_chunks([(1, &b"cut off"[..])]).unwrap_err();
    assert_eq!(header.to_string(), "the header: the stream ends early");
    let missing = Filter::load("no such folder/seen.bloom").unwrap_err();
    assert!(
        missing.source().is_some() && missing.to_string().contains("No such file"),
        "{missing}"
    );
}

/// Whoever unites filters of several machines would not know which of their settings differ.
#[test]
fn filters_that_cannot_be_combined_say_why() {
    let plain = of_one(|plain| plain).unwrap();
    let layout = |layout| of_one(move |_| Filter::builder(100, 0.01).layout(layout)).unwrap();
    let never = "it has another module's layout or a window, and cannot be combined";
    for (other, why) in [
        (of_one(|plain| plain.seed(8)).unwrap(), "it has another seed"),
        (layout(Layout::Classic), never),
        (
            of_one(|plain| plain.window(Duration::from_secs(60))).unwrap(),
            never,
        ),
        (
            Filter::builder(1_000_000, 0.01).seed(7).build().unwrap(),
            "it has another capacity or error rate, or has grown",
        ),
    ] {
        let refused = plain.intersection_with(&other).unwrap_err().to_string();
        assert_eq!(refused, format!("filter 1 does not fit: {why}"));
    }
    let [mut first, second] = [1, 2].map(|_| layout(Layout::Valkey));
    let refused = first.union_with(&second).unwrap_err().to_string();
    assert_eq!(refused, format!("the filter cannot be merged into: {never}"));
}

/// One line of a program's log would tell the secret seed, and be as long as the filter: 656 kB for a million items.
#[test]
fn what_is_shown_of_a_filter_is_one_short_line_without_its_seed() {
    #[derive(Debug)]
    #[expect(dead_code, reason = "it is shown")]
    struct App {
        seen: Filter,
    }
    const SEED: u64 = 0x1234_5678_9abc;
    let options: [fn(Builder) -> Builder; 4] = [
        |plain| plain,
        |_| Filter::builder(10_000, 0.01).layout(Layout::Classic),
        |plain| plain.layout(Layout::Valkey),
        |plain| plain.window(Duration::from_secs(60)),
    ];
    for options in options {
        let builder = options(Filter::builder(10_000, 0.01).seed(SEED));
        let made = format!("{builder:?} {:?}", builder.build().unwrap().seed());
        let mut seen = builder.build().unwrap();
        seen.insert("ann").unwrap();
        let shown = format!("{:?}", App { seen });
        assert!(shown.len() < 100 && shown.contains("1 items"), "{shown}");
        for shown in [shown, made] {
            let digits = [SEED.to_string(), format!("{SEED:x}")];
            assert!(
                !shown.contains('\n') && !digits.iter().any(|digits| shown.contains(digits)),
                "{shown}"
            );
        }
    }
}
