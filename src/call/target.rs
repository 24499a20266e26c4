//! What a command creates, with every option resolved, and the token in which a server tells it to replicas and files.

use std::ffi::CStr;
use std::str::{FromStr, Split};

use super::words::Words;
use libbloom::params::{
    Capacity, ErrorRate, Expansion, Growth, LATEST, Seed, SipSeed, Tightening, Time, Window,
};
use libbloom::spec::{BlockedSpec, ClassicSpec, Spec, ValkeySpec};

/// A key to be created with its filter, with every option resolved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Creation {
    /// The filter.
    pub filter: Spec,
    /// When the key expires, in milliseconds of the Unix clock.
    pub expires: Option<i64>,
}

impl From<Spec> for Creation {
    /// A key without an expiry.
    fn from(filter: Spec) -> Self {
        Self {
            filter,
            expires: None,
        }
    }
}

/// The filter that a command changed, as the propagated command must describe it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// The filter if the same command created it; `None` for an existing one.
    pub created: Option<Creation>,
    /// The time of the change, for a filter with a window.
    pub at: Option<Time>,
}

impl From<Creation> for Target {
    /// A new filter that no item with a time was added to.
    fn from(creation: Creation) -> Self {
        Self {
            created: Some(creation),
            at: None,
        }
    }
}

/// How a token begins. The number is the version of the fields after it.
const SPEC: &[u8] = b"SPEC1:";

/// Whether this is a token, of any version. RedisBloom and valkey-bloom refuse it.
pub(crate) fn is_spec(word: &[u8]) -> bool {
    word.starts_with(b"SPEC")
}

/// The command with the token for a filter that was created, in the form that docs/design.md describes.
pub(crate) fn spec(command: &'static CStr, created: Creation, at: Option<Time>) -> Words {
    let Creation { filter, expires } = created;
    let mut words = Words::of(command);
    let kind = match filter {
        Spec::Blocked(BlockedSpec { window: Some(_), .. }) => b"SPEC1:w",
        Spec::Blocked(BlockedSpec { growth, .. }) => match growth {
            Growth::Fixed => b"SPEC1:f",
            Growth::Reserved(_) => b"SPEC1:r",
            Growth::Growing(_) => b"SPEC1:g",
        },
        Spec::Classic(spec) if spec.rules().scales() => b"SPEC1:c",
        Spec::Classic(_) => b"SPEC1:n",
        Spec::Valkey(_) => b"SPEC1:v",
    };
    let expansion = match filter {
        Spec::Classic(spec) => spec.rules().expansion(),
        filter => filter.expansion().unwrap_or(0),
    };
    words.word().bytes(kind).bytes(b":").rate(filter.error_rate());
    words.bytes(b":").number(filter.capacity());
    words.bytes(b":").number(expansion.into());
    match filter {
        Spec::Blocked(spec) => words.bytes(b":").number(spec.seed.0),
        Spec::Classic(_) => words.bytes(b":").number(0),
        Spec::Valkey(spec) => words.bytes(b":").hex(&spec.rules().seed().0),
    };
    words.bytes(b":").number(expires.map_or(0, i64::cast_unsigned));
    match filter {
        Spec::Blocked(BlockedSpec {
            window: Some(window), ..
        }) => {
            words.bytes(b":").number(window.seconds().into());
            words.bytes(b":").number(window.slices().into());
            words.bytes(b":").number(window.refresh().into());
            at.map(|at| words.bytes(b":").number(at));
        }
        Spec::Blocked(_) | Spec::Classic(_) => {}
        Spec::Valkey(spec) => _ = words.bytes(b":").rate(spec.rules().tightening().value()),
    }
    words
}

