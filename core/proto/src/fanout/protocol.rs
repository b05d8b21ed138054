//! The shape of a protocol's table.

use core::fmt;

/// What a protocol says about telling peers of changes. All of it is data.
#[derive(Debug)]
pub struct Protocol {
    /// Its name, for people.
    pub name: &'static str,
    /// Its versions, oldest first.
    pub versions: &'static [Version],
    /// What can change. At most 32.
    pub kinds: &'static [Kind],
    /// The notifications that tell of it. At most 32.
    pub methods: &'static [Method],
    /// The notification that comes first on a listener's stream, if the protocol has listeners.
    pub acknowledged: &'static str,
    /// Its member that repeats the honoured filter.
    pub acknowledged_member: &'static str,
    /// The `_meta` key with the listener's id.
    pub listener_id: &'static str,
}

/// One version of a protocol.
#[derive(Debug)]
pub struct Version {
    /// Its name on the wire.
    pub name: &'static str,
    /// Peers are told only within a filter that they have sent and that was acknowledged. Without it they are told what
    /// the server advertised.
    pub listens: bool,
}

/// Something that can change.
#[derive(Debug)]
pub struct Kind {
    /// Its name for hosts.
    pub name: &'static str,
    /// The place in [`Protocol::methods`] of what tells of it. Several kinds may have one method.
    pub method: usize,
}

/// What a notification is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// A list as a whole; the notification has no parameters.
    List,
    /// One thing, named in this member of the parameters.
    Named(&'static str),
    /// One thing, whose whole state is the parameters.
    State,
}

/// A notification.
#[derive(Debug)]
pub struct Method {
    /// Its name on the wire.
    pub name: &'static str,
    /// What it is about.
    pub about: About,
    /// The first version that has it, and the last, if it was removed.
    pub versions: (&'static str, Option<&'static str>),
    /// Where the server's capabilities must say `true` or hold an object; empty: nowhere.
    pub server: &'static [&'static str],
    /// Where the client's must.
    pub client: &'static [&'static str],
    /// The member of a listener's filter that asks for it: a boolean for a list, else an array of names.
    pub filter: Option<&'static str>,
}

macro_rules! set {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(u32);

        impl $name {
            /// None of them.
            pub const EMPTY: Self = Self(0);

            /// Just the one at that place of the table.
            pub const fn one(place: usize) -> Self {
                Self(1 << place)
            }

            /// Both together.
            #[must_use]
            pub const fn and(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// What both have.
            #[must_use]
            pub const fn common(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }

            /// What `other` does not have.
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// Whether the one at that place is in it.
            pub const fn has(self, place: usize) -> bool {
                self.0 & (1 << place) != 0
            }

            /// Whether there is none.
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// The places, in order.
            pub fn places(self) -> impl Iterator<Item = usize> {
                let mut left = self.0;
                core::iter::from_fn(move || {
                    let place = left.trailing_zeros() as usize;
                    left &= left.wrapping_sub(1);
                    (place < 32).then_some(place)
                })
            }
        }
    };
}

set!(
    /// Some of a protocol's kinds.
    KindSet
);
set!(
    /// Some of a protocol's methods.
    MethodSet
);

/// A kind that the protocol does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKind {
    name: String,
    known: Vec<&'static str>,
}

impl fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kinds: {:?} is none; there are {}", self.name, self.known.join(", "))
    }
}

impl core::error::Error for UnknownKind {}

impl Protocol {
    /// The set of kinds of those names.
    ///
    /// # Errors
    /// [`UnknownKind`] for the first name that is none.
    pub fn kinds<S: AsRef<str>>(&self, names: impl IntoIterator<Item = S>) -> Result<KindSet, UnknownKind> {
        names.into_iter().try_fold(KindSet::EMPTY, |set, name| {
            let name = name.as_ref();
            match self.kinds.iter().position(|kind| kind.name == name) {
                Some(place) => Ok(set.and(KindSet::one(place))),
                None => {
                    Err(UnknownKind { name: name.to_owned(), known: self.kinds.iter().map(|kind| kind.name).collect() })
                }
            }
        })
    }

    /// The names of those kinds.
    pub fn names(&self, kinds: KindSet) -> impl Iterator<Item = &'static str> {
        kinds.places().filter_map(|place| self.kinds.get(place)).map(|kind| kind.name)
    }

    /// The methods that tell of those kinds; one that tells of several is in it once.
    pub fn methods(&self, kinds: KindSet) -> MethodSet {
        let methods = kinds.places().filter_map(|place| self.kinds.get(place));
        methods.fold(MethodSet::EMPTY, |set, kind| set.and(MethodSet::one(kind.method)))
    }

    /// Those methods that are about a list as a whole.
    pub fn lists(&self) -> MethodSet {
        self.all(|method| method.about == About::List)
    }

    pub(super) fn all(&self, is: impl Fn(&Method) -> bool) -> MethodSet {
        let places = self.methods.iter().enumerate().filter(|(_, method)| is(method));
        places.fold(MethodSet::EMPTY, |set, (place, _)| set.and(MethodSet::one(place)))
    }

    pub(super) fn version(&self, name: &str) -> Option<usize> {
        self.versions.iter().position(|version| version.name == name)
    }

    /// Whether the version at that place has the method.
    pub(super) fn has(&self, version: usize, method: &Method) -> bool {
        let (first, last) = method.versions;
        let from = self.version(first).is_some_and(|first| version >= first);
        from && last.is_none_or(|last| self.version(last).is_some_and(|last| version <= last))
    }
}
