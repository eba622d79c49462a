//! What of a user goes into its requests.

/// Values for the placeholders of a request that are of a virtual user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values<'a> {
    /// By the index of the variable.
    pub(crate) variables: &'a [String],
    /// The value of `Cookie` (RFC 6265 §4.2).
    pub(crate) cookies: &'a str,
}

impl Values<'_> {
    /// Of a request that is nobody's.
    pub(crate) const NONE: Values<'static> = Values {
        variables: &[],
        cookies: "",
    };

    /// A variable; of nobody a value that may stand wherever one may.
    pub(crate) fn variable(&self, index: usize) -> &str {
        self.variables.get(index).map_or("x", String::as_str)
    }
}