/// Reads a [token](spec); `None` if it is malformed.
pub(crate) fn of_spec(token: &[u8]) -> Option<Target> {
    let fields = &mut str::from_utf8(token.strip_prefix(SPEC)?).ok()?.split(':');
    let (kind, rate) = (fields.next()?, field(fields)?);
    let (capacity, factor) = (field(fields)?, field(fields)?);
    let (seed, expires): (_, u64) = (fields.next()?, field(fields)?);
    let (mut window, mut at) = (None, None);
    let filter = match kind {
        "c" | "n" => Spec::Classic(ClassicSpec::new(rate, capacity, factor, kind == "c").ok()?),
        "v" => {
            let tightening = Tightening::new(field(fields)?).ok()?;
            Spec::Valkey(ValkeySpec::new(rate, capacity, factor, tightening, sip_seed(seed)?).ok()?)
        }
        _ => {
            let growth = match kind {
                "f" => Growth::Fixed,
                "g" => Growth::Growing(Expansion::new(factor).ok()?),
                "r" | "w" => Growth::Reserved(Expansion::new(factor).ok()?),
                _ => return None,
            };
            if kind == "w" {
                let (seconds, slices) = (field(fields)?, field(fields)?);
                let refresh = match fields.next()? {
                    "0" => false,
                    "1" => true,
                    _ => return None,
                };
                window = Some(Window::new(seconds, slices, refresh).ok()?);
                at = match fields.next() {
                    Some(at) => Some(at.parse().ok().filter(|&at| at <= LATEST)?),
                    None => None,
                };
            }
            Spec::Blocked(BlockedSpec {
                error_rate: ErrorRate::new(rate).ok().filter(|used| used.value() == rate)?,
                capacity: Capacity::new(capacity).ok()?,
                growth,
                seed: Seed(seed.parse().ok()?),
                window,
            })
        }
    };
    let expires = i64::try_from(expires).ok()?;
    let expires = Some(expires).filter(|&at| at > 0);
    let created = Some(Creation { filter, expires });
    fields.next().is_none().then_some(Target { created, at })
}

fn field<T: FromStr>(fields: &mut Split<'_, char>) -> Option<T> {
    fields.next()?.parse().ok()
}

