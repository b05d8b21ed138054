//! What lies below what: who subscribed to `file:///a` is told of `file:///a/b`.

/// The names that `name` lies below: what stands before each `/`, with it and without it.
pub(super) fn above(name: &str) -> impl Iterator<Item = &str> {
    let slashes = name.char_indices().filter(|(_, c)| *c == '/').map(|(at, _)| at);
    let both = slashes.flat_map(|at| [at, at + 1]);
    both.filter(move |at| *at > 0 && *at < name.len()).filter_map(|at| name.get(..at))
}

pub(super) fn lies_below(name: &str, above: &str) -> bool {
    name.strip_prefix(above).is_some_and(|rest| !rest.is_empty() && (above.ends_with('/') || rest.starts_with('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_below_what() {
        let all: Vec<_> = above("file:///a/b").collect();
        assert_eq!(all, ["file:", "file:/", "file:/", "file://", "file://", "file:///", "file:///a", "file:///a/"]);
        assert!(lies_below("file:///a/b", "file:///a") && lies_below("file:///a/b", "file:///a/"));
        assert!(!lies_below("file:///ab", "file:///a") && !lies_below("file:///a", "file:///a"));
        assert_eq!(above("a/").collect::<Vec<_>>(), ["a"]);
        assert_eq!(above("").count(), 0);
    }
}