fn sip_seed(digits: &str) -> Option<SipSeed> {
    let mut seed = [0; 32];
    let digits = digits.as_bytes();
    if digits.len() != 2 * seed.len() {
        return None;
    }
    for (byte, pair) in seed.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(SipSeed(seed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate() -> impl Strategy<Value = f64> {
        prop_oneof![
            1e-30..0.25,
            Just(ErrorRate::LOWEST_USED),
            Just(ErrorRate::HIGHEST_USED),
            Just(0.01),
            (-30.0..-0.61_f64).prop_map(|exponent| 10_f64.powf(exponent)),
        ]
    }

    fn blocked() -> impl Strategy<Value = (Spec, Option<Time>)> {
        let growth = (0..4, 1..=Expansion::MAX);
        let window = (
            1..=Window::MAX_SECONDS,
            Window::SLICES,
            any::<bool>(),
            proptest::option::of(0..=LATEST),
        );
        (rate(), 1..=Capacity::MAX, growth, any::<u64>(), window).prop_map(
            |(rate, capacity, (kind, factor), seed, (seconds, slices, refresh, at))| {
                let expansion = Expansion::new(factor).unwrap();
                let growth = match kind {
                    0 => Growth::Fixed,
                    1 => Growth::Growing(expansion),
                    _ => Growth::Reserved(expansion),
                };
                let window = (kind == 3).then(|| Window::new(seconds, slices, refresh).unwrap());
                let spec = BlockedSpec {
                    error_rate: ErrorRate::new(rate).unwrap(),
                    capacity: Capacity::new(capacity).unwrap(),
                    growth,
                    seed: Seed(seed),
                    window,
                };
                (Spec::Blocked(spec), at.filter(|_| window.is_some()))
            },
        )
    }

    fn classic() -> impl Strategy<Value = (Spec, Option<Time>)> {
        let rate = prop_oneof![1e-300..1.0, rate(), Just(1.0 - f64::EPSILON / 2.0)];
        (rate, 1..=u64::MAX, any::<u32>(), any::<bool>()).prop_map(|(rate, capacity, factor, scales)| {
            (
                Spec::Classic(ClassicSpec::new(rate, capacity, factor, scales).unwrap()),
                None,
            )
        })
    }

    fn valkey() -> impl Strategy<Value = (Spec, Option<Time>)> {
        let share = || prop_oneof![f64::MIN_POSITIVE..1.0, Just(5e-324), Just(0.5), 1e-300..1e-290];
        (
            share(),
            1..=i64::MAX.cast_unsigned(),
            any::<u32>(),
            share(),
            any::<[u8; 32]>(),
        )
            .prop_map(|(rate, capacity, factor, ratio, seed)| {
                let tightening = Tightening::new(ratio).unwrap();
                let spec = ValkeySpec::new(rate, capacity, factor, tightening, SipSeed(seed)).unwrap();
                (Spec::Valkey(spec), None)
            })
    }

    fn created() -> impl Strategy<Value = Target> {
        let filter = prop_oneof![blocked(), classic(), valkey()];
        (filter, proptest::option::of(1..=i64::MAX)).prop_map(|((filter, at), expires)| {
            let created = Some(Creation { filter, expires });
            Target { created, at }
        })
    }

    fn token(target: Target) -> Vec<u8> {
        let words = spec(c"BF.INSERT", target.created.unwrap(), target.at);
        let mut list = words.list();
        let token = list.next().unwrap().bytes().to_vec();
        assert!(list.next().is_none(), "more than one word");
        token
    }

    proptest! {
        /// A replica's filter is its primary's, whatever that was created with.
        #[test]
        fn a_token_is_read_as_what_was_created(target in created()) {
            prop_assert_eq!(of_spec(&token(target)), Some(target));
        }

        /// A damaged token is refused, or it is the token of some other filter: nothing in between.
        #[test]
        fn a_damaged_token_is_refused_or_another_filter_s(target in created(), at: prop::sample::Index, byte: u8) {
            let mut token = token(target);
            let at = at.index(token.len());
            token[at] = byte;
            if let Some(read) = of_spec(&token) {
                let again = spec(c"BF.INSERT", read.created.unwrap(), read.at);
                prop_assert_eq!(again.list().next().and_then(|word| of_spec(word.bytes())), Some(read));
            }
        }
    }

    /// A damaged token would make another filter on a replica than its primary has.
    #[test]
    fn tokens_that_no_server_writes_are_refused() {
        let good = "SPEC1:g:1e-2:100:2:7:0";
        assert!(of_spec(good.as_bytes()).is_some());
        for bad in [
            "",
            "SPEC",
            "SPEC1:",
            "SPEC2:g:1e-2:100:2:7:0",
            "spec1:g:1e-2:100:2:7:0",
            "SPEC1:x:1e-2:100:2:7:0",
            "SPEC1:g:1e-2:100:2:7",
            "SPEC1:g:1e-2:100:2:7:0:",
            "SPEC1:g:1e-2:100:2:7:0:1",
            "SPEC1:g:0.5:100:2:7:0",
            "SPEC1:g:nan:100:2:7:0",
            "SPEC1:g:1e-2:0:2:7:0",
            "SPEC1:g:1e-2:1099511627777:2:7:0",
            "SPEC1:g:1e-2:100:0:7:0",
            "SPEC1:g:1e-2:100:32769:7:0",
            "SPEC1:g:1e-2:100:2:-7:0",
            "SPEC1:g:1e-2:100:2:7:9223372036854775808",
            "SPEC1:w:1e-2:100:2:7:0",
            "SPEC1:w:1e-2:100:2:7:0:0:8:0:1",
            "SPEC1:w:1e-2:100:2:7:0:9:65:0:1",
            "SPEC1:w:1e-2:100:2:7:0:9:8:0:4611686018427387905",
            "SPEC1:w:1e-2:100:2:7:0:9:8:0:1:1",
            "SPEC1:c:1:100:2:0:0",
            "SPEC1:v:1e-2:100:2:7:0:5e-1",
            "SPEC1:v:1e-2:100:2:é:0:5e-1",
            "SPEC1:g:1e-2:100:2:7:0\0",
        ] {
            assert_eq!(of_spec(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(of_spec(b"SPEC1:g:1e-2:100:2:\xff:0"), None);
    }
}
